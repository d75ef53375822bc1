//! The server over loopback: what it answers, in which order, and when it ends a connection.

mod client;
mod http2;
mod pressure;
mod protocol;
mod secure;

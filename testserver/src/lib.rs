//! Reference servers whose system calls per request are known exactly.
//!
//! A server of this crate answers requests for one file, over HTTP/1.1 or HTTP/2, in clear or over TLS. What makes it useful is not what
//! it serves but what it costs: [`Config::calls_per_request`] lists every system call that a request
//! causes, and nothing else happens. There is no log, no clock, no timer and no allocation in the
//! steady state. A profiler that is pointed at it has to find exactly that table, and
//! [`Injections`] add a known cost to it. [`Style`] is where a response comes from and how it is
//! sent; [`Polling`], [`Reading`] and [`Accepting`] can be combined with any of them.
//!
//! # What is exact, and when
//!
//! The table holds for one `GET` at a time per server (lock-step), for a file that fits into the
//! send buffer of the socket. Under concurrent load `epoll_wait` (or what else a worker waits with)
//! falls below its figure, because one wake-up brings the requests of several connections; every
//! other row stays what it is, but for `futex`, in which workers wait for a mutex that another one
//! holds. When a client reads so slowly that a write would block, calls are added: the interest in
//! the connection changes (`epoll_ctl`), and the rest is written after the next wake-up.
//!
//! A connection costs, once: `accept4` and `epoll_ctl` with the wake-up of the listening socket when
//! it begins, and a wake-up, the `recvfrom` that returns 0 and `close` when it ends; `epoll_ctl`
//! with epoll only. `TCP_NODELAY`
//! is set on the listening socket, from which Linux copies it to each connection, so it costs no
//! call.
//!
//! # TLS and HTTP/2
//!
//! Over TLS (rustls) a request costs the calls that it costs in clear, except that every write is a
//! `writev`: a session makes one call per read and one per write (of up to 64 records, that is one
//! mebibyte). A connection costs more: the reads and writes of the handshake, and at its end the
//! `writev` that says goodbye. `sendfile` and mapped files need a kernel that encrypts, so they are
//! refused.
//!
//! HTTP/2 (hyper and h2 on a tokio runtime per worker) leaves the calls to those crates. Over TLS the
//! table is exact in lock-step all the same: one `epoll_wait`, one `recvfrom`, one `writev`, and
//! those of the file and of what is injected. In clear, h2 reads into a buffer of some kibibytes that
//! is renewed when it is full, and what arrives then takes two `recvfrom`: one more in some thousand
//! requests. Bodies above the flow-control window of the client cost more of all three.
//!
//! # What it deliberately does not do
//!
//! It has no timeouts (a timer would need a clock), sends no `Date` header (the response never
//! changes), and takes no request bodies. It is made for measurements on a machine of one's own, not
//! for the internet.

#![deny(unsafe_code)]

mod body;
mod calls;
mod config;
mod connection;
mod error;
mod http2_worker;
mod knob;
mod outgoing;
mod poller;
mod request;
mod response;
mod ring_worker;
mod server;
mod serving;
mod spec;
mod spin;
mod stream;
mod style;
mod syscall;
mod timing;
mod tls;
mod worker;

pub use calls::CallCount;
pub use config::{Body, Config, Injections};
pub use error::{ServeError, SpecError};
pub use server::{Server, StopHandle};
pub use spec::knobs;
pub use style::{Accepting, Polling, Reading, Style};
pub use timing::InjectedTimes;
pub use tls::CertificateFiles;

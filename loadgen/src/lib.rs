//! The load generator of whyfast: HTTP/1.1 and HTTP/2, in clear or over TLS, in a closed loop, with an account in which
//! every request appears exactly once.
//!
//! [`run`] drives a server as a [`Config`] says and returns the load half of a recording. [`fetch`]
//! makes one request with the same parser, for checking what a server answers.
//!
//! ```text
//! run (coordinating thread) -- orders --> worker (client threads: epoll loop)
//!      <-- notices: slices, legs --           |-- protocol  bytes in, bytes and ends out; no sockets
//!                                             |-- tls   the same, under the protocol
//!                                             |-- schedule   whether one more may be sent
//!                                             `-- tally, timeline   what was counted
//! ```
//!
//! It does not print, write files or handle signals, and it does not follow redirects: one request
//! in, one response out.

#![deny(unsafe_code)]

mod check;
mod clock;
mod config;
mod control;
mod crew;
mod error;
mod fetch;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod http1;
mod http2;
mod limits;
mod measures;
mod mix;
mod observed;
mod orders;
mod outcome;
mod pacer;
mod placeholder;
mod plan;
mod protocol;
mod proxy_protocol;
mod random;
pub mod redact;
mod request;
mod request_file;
mod resolver;
mod run;
mod run_queue;
mod schedule;
mod search;
mod selftest;
mod shape;
mod slices;
mod stages;
mod sys;
mod tally;
mod target;
mod timeline;
mod tls;
mod violations;
mod worker;

pub use check::Check;
pub use config::{Config, ConfigError, Stop, Warmup};
pub use control::{Control, StopHandle};
pub use error::{HandshakeError, LoadError};
pub use fetch::{FetchError, Fetched, fetch, fetch_with};
pub use http1::{Framing, ProtocolViolation};
pub use http2::Http2Config;
pub use mix::RequestSpec;
pub use proxy_protocol::ProxyProtocol;
pub use recording::HttpVersion;
pub use request_file::{RequestFileError, parse_statuses, read_body, read_requests};
pub use run::run;
pub use search::{Limit, LimitError, find_max};
pub use selftest::{SelftestCase, selftest};
pub use shape::{Pausing, Shape, ShapeError, Stage, Think};
pub use target::{Address, UrlError};
pub use tls::{ClientCertificate, Resumption, TlsConfig, TlsError, TlsVersion};

//! What can go wrong before and while a server runs.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::spec::{knob_names, style_names};

/// A spec that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Knobs that cannot be together.
    #[error("{knob} is not possible here: {why}")]
    Conflict {
        /// The knob.
        knob: &'static str,
        /// The reason, and what to do.
        why: &'static str,
    },
    /// The value of a knob is not a number, or too large.
    #[error("{knob} takes a whole number from 0 to {limit}, as in {knob}=1, not {found:?}")]
    KnobValue {
        /// The knob.
        knob: &'static str,
        /// What was given.
        found: String,
        /// The largest value.
        limit: u32,
    },
    /// The value of a knob is none of its words.
    #[error("{knob} is one of {known}, not {found:?}")]
    KnobWord {
        /// The knob.
        knob: &'static str,
        /// What was given.
        found: String,
        /// Its words.
        known: String,
    },
    /// A knob is given more than once.
    #[error("{knob} is given twice; give it once")]
    RepeatedKnob {
        /// The knob.
        knob: &'static str,
    },
    /// No such knob.
    #[error("unknown knob {found:?}; known are: {}", knob_names())]
    UnknownKnob {
        /// What was given.
        found: String,
    },
    /// No such style.
    #[error("unknown style {found:?}; known are: {}", style_names())]
    UnknownStyle {
        /// What was given.
        found: String,
    },
}

/// A server that cannot be bound, or that had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// No descriptor is left, and no connection is open whose end would free one.
    #[error("failed to accept a connection: {source}; raise the limit on open files (ulimit -n)")]
    Accept {
        /// What the kernel said.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error(
        "failed to listen on {address}: {source}; choose another address, or port 0 for a free one"
    )]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// No certificate could be made.
    #[error("failed to make a certificate: {source}")]
    Certificate {
        /// What the library said.
        source: rcgen::Error,
    },
    /// The configuration contradicts itself.
    #[error(transparent)]
    Config(#[from] SpecError),
    /// There are fewer CPUs than the server is told to use.
    #[error("{wanted} CPUs are to be used and {allowed} are allowed; lower cpus, or allow more")]
    Cpus {
        /// CPUs that are to be used.
        wanted: u32,
        /// CPUs that this process may use.
        allowed: u32,
    },
    /// The file cannot be served.
    #[error("failed to serve {path:?}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file is a folder, a pipe or a device.
    #[error("failed to serve {path:?}: not a regular file")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A system call failed that does not fail in working order.
    #[error("{call} failed: {source}")]
    Os {
        /// The call.
        call: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file of a certificate has something else in it.
    #[error("failed to read {path:?}: {source}; give a certificate and its key in PEM")]
    Pem {
        /// The file.
        path: PathBuf,
        /// What the library said.
        source: rustls::pki_types::pem::Error,
    },
    /// The kernel gives no `io_uring`.
    #[error(
        "failed to set up io_uring: {source}; see the sysctl kernel.io_uring_disabled, or choose \
         another poller"
    )]
    Ring {
        /// What the kernel said.
        source: io::Error,
    },
    /// Certificate and key do not go together.
    #[error("failed to set up TLS: {source}; give a certificate and the key that belongs to it")]
    Tls {
        /// What the library said.
        source: rustls::Error,
    },
    /// A worker thread panicked: a defect of this crate.
    #[error("a worker thread panicked")]
    WorkerPanicked,
}

impl ServeError {
    /// For `map_err` at a system call.
    pub(crate) fn os<E: Into<io::Error>>(call: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Os {
            call,
            source: source.into(),
        }
    }
}

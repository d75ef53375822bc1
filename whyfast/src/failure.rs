//! Errors that carry an exit code.
//!
//! Everything else that goes wrong is an `anyhow` error and exits with
//! [`recording::exit_code::FAILED`].

use recording::exit_code;

/// An error whose cause decides the exit code.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Failure {
    /// What the process exits with.
    pub(crate) code: u8,
    /// What happened, what was found, and the remedy.
    pub(crate) text: String,
}

impl Failure {
    /// The command line cannot be understood.
    pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
        Self {
            code: exit_code::USAGE,
            text: text.into(),
        }
        .into()
    }

    /// Something failed for a reason that has an exit code of its own.
    pub(crate) fn with_code(code: u8, text: impl Into<String>) -> anyhow::Error {
        Self {
            code,
            text: text.into(),
        }
        .into()
    }
}

/// The exit code of an error: of the first cause that has one.
pub(crate) fn exit_code_of(error: &anyhow::Error) -> u8 {
    error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Failure>().map(|failure| failure.code))
        .unwrap_or(exit_code::FAILED)
}

/// Whether an error only says that the reader of our output went away, which is no error.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

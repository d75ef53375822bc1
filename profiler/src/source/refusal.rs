//! What the kernel refused, as an error with its remedy.

use std::error::Error as StdError;
use std::io;

use crate::{ProfilerError, privileges};

/// The error with its remedy, if it is one of permissions or limits. EACCES is not: that is what the verifier
/// answers to a program that it does not accept.
pub(super) fn not_permitted(
    attempt: &str,
    error: &(dyn StdError + 'static),
) -> Option<ProfilerError> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let number = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error);
        if number == Some(libc::EMFILE) {
            return Some(ProfilerError::too_many_files(attempt));
        }
        if number == Some(libc::EPERM) {
            return Some(ProfilerError::NotPermitted {
                attempt: attempt.to_owned(),
                reason: privileges::why_not_permitted(),
            });
        }
        cause = error.source();
    }
    None
}

/// The error with all its causes.
pub(super) fn refused(what: &str, error: &(dyn StdError + 'static)) -> ProfilerError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let inner = error.to_string();
        if !text.contains(&inner) {
            text = format!("{text}: {inner}");
        }
        cause = error.source();
    }
    if let Some(reason) = privileges::why_not_verified(&text) {
        let attempt = format!("load {what}");
        return ProfilerError::NotPermitted { attempt, reason };
    }
    // The verifier's log can have megabytes; what it stumbled over is at its end.
    let skip = text
        .char_indices()
        .rev()
        .nth(MOST_CAUSE)
        .map_or(0, |(at, _)| at);
    ProfilerError::Refused {
        what: what.to_owned(),
        cause: text.split_off(skip),
    }
}

/// Characters of a cause that are kept.
const MOST_CAUSE: usize = 2000;

//! `--requests-from`: who counts the requests of a live server that whyfast does not load.

mod counter;
mod exposed;
mod log;

use std::path::PathBuf;

use recording::{NotMeasured, Profile, RequestCount, RequestSource, Window, exit_code};

use self::counter::Counter;
use self::log::Following;
use crate::failure::Failure;
use crate::machine::now_ns;

/// What `--requests-from` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestsFrom {
    /// An access log, with a line for each request.
    Log(PathBuf),
    /// A counter that the server exposes.
    Counter(Counter),
}

/// Reads `log=FILE`, or `url=URL` with the name of the counter after a `#`.
pub(crate) fn requests_from(text: &str) -> Result<RequestsFrom, String> {
    match text.split_once('=') {
        Some(("log", path)) if !path.is_empty() => Ok(RequestsFrom::Log(path.into())),
        Some(("url", url)) if !url.is_empty() => Ok(RequestsFrom::Counter(Counter::parse(url))),
        _ => Err(
            "write log=FILE for an access log, or url=URL for a counter that the server exposes"
                .to_owned(),
        ),
    }
}

/// Requests as they are counted while a target is watched.
#[derive(Debug)]
pub(crate) struct Counting {
    source: Source,
    origin: String,
    began_ns: u64,
}

#[derive(Debug)]
enum Source {
    Log(Following),
    Counter { counter: Counter, at_start: u64 },
}

impl Counting {
    /// Begins at what is there now. Fails where the source cannot be read, rather than after the window.
    pub(crate) fn begin(from: &RequestsFrom) -> anyhow::Result<Self> {
        let failed = |what: String| {
            Failure::with_code(exit_code::FAILED, format!("--requests-from: {what}"))
        };
        let source = match from {
            RequestsFrom::Log(path) => Source::Log(Following::begin(path).map_err(failed)?),
            RequestsFrom::Counter(counter) => Source::Counter {
                at_start: counter.read().map_err(failed)?,
                counter: counter.clone(),
            },
        };
        Ok(Self {
            source,
            origin: from.origin(),
            began_ns: now_ns(),
        })
    }

    /// Takes in what was logged since the last time. Call it at least every few hundred milliseconds: a log
    /// that is rotated twice in between has lines that nobody reads.
    pub(crate) fn attend(&mut self) {
        if let Source::Log(log) = &mut self.source {
            log.read();
        }
    }

    /// Counts to the end of the window, which is now.
    pub(crate) fn end(mut self, profile: &mut Profile) {
        self.attend();
        let mut window = Window {
            start_ns: self.began_ns,
            end_ns: now_ns(),
        };
        let (source, counted) = match self.source {
            Source::Log(log) => (RequestSource::AccessLog, log.end()),
            Source::Counter { counter, at_start } => {
                let counted = counter.since(at_start);
                // It was read when it answered.
                window.end_ns = now_ns();
                (RequestSource::Counter, counted)
            }
        };
        if let Err(why) = &counted {
            profile.not_measured.push(NotMeasured {
                what: "requests".to_owned(),
                why: why.clone(),
                remedy: Some(
                    "name another source with --requests-from log=FILE or url=URL".to_owned(),
                ),
            });
        }
        profile.requests = Some(RequestCount {
            source,
            origin: self.origin,
            requests: counted.ok(),
            window: Some(window),
            uncertainty: None,
        });
    }
}

impl RequestsFrom {
    /// For people, and for a recording that gets posted.
    fn origin(&self) -> String {
        match self {
            Self::Log(path) => path.display().to_string(),
            Self::Counter(counter) => counter.origin(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What can be named, and what is said about the rest.
    #[test]
    fn sources_are_named() {
        let log = requests_from("log=/var/log/a=b.log");
        assert_eq!(log, Ok(RequestsFrom::Log("/var/log/a=b.log".into())));
        assert!(matches!(
            requests_from("url=http://127.0.0.1/status#requests_total"),
            Ok(RequestsFrom::Counter(_))
        ));
        for wrong in ["", "log=", "url=", "/var/log/access.log", "turn"] {
            assert!(
                requests_from(wrong).is_err_and(|why| why.contains("log=FILE")),
                "{wrong}"
            );
        }
    }
}

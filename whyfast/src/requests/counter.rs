//! A counter of requests that a server exposes at an address, read before and after a window.

use std::sync::mpsc;
use std::time::Duration;

use loadgen::{Config, fetch_with};

use super::exposed;

/// Where the counter is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    url: String,
    /// Which of the counters there.
    name: Option<String>,
}

impl Counter {
    /// Reads `URL#NAME`.
    pub(super) fn parse(text: &str) -> Self {
        let (url, name) = match text.split_once('#') {
            Some((url, name)) => (url, Some(name.to_owned()).filter(|name| !name.is_empty())),
            None => (text, None),
        };
        Self {
            url: url.to_owned(),
            name,
        }
    }

    /// What it stands at now, or why that is not known.
    pub(super) fn read(&self) -> Result<u64, String> {
        let (answer, answered) = mpsc::sync_channel(1);
        let asked = self.clone();
        // A thread of its own, which ends by itself: a server that hangs does not hold up what waits here.
        std::thread::spawn(move || {
            let _nobody_waits_any_more = answer.send(asked.ask());
        });
        answered
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())))
            .map_err(|why| format!("the counter at {}: {why}", self.origin()))
    }

    /// By how much it went on.
    pub(super) fn since(&self, at_start: u64) -> Result<u64, String> {
        let at_end = self.read()?;
        at_end.checked_sub(at_start).ok_or_else(|| {
            format!(
                "the counter at {} went back from {at_start} to {at_end}: the server was started again in the \
                 window",
                self.origin()
            )
        })
    }

    /// The address without what may be secret in it, and the name.
    pub(super) fn origin(&self) -> String {
        let url = loadgen::redact::url(&self.url);
        match &self.name {
            Some(name) => format!("{url}#{name}"),
            None => url,
        }
    }

    fn ask(&self) -> Result<u64, String> {
        let fetched = fetch_with(&Config::new(&self.url)).map_err(|error| error.to_string())?;
        if fetched.status != 200 {
            return Err(format!("it answers with status {}", fetched.status));
        }
        if let Some(encoding) = fetched.content_encoding() {
            return Err(format!(
                "it answers in {}, which is not read",
                encoding.escape_debug()
            ));
        }
        exposed::requests(
            &String::from_utf8_lossy(&fetched.body),
            self.name.as_deref(),
        )
        .map_err(|error| error.to_string())
    }
}

/// A status page is small and made from memory.
const PATIENCE: Duration = Duration::from_secs(2);

//! What a server is told to do, and its short form on the command line.
//!
//! A spec is a style, then knobs: `sendfile,spin-us=5,getppid=10`. The rest of [`Config`] (address,
//! workers, file) is not part of it: those are the same for all servers of a comparison.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;

use crate::{CallCount, SpecError, Style};

/// What a server is told to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How requests are served.
    pub style: Style,
    /// Costs that are added to each request.
    pub injections: Injections,
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// Threads, each with its own epoll and its own listening socket. With more than one, the
    /// sockets share the port (`SO_REUSEPORT`) and the kernel spreads connections over them by a
    /// hash of their addresses, so with few connections some workers may get none.
    pub workers: NonZeroU32,
    /// What is served.
    pub body: Body,
}

/// What is served at `/` and at `/NAME`, where `NAME` is the file's name without its folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// An existing file.
    File(PathBuf),
    /// A file of so many bytes, generated in a private temporary folder that is removed with the
    /// server (before it serves, where the style keeps the file open). Its name is `body`.
    Generated(u64),
}

/// Costs that are added to each request, before its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injections {
    /// Microseconds of CPU time in user mode. The loop is calibrated when the server is bound and
    /// reads no clock afterwards, so it stays the same work when the thread is preempted.
    pub spin_us: u32,
    /// Calls of `getppid`.
    pub getppid: u32,
}

impl Config {
    /// One worker on a free port of 127.0.0.1, serving one byte.
    pub fn new(style: Style) -> Self {
        Self {
            style,
            injections: Injections::default(),
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            workers: NonZeroU32::MIN,
            body: Body::Generated(1),
        }
    }

    /// Reads a spec (`open-read,spin-us=5`); all that it does not say is as in [`Config::new`].
    pub fn parse(spec: &str) -> Result<Self, SpecError> {
        let mut parts = spec.split(',');
        let name = parts.next().unwrap_or_default();
        let style = Style::from_name(name).ok_or_else(|| SpecError::UnknownStyle {
            found: name.to_owned(),
        })?;
        let mut config = Self::new(style);
        let mut seen = Vec::new();
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let knob = Knob::from_name(name).ok_or_else(|| SpecError::UnknownKnob {
                found: name.to_owned(),
            })?;
            if seen.contains(&knob) {
                return Err(SpecError::RepeatedKnob { knob: knob.name() });
            }
            seen.push(knob);
            *knob.of(&mut config.injections) = knob.parse_value(value)?;
        }
        Ok(config)
    }

    /// The spec of this configuration, knobs at 0 left out.
    pub fn spec(&self) -> String {
        let mut injections = self.injections;
        let mut spec = self.style.name().to_owned();
        for knob in Knob::ALL {
            let value = *knob.of(&mut injections);
            if value > 0 {
                spec = format!("{spec},{}={value}", knob.name());
            }
        }
        spec
    }

    /// Every system call of one request in lock-step: the table of the style and what is injected.
    pub fn calls_per_request(&self) -> Vec<CallCount> {
        let mut calls = self.style.calls_per_request().to_vec();
        if self.injections.getppid > 0 {
            calls.push(CallCount {
                name: "getppid",
                per_request: self.injections.getppid,
                failing: 0,
            });
        }
        calls
    }
}

/// A number in a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knob {
    Getppid,
    SpinUs,
}

impl Knob {
    const ALL: [Self; 2] = [Self::Getppid, Self::SpinUs];

    fn name(self) -> &'static str {
        match self {
            Self::Getppid => "getppid",
            Self::SpinUs => "spin-us",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|knob| knob.name() == name)
    }

    fn of(self, injections: &mut Injections) -> &mut u32 {
        match self {
            Self::Getppid => &mut injections.getppid,
            Self::SpinUs => &mut injections.spin_us,
        }
    }

    fn parse_value(self, value: &str) -> Result<u32, SpecError> {
        match value.parse() {
            Ok(number) if number <= MAX_KNOB => Ok(number),
            _ => Err(SpecError::KnobValue {
                knob: self.name(),
                found: value.to_owned(),
                limit: MAX_KNOB,
            }),
        }
    }
}

/// The names of all knobs, for messages.
pub(crate) fn knob_names() -> String {
    Knob::ALL.map(Knob::name).join(", ")
}

/// The names of all styles, for messages.
pub(crate) fn style_names() -> String {
    Style::ALL.map(Style::name).join(", ")
}

/// A second of spinning or a million calls per request: beyond any use, and short of overflow.
const MAX_KNOB: u32 = 1_000_000;

impl fmt::Display for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(formatter, "{}", path.display()),
            Self::Generated(bytes) => write!(formatter, "{bytes} generated bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A spec sets its style and knobs, and leaves the rest alone.
    #[test]
    fn parses_style_and_knobs() {
        let config = Config::parse("open-read,spin-us=5,getppid=10").expect("a valid spec");
        assert_eq!(config.style, Style::OpenRead);
        assert_eq!(
            config.injections,
            Injections {
                spin_us: 5,
                getppid: 10
            }
        );
        assert_eq!(config.body, Body::Generated(1));
        assert_eq!(
            Config::parse("sendfile").expect("a valid spec"),
            Config::new(Style::Sendfile)
        );
    }

    /// A wrong spec says what was found and what would be right.
    #[test]
    fn names_what_is_wrong_and_what_is_known() {
        for (spec, expected) in [
            ("", "unknown style \"\"; known are: open-read, sendfile"),
            (
                "mmap",
                "unknown style \"mmap\"; known are: open-read, sendfile",
            ),
            (
                "sendfile,spin=5",
                "unknown knob \"spin\"; known are: getppid, spin-us",
            ),
            (
                "sendfile,",
                "unknown knob \"\"; known are: getppid, spin-us",
            ),
            (
                "sendfile,getppid",
                "getppid takes a whole number from 0 to 1000000, as in getppid=5, not \"\"",
            ),
            (
                "sendfile,spin-us=-1",
                "spin-us takes a whole number from 0 to 1000000, as in spin-us=5, not \"-1\"",
            ),
            (
                "sendfile,spin-us=1000001",
                "spin-us takes a whole number from 0 to 1000000, as in spin-us=5, not \"1000001\"",
            ),
            (
                "sendfile,getppid=1,getppid=2",
                "getppid is given twice; give it once",
            ),
            (
                "sendfile,\u{1b}[2J",
                "unknown knob \"\\u{1b}[2J\"; known are: getppid, spin-us",
            ),
        ] {
            let error = Config::parse(spec).expect_err(spec);
            assert_eq!(error.to_string(), expected, "{spec:?}");
        }
    }

    /// What is injected is added to the table of the style.
    #[test]
    fn injected_calls_are_in_the_table() {
        let config = Config::parse("sendfile,getppid=3,spin-us=9").expect("a valid spec");
        let calls = config.calls_per_request();
        assert_eq!(calls.len(), Style::Sendfile.calls_per_request().len() + 1);
        let added = calls.last().expect("a row was added");
        assert_eq!((added.name, added.per_request), ("getppid", 3));
    }

    proptest! {
        /// The spec of a configuration leads back to it.
        #[test]
        fn specs_round_trip(
            open_read: bool,
            spin_us in 0..=MAX_KNOB,
            getppid in 0..=MAX_KNOB,
        ) {
            let style = if open_read { Style::OpenRead } else { Style::Sendfile };
            let config = Config {
                injections: Injections { spin_us, getppid },
                ..Config::new(style)
            };
            prop_assert_eq!(Config::parse(&config.spec()).expect("its own spec"), config);
        }

        /// No text makes the parser panic.
        #[test]
        fn any_text_is_read_or_refused(spec in ".*") {
            let _outcome = Config::parse(&spec);
        }
    }
}

//! What a spec can set besides the style: each knob with its name, its values and its place in the
//! configuration.

use std::num::NonZeroU32;

use crate::spec::words;
use crate::style::Word;
use crate::{Accepting, Config, Polling, Reading, SpecError};

/// What a spec can set besides the style.
#[derive(Clone, Copy)]
pub(crate) struct Knob {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) summary: &'static str,
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Accept,
    Poller,
    Read,
    /// A number up to a limit, and where it stands.
    Number {
        limit: u32,
        read: fn(&Config) -> u32,
        write: fn(&mut Config, u32),
    },
}

impl Knob {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        KNOBS.iter().find(|knob| knob.name == name)
    }

    pub(crate) fn value(&self, config: &Config) -> String {
        match self.kind {
            Kind::Accept => config.accepting.word().to_owned(),
            Kind::Poller => config.polling.word().to_owned(),
            Kind::Read => config.reading.word().to_owned(),
            Kind::Number { read, .. } => read(config).to_string(),
        }
    }

    pub(crate) fn set(&self, config: &mut Config, value: &str) -> Result<(), SpecError> {
        match self.kind {
            Kind::Accept => config.accepting = self.word::<Accepting>(value)?,
            Kind::Poller => config.polling = self.word::<Polling>(value)?,
            Kind::Read => config.reading = self.word::<Reading>(value)?,
            Kind::Number { limit, write, .. } => match value.parse() {
                Ok(number) if number <= limit => write(config, number),
                _ => {
                    return Err(SpecError::KnobValue {
                        knob: self.name,
                        found: value.to_owned(),
                        limit,
                    });
                }
            },
        }
        Ok(())
    }

    fn word<W: Word>(&self, value: &str) -> Result<W, SpecError> {
        W::from_word(value).ok_or_else(|| SpecError::KnobWord {
            knob: self.name,
            found: value.to_owned(),
            known: words::<W>(),
        })
    }
}

impl Kind {
    pub(crate) fn values(self) -> String {
        match self {
            Self::Accept => words::<Accepting>(),
            Self::Poller => words::<Polling>(),
            Self::Read => words::<Reading>(),
            Self::Number { limit, .. } => format!("0 to {limit}"),
        }
    }
}

macro_rules! number {
    ($name:literal, $limit:expr, $summary:literal, $($field:ident).+) => {
        Knob {
            name: $name,
            kind: Kind::Number {
                limit: $limit,
                read: |config| config.$($field).+,
                write: |config, value| config.$($field).+ = value,
            },
            summary: $summary,
        }
    };
}

macro_rules! optional {
    ($name:literal, $limit:expr, $summary:literal, $field:ident) => {
        Knob {
            name: $name,
            kind: Kind::Number {
                limit: $limit,
                read: |config| config.$field.map_or(0, NonZeroU32::get),
                write: |config, value| config.$field = NonZeroU32::new(value),
            },
            summary: $summary,
        }
    };
}

macro_rules! flag {
    ($name:literal, $summary:literal, $field:ident) => {
        Knob {
            name: $name,
            kind: Kind::Number {
                limit: 1,
                read: |config| config.$field.into(),
                write: |config, value| config.$field = value == 1,
            },
            summary: $summary,
        }
    };
}

/// All of them, in the order of lists.
pub(crate) const KNOBS: [Knob; 18] = [
    Knob {
        name: "poller",
        kind: Kind::Poller,
        summary: "what workers wait with",
    },
    Knob {
        name: "read",
        kind: Kind::Read,
        summary: "read a socket until a short read, or until EAGAIN",
    },
    Knob {
        name: "accept",
        kind: Kind::Accept,
        summary: "how several workers take connections",
    },
    flag!("tls", "1 encrypts connections", tls),
    flag!(
        "h2",
        "1 speaks HTTP/2 instead of HTTP/1.1 (hyper on tokio)",
        http2
    ),
    optional!(
        "workers",
        1024,
        "threads; 0 leaves it to --workers",
        workers
    ),
    optional!(
        "cpus",
        1024,
        "CPUs that are used, of those allowed; 0 is all",
        cpus
    ),
    optional!(
        "max-events",
        4096,
        "events per wake-up; 0 is 512",
        max_events
    ),
    number!(
        "spin-us",
        MAX_KNOB,
        "microseconds of CPU time in user mode",
        injections.spin_us
    ),
    number!("getppid", MAX_KNOB, "calls of getppid", injections.getppid),
    number!(
        "open",
        MAX_KNOB,
        "times the file is opened, examined and closed",
        injections.open
    ),
    number!(
        "fstat",
        MAX_KNOB,
        "times the open file is examined",
        injections.fstat
    ),
    number!(
        "sleep-us",
        MAX_KNOB,
        "microseconds of sleep",
        injections.sleep_us
    ),
    number!(
        "lock-us",
        MAX_KNOB,
        "microseconds of sleep holding a mutex that all workers share",
        injections.lock_us
    ),
    number!(
        "split",
        64,
        "writes that the first one is cut into",
        injections.split
    ),
    number!(
        "error-every",
        MAX_KNOB,
        "of so many requests one fails, with status 500; 0 is never",
        injections.error_every
    ),
    flag!(
        "gzip",
        "1 compresses the body, whatever the client accepts",
        gzip
    ),
    number!(
        "head-bytes",
        8192,
        "length that heads are filled up to",
        head_bytes
    ),
];

/// A second of spinning or a million calls per request: beyond any use, and short of overflow.
pub(crate) const MAX_KNOB: u32 = 1_000_000;

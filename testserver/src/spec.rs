//! The short form of a configuration on the command line.
//!
//! A spec is a style, then knobs: `sendfile,poller=poll,spin-us=5`. The address and the file are not
//! part of it: those are the same for all servers of a comparison.

use std::num::NonZeroU32;

use crate::style::Word;
use crate::{Accepting, Config, Polling, Reading, SpecError, Style};

/// Reads a spec.
pub(crate) fn parse(text: &str) -> Result<Config, SpecError> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    let style = Style::from_word(name).ok_or_else(|| SpecError::UnknownStyle {
        found: name.to_owned(),
    })?;
    let mut config = Config::new(style);
    let mut seen = Vec::new();
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let knob = Knob::named(name).ok_or_else(|| SpecError::UnknownKnob {
            found: name.to_owned(),
        })?;
        if seen.contains(&knob.name) {
            return Err(SpecError::RepeatedKnob { knob: knob.name });
        }
        seen.push(knob.name);
        knob.set(&mut config, value)?;
    }
    check(&config)?;
    Ok(config)
}

/// The spec of a configuration; what is as it would be anyway is left out.
pub(crate) fn write(config: &Config) -> String {
    let plain = Config::new(config.style);
    let mut text = config.style.name().to_owned();
    for knob in KNOBS {
        let value = knob.value(config);
        if value != knob.value(&plain) {
            text = format!("{text},{}={value}", knob.name);
        }
    }
    text
}

/// What a spec can set besides the style: name, values, and one line on what it does.
pub fn knobs() -> impl Iterator<Item = (&'static str, String, &'static str)> {
    KNOBS
        .iter()
        .map(|knob| (knob.name, knob.kind.values(), knob.summary))
}

/// The names of all knobs, for messages.
pub(crate) fn knob_names() -> String {
    KNOBS.map(|knob| knob.name).join(", ")
}

/// The names of all styles, for messages.
pub(crate) fn style_names() -> String {
    words::<Style>()
}

fn words<W: Word>() -> String {
    let words: Vec<&str> = W::WORDS.iter().map(|(word, _)| *word).collect();
    words.join(", ")
}

/// What cannot be together.
fn check(config: &Config) -> Result<(), SpecError> {
    let lists = matches!(config.polling, Polling::Poll | Polling::Select);
    if lists && config.max_events.is_some() {
        return Err(SpecError::Conflict {
            knob: "max-events",
            why: "poll and select report all that is ready; choose poller=epoll or io-uring",
        });
    }
    let others = [
        ("poller", config.polling != Polling::IoUring),
        ("read", config.reading != Reading::Short),
        ("split", config.injections.split > 1),
    ];
    let other = others.iter().find(|(_, is_other)| *is_other);
    if let Some((knob, _)) = other.filter(|_| config.style == Style::Ring) {
        return Err(SpecError::Conflict {
            knob,
            why: "the style ring leaves waiting, reading and sending to io_uring; choose memory",
        });
    }
    let epoll = matches!(config.polling, Polling::Epoll | Polling::EpollEdge);
    if config.accepting == Accepting::Exclusive && !epoll {
        return Err(SpecError::Conflict {
            knob: "accept=exclusive",
            why: "only epoll can wake one waiter alone; choose poller=epoll",
        });
    }
    Ok(())
}

/// What a spec can set besides the style.
#[derive(Clone, Copy)]
struct Knob {
    name: &'static str,
    kind: Kind,
    summary: &'static str,
}

#[derive(Clone, Copy)]
enum Kind {
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
    fn named(name: &str) -> Option<&'static Self> {
        KNOBS.iter().find(|knob| knob.name == name)
    }

    fn value(&self, config: &Config) -> String {
        match self.kind {
            Kind::Accept => config.accepting.word().to_owned(),
            Kind::Poller => config.polling.word().to_owned(),
            Kind::Read => config.reading.word().to_owned(),
            Kind::Number { read, .. } => read(config).to_string(),
        }
    }

    fn set(&self, config: &mut Config, value: &str) -> Result<(), SpecError> {
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
    fn values(self) -> String {
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

const KNOBS: [Knob; 16] = [
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
    Knob {
        name: "gzip",
        kind: Kind::Number {
            limit: 1,
            read: |config| config.gzip.into(),
            write: |config, value| config.gzip = value == 1,
        },
        summary: "1 compresses the body, whatever the client accepts",
    },
    number!(
        "head-bytes",
        8192,
        "length that heads are filled up to",
        head_bytes
    ),
];

/// A second of spinning or a million calls per request: beyond any use, and short of overflow.
const MAX_KNOB: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Body, Injections};

    /// A spec sets its style and knobs, and leaves the rest alone.
    #[test]
    fn parses_style_and_knobs() {
        let config = parse("open-read,spin-us=5,getppid=10").expect("a valid spec");
        assert_eq!(config.style, Style::OpenRead);
        assert_eq!(
            config.injections,
            Injections {
                spin_us: 5,
                getppid: 10,
                ..Injections::default()
            }
        );
        assert_eq!(config.body, Body::Generated(1));
        assert_eq!(
            parse("sendfile").expect("a valid spec"),
            Config::new(Style::Sendfile)
        );
        let config = parse("memory,poller=io-uring,read=eagain,accept=shared,workers=4")
            .expect("a valid spec");
        assert_eq!(config.polling, Polling::IoUring);
        assert_eq!(config.reading, Reading::UntilEagain);
        assert_eq!(config.accepting, Accepting::Shared);
        assert_eq!(config.workers, NonZeroU32::new(4));
    }

    /// A wrong spec says what was found and what would be right.
    #[test]
    fn names_what_is_wrong_and_what_is_known() {
        let styles =
            "memory, mmap, open-read, pread, ring, sendfile, sendfile-uncorked, write-parts";
        for (spec, expected) in [
            ("", format!("unknown style \"\"; known are: {styles}")),
            (
                "apache",
                format!("unknown style \"apache\"; known are: {styles}"),
            ),
            (
                "sendfile,spin=5",
                format!("unknown knob \"spin\"; known are: {}", knob_names()),
            ),
            (
                "sendfile,\u{1b}[2J",
                format!("unknown knob \"\\u{{1b}}[2J\"; known are: {}", knob_names()),
            ),
            (
                "sendfile,getppid",
                "getppid takes a whole number from 0 to 1000000, as in getppid=1, not \"\"".into(),
            ),
            (
                "sendfile,spin-us=-1",
                "spin-us takes a whole number from 0 to 1000000, as in spin-us=1, not \"-1\""
                    .into(),
            ),
            (
                "sendfile,split=65",
                "split takes a whole number from 0 to 64, as in split=1, not \"65\"".into(),
            ),
            (
                "sendfile,poller=kqueue",
                "poller is one of epoll, epoll-edge, io-uring, poll, select, not \"kqueue\"".into(),
            ),
            (
                "sendfile,getppid=1,getppid=2",
                "getppid is given twice; give it once".into(),
            ),
            (
                "memory,poller=poll,max-events=1",
                "max-events is not possible here: poll and select report all that is ready; \
                 choose poller=epoll or io-uring"
                    .into(),
            ),
            (
                "ring,poller=epoll",
                "poller is not possible here: the style ring leaves waiting, reading and sending \
                 to io_uring; choose memory"
                    .into(),
            ),
        ] {
            let error = parse(spec).expect_err(spec);
            assert_eq!(error.to_string(), expected, "{spec:?}");
        }
    }

    proptest! {
        /// The spec of a configuration leads back to it.
        #[test]
        fn specs_round_trip(
            style in 0..Style::ALL.len(),
            polling in 0..Polling::WORDS.len(),
            eagain: bool,
            gzip: bool,
            numbers in proptest::array::uniform7(0..=MAX_KNOB),
            small in proptest::array::uniform3(0_u32..=64),
        ) {
            let [spin_us, getppid, open, fstat, sleep_us, lock_us, error_every] = numbers;
            let [split, workers, cpus] = small;
            prop_assume!(Style::ALL[style] != Style::Ring);
            let config = Config {
                polling: Polling::WORDS[polling].1,
                reading: if eagain { Reading::UntilEagain } else { Reading::Short },
                injections: Injections {
                    spin_us, getppid, open, fstat, sleep_us, lock_us, split, error_every,
                },
                workers: NonZeroU32::new(workers),
                cpus: NonZeroU32::new(cpus),
                gzip,
                ..Config::new(Style::ALL[style])
            };
            prop_assert_eq!(parse(&config.spec()).expect("its own spec"), config);
        }

        /// No text makes the parser panic.
        #[test]
        fn any_text_is_read_or_refused(spec in ".*") {
            let _outcome = parse(&spec);
        }
    }
}

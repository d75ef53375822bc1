//! The short form of a configuration on the command line.
//!
//! A spec is a style, then knobs: `sendfile,poller=poll,spin-us=5`. The address and the file are not
//! part of it: those are the same for all servers of a comparison.

use crate::knob::{KNOBS, Knob};
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

/// The words of a knob, for messages and lists.
pub(crate) fn words<W: Word>() -> String {
    let words: Vec<&str> = W::WORDS.iter().map(|(word, _)| *word).collect();
    words.join(", ")
}

/// What cannot be together.
pub(crate) fn check(config: &Config) -> Result<(), SpecError> {
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
    check_protocol(config)?;
    let epoll = matches!(config.polling, Polling::Epoll | Polling::EpollEdge);
    if config.accepting == Accepting::Exclusive && !epoll {
        return Err(SpecError::Conflict {
            knob: "accept=exclusive",
            why: "only epoll can wake one waiter alone; choose poller=epoll",
        });
    }
    Ok(())
}

/// What cannot be together with TLS or HTTP/2.
fn check_protocol(config: &Config) -> Result<(), SpecError> {
    let conflict = |knob, why| Err(SpecError::Conflict { knob, why });
    if config.http2 {
        if !matches!(config.style, Style::Memory | Style::OpenRead | Style::Pread) {
            return conflict("h2", "only memory, open-read and pread serve HTTP/2");
        }
        let others = [
            ("poller", config.polling != config.style.polling()),
            ("read", config.reading != config.style.reading()),
            ("accept=exclusive", config.accepting == Accepting::Exclusive),
            ("split", config.injections.split > 1),
            ("head-bytes", config.head_bytes > 0),
        ];
        if let Some((knob, _)) = others.iter().find(|(_, is_other)| *is_other) {
            return conflict(
                knob,
                "with h2=1 hyper and tokio wait, read and write as they do; leave it out",
            );
        }
    }
    let in_memory = matches!(
        config.style,
        Style::Memory | Style::OpenRead | Style::Pread | Style::WriteParts
    );
    if config.tls && !in_memory {
        return conflict(
            "tls",
            "the kernel cannot encrypt what it sends of a file by itself; choose memory, open-read, pread \
             or write-parts",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;
    use crate::knob::MAX_KNOB;
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

    /// TLS and HTTP/2 take the styles that answer from memory, and HTTP/2 nothing that hyper decides.
    #[test]
    fn protocols_refuse_what_they_cannot_have() {
        let refuses = |spec: &str| match parse(spec) {
            Err(SpecError::Conflict { knob, .. }) => Some(knob),
            _ => None,
        };
        for style in Style::ALL.map(Style::name) {
            let encrypted = ["memory", "open-read", "pread", "write-parts"].contains(&style);
            let spec = format!("{style},tls=1");
            assert_eq!(refuses(&spec), (!encrypted).then_some("tls"), "{spec}");
            let framed = encrypted && style != "write-parts";
            let spec = format!("{style},tls=1,h2=1");
            assert_eq!(refuses(&spec), (!framed).then_some("h2"), "{spec}");
        }
        for (spec, knob) in [
            ("memory,h2=1,poller=poll", "poller"),
            ("pread,h2=1,read=eagain", "read"),
            ("memory,h2=1,split=2", "split"),
            ("memory,h2=1,head-bytes=300", "head-bytes"),
            ("memory,h2=1,accept=exclusive", "accept=exclusive"),
        ] {
            assert_eq!(refuses(spec), Some(knob), "{spec}");
        }
        assert_eq!(refuses("open-read,h2=1,max-events=1,split=1"), None);
    }

    /// A server speaks what its clients speak, unless its spec says more.
    #[test]
    fn servers_speak_what_clients_speak() {
        let spoken = |spec: &str, tls, http2| {
            let config = parse(spec).expect("a valid spec").speaking(tls, http2);
            config.map(|config| config.spec())
        };
        assert_eq!(spoken("memory", false, false).as_deref(), Ok("memory"));
        let both = "memory,tls=1,h2=1";
        for spec in ["memory", "memory,h2=1", both] {
            assert_eq!(spoken(spec, true, true).as_deref(), Ok(both));
        }
        assert!(spoken("memory,tls=1", false, true).is_err());
        assert!(spoken("memory,h2=1", true, false).is_err());
        assert!(spoken("sendfile", true, false).is_err());
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

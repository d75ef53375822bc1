//! The load generator against itself: hostile servers in this process, whose own counts have to
//! equal the account of the load.

mod server;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use recording::{FailureClass, Load};
use rustix::io::Errno;

use crate::config::{Config, Stop};
use crate::error::LoadError;
use crate::run::run;
use server::{Counts, Deed, Server};

/// One hostile server, and whether the account is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelftestCase {
    /// What the server does.
    pub name: &'static str,
    /// What was counted, for people.
    pub account: String,
    /// Where the counts of client and server differ; empty when they are equal.
    pub problems: Vec<String>,
}

/// Runs every case; a few seconds.
pub fn selftest() -> Result<Vec<SelftestCase>, LoadError> {
    CASES.iter().map(run_case).collect()
}

struct Case {
    name: &'static str,
    decide: fn(u64, u64) -> Deed,
    /// Limit on a request; short where a server hangs.
    timeout: Duration,
}

const CASES: &[Case] = &[
    case("answers", |_, _| Deed::Answer),
    case("answers in single bytes, with trailers", |_, _| {
        Deed::AnswerInPieces
    }),
    case("answers behind interim responses", |_, _| {
        Deed::AnswerAfterInterim
    }),
    case("ends every body with the connection", |_, _| {
        Deed::AnswerUntilClose
    }),
    case(
        "closes silently after every third answer",
        |_, nth| match nth {
            3 => Deed::AnswerAndClose { announced: false },
            _ => Deed::Answer,
        },
    ),
    case(
        "announces the end with every third answer",
        |_, nth| match nth {
            3 => Deed::AnswerAndClose { announced: true },
            _ => Deed::Answer,
        },
    ),
    case("vanishes instead of the third answer", |_, nth| match nth {
        3 => Deed::Vanish,
        _ => Deed::Answer,
    }),
    case("answers every fourth with 500", |total, _| {
        match total % 4 {
            0 => Deed::BadStatus,
            _ => Deed::Answer,
        }
    }),
    case("cuts every fifth body", |total, _| match total % 5 {
        0 => Deed::Short,
        _ => Deed::Answer,
    }),
    case("resets inside every fifth head", |total, _| {
        match total % 5 {
            0 => Deed::Reset,
            _ => Deed::Answer,
        }
    }),
    case("answers every sixth with garbage", |total, _| {
        match total % 6 {
            0 => Deed::Garbage,
            _ => Deed::Answer,
        }
    }),
    Case {
        name: "never answers every fortieth",
        decide: |total, _| match total % 40 {
            0 => Deed::Hang,
            _ => Deed::Answer,
        },
        timeout: Duration::from_millis(300),
    },
    case("does all of it in turn", |total, nth| match total % 12 {
        0 => Deed::BadStatus,
        1 => Deed::Short,
        3 => Deed::Reset,
        5 => Deed::Garbage,
        7 => Deed::AnswerUntilClose,
        9 => Deed::AnswerAfterInterim,
        10 if nth > 1 => Deed::Vanish,
        _ => Deed::AnswerInPieces,
    }),
];

const fn case(name: &'static str, decide: fn(u64, u64) -> Deed) -> Case {
    Case {
        name,
        decide,
        timeout: Duration::from_secs(10),
    }
}

fn run_case(case: &Case) -> Result<SelftestCase, LoadError> {
    let mut server = Server::start(case.decide).map_err(|error| LoadError::Os {
        call: "bind of the server of the selftest",
        errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
    })?;
    let mut config = Config::new(format!("http://{}/", server.address));
    config.connections = 4;
    config.threads = 2;
    config.stop = Stop::Requests(REQUESTS);
    config.timeout = case.timeout;
    let load = run(&config, &mut ())?;
    let counts = std::sync::Arc::clone(&server.counts);
    // A connection whose opening the client saw is accepted before the one that ends the server.
    server.end();
    let ledger = &load.ledger;
    Ok(SelftestCase {
        name: case.name,
        account: format!(
            "{} sent = {} ok + {} failed; {} replayed, {} connections",
            ledger.sent,
            ledger.ok,
            ledger.failed_total(),
            ledger.replayed,
            load.connections.open_at_start + load.connections.established
        ),
        problems: problems(&load, &counts),
    })
}

/// Every figure that client and server both know, where they differ.
fn problems(load: &Load, counts: &Counts) -> Vec<String> {
    let ledger = &load.ledger;
    let of = |class| -> u64 {
        let failed = ledger.failed.iter();
        let of_class = failed.filter(|failure| failure.class == class);
        of_class.map(|failure| failure.count).sum()
    };
    let count = |count: &AtomicU64| count.load(Ordering::SeqCst);
    let vanished = count(&counts.vanished);
    let connections = &load.connections;
    let mut problems = Vec::new();
    let pairs = [
        ("requests", ledger.sent, REQUESTS),
        ("good responses", ledger.ok, count(&counts.ok)),
        (
            "bad statuses",
            of(FailureClass::Status),
            count(&counts.bad_status),
        ),
        (
            "cut bodies",
            of(FailureClass::ShortBody),
            count(&counts.short),
        ),
        ("resets", of(FailureClass::Reset), count(&counts.reset)),
        (
            "broken protocol",
            of(FailureClass::Protocol),
            count(&counts.garbage),
        ),
        ("timeouts", of(FailureClass::Timeout), count(&counts.hung)),
        (
            "other failures",
            of(FailureClass::Closed) + of(FailureClass::Os),
            0,
        ),
        (
            "requests and those that were read in vain",
            ledger.sent + vanished,
            count(&counts.received),
        ),
        (
            "interim responses",
            load.interim_responses,
            count(&counts.interim),
        ),
        (
            "connections",
            connections.open_at_start + connections.established,
            count(&counts.accepted),
        ),
        (
            "bytes of complete bodies",
            load.traffic.body_bytes - 2 * of(FailureClass::ShortBody),
            count(&counts.body_bytes),
        ),
    ];
    for (what, client, server) in pairs {
        if client != server {
            problems.push(format!("{what}: client {client}, server {server}"));
        }
    }
    if !ledger.balances() {
        problems.push(format!("the account does not balance: {ledger:?}"));
    }
    if ledger.replayed < vanished {
        let replayed = ledger.replayed;
        problems.push(format!(
            "{replayed} replays for {vanished} requests that nobody answered"
        ));
    }
    problems
}

/// Enough for each deed to happen on each connection.
const REQUESTS: u64 = 480;

#[cfg(test)]
mod tests {
    use super::*;

    /// Every account equals the count of the server.
    #[test]
    fn accounts_are_equal() {
        for case in selftest().unwrap() {
            assert_eq!(case.problems, [""; 0], "{}: {}", case.name, case.account);
        }
    }

    /// A server that counts something else is noticed.
    #[test]
    fn wrong_accounts_are_noticed() {
        let mut server = Server::start(|_, _| Deed::Answer).unwrap();
        let mut config = Config::new(format!("http://{}/", server.address));
        config.stop = Stop::Requests(REQUESTS);
        let load = run(&config, &mut ()).unwrap();
        let counts = std::sync::Arc::clone(&server.counts);
        server.end();
        assert_eq!(problems(&load, &counts), [""; 0]);
        counts.ok.fetch_add(1, Ordering::SeqCst);
        assert_eq!(
            problems(&load, &counts),
            ["good responses: client 480, server 481"]
        );
    }
}

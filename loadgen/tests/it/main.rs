//! The load generator against servers that behave well, badly and maliciously, all of them in this
//! process. What the server counted has to agree with the account of the load in every test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod connections;
mod counts;
mod failures;
mod fetching;
mod framing;
mod http2;
mod http2_hostile;
mod http2_violations;
mod peer2;
mod phases;
mod pipelining;
mod real;
mod real_servers;
mod requests;
mod server;
mod shapes;
mod tls;
mod tls_early;

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use loadgen::{Config, LoadError, Stop, run};
use recording::{FailureClass, Load};

use server::Server;

/// A load of exactly `requests` on `connections`.
fn by_count(server: &Server, requests: u64, connections: u32) -> Config {
    let mut config = Config::new(server.url("/path?secret=value"));
    config.stop = Stop::Requests(requests);
    config.connections = connections;
    config
}

/// Runs a load and checks what has to hold for each.
fn run_checked(config: &Config) -> Load {
    let load = run(config, &mut ()).unwrap();
    check_account(&load);
    load
}

/// Every request appears once, and every other figure agrees with the account.
fn check_account(load: &Load) {
    let ledger = &load.ledger;
    assert!(ledger.balances(), "{ledger:?}");
    assert_eq!(
        load.latency.as_ref().map_or(0, |latency| latency.count),
        ledger.ok
    );
    let sliced: u64 = load.slices.iter().map(|slice| slice.ok).sum();
    assert_eq!(sliced, ledger.ok);
    let sliced: u64 = load.slices.iter().map(|slice| slice.failed).sum();
    assert_eq!(sliced, ledger.failed_total());
    for pair in load.slices.windows(2) {
        assert_eq!(pair[0].window.end_ns, pair[1].window.start_ns);
    }
    if let (Some(first), Some(last)) = (load.slices.first(), load.slices.last()) {
        assert_eq!(first.window.start_ns, load.window.start_ns);
        assert_eq!(last.window.end_ns, load.window.end_ns);
    }
    let connected = load.connect_time.as_ref().map_or(0, |time| time.count);
    assert_eq!(connected, load.connections.established);
    assert!((0.0..=1.0).contains(&load.busiest_thread_share));
    assert!(!load.url.contains("secret=value"), "{}", load.url);
}

/// What one thread of a server opens, and another one waits for.
fn gate() -> (Mutex<Sender<()>>, Mutex<Receiver<()>>) {
    let (sender, receiver) = channel();
    (Mutex::new(sender), Mutex::new(receiver))
}

/// The failures as class, phase and count.
fn failures(load: &Load) -> Vec<(FailureClass, &str, u64)> {
    let failed = load.ledger.failed.iter();
    failed
        .map(|failure| (failure.class, failure.phase.as_str(), failure.count))
        .collect()
}

/// How the server broke the protocol: what, what was found first, and how often.
fn violations(load: &Load) -> Vec<(&str, &str, u64)> {
    let kinds = load.violations.iter();
    kinds
        .map(|kind| (kind.what.as_str(), kind.found.as_str(), kind.count))
        .collect()
}

/// The error of a load that cannot run.
fn run_refused(config: &Config) -> LoadError {
    run(config, &mut ()).unwrap_err()
}

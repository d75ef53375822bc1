//! Servers that refuse, hang, stall and die.

use std::net::TcpListener;
use std::time::Duration;

use loadgen::{Config, Control, LoadError, Stop, run};
use recording::{FailureClass, LoadSlice, exit_code};

use crate::server::{OK, Server, Then};
use crate::{by_count, check_account, failures, gate, run_checked, run_refused};

/// A server that reads and never answers.
fn hangs() -> Server {
    Server::start(|_| Then::Keep)
}

/// A port that nobody listens on.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// When nothing can be reached at the start there is no result, and the reason has a remedy.
#[test]
fn unreachable_server_is_an_error() {
    let mut config = Config::new(format!("http://127.0.0.1:{}/", closed_port()));
    config.connections = 3;
    config.threads = 2;
    let error = run_refused(&config);
    assert!(matches!(error, LoadError::Unreachable { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("127.0.0.1:") && text.contains("start the server"),
        "{text}"
    );
    assert_eq!(error.exit_code(), exit_code::FAILED);
}

/// A name without address is an error that names it.
#[test]
fn unknown_host_is_an_error() {
    // .invalid is reserved for this (RFC 2606).
    let error = run_refused(&Config::new("http://no-such-host.invalid/"));
    assert!(
        error.to_string().contains("no-such-host.invalid"),
        "{error}"
    );
}

/// A CPU that does not exist is an error that names it.
#[test]
fn unknown_cpu_is_an_error() {
    let server = hangs();
    let mut config = by_count(&server, 1, 1);
    config.cpus = vec![1023];
    let error = run_refused(&config);
    assert!(error.to_string().contains("CPU 1023"), "{error}");
    assert_eq!(error.exit_code(), exit_code::CANNOT_MEASURE);
}

/// A server that never answers ends in timeouts, without a byte having to arrive.
#[test]
fn hanging_server_times_out() {
    let server = hangs();
    let mut config = by_count(&server, 4, 2);
    config.timeout = Duration::from_millis(50);
    let load = run_checked(&config);
    assert_eq!(failures(&load), [(FailureClass::Timeout, "first_byte", 4)]);
    assert_eq!(
        (load.latency.is_none(), load.connections.closed_by_failure),
        (true, 4)
    );
    assert_eq!(server.stop(), [1; 4]);
}

/// Requests that are stuck half-way time out where they are stuck.
#[test]
fn stalls_time_out_in_their_phase() {
    let check = |bytes: &'static [u8], phase: &str| {
        let server = Server::start(move |exchange| {
            exchange.send(bytes);
            Then::Keep
        });
        let mut config = by_count(&server, 1, 1);
        config.timeout = Duration::from_millis(50);
        assert_eq!(
            failures(&run_checked(&config)),
            [(FailureClass::Timeout, phase, 1)]
        );
    };
    check(b"HTTP/1.1 200", "head");
    check(b"HTTP/1.1 103 x\r\n\r\n", "head");
    check(
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        "body",
    );
    check(b"HTTP/1.1 200 OK\r\n\r\nhello", "body");
}

/// A response that never stops coming times out, too.
#[test]
fn endless_body_times_out() {
    let server = Server::start(|exchange| {
        exchange.send(b"HTTP/1.1 200 OK\r\n\r\n");
        let filler = vec![b'x'; 1 << 20];
        while exchange.sent_all {
            exchange.send(&filler);
        }
        Then::Close
    });
    let mut config = by_count(&server, 2, 1);
    config.timeout = Duration::from_millis(50);
    let load = run_checked(&config);
    assert_eq!(failures(&load), [(FailureClass::Timeout, "body", 2)]);
}

/// Replies later than the limit are failures that are counted, not dropped.
#[test]
fn late_replies_are_counted() {
    let (release, held) = gate();
    let server = Server::start(move |exchange| {
        // Answers only when the client has given up, which it shows by its next request.
        if exchange.total == 1 {
            held.lock().unwrap().recv().unwrap();
        } else if exchange.total == 2 {
            release.lock().unwrap().send(()).unwrap();
        }
        exchange.send(OK);
        Then::Keep
    });
    let mut config = by_count(&server, 3, 1);
    config.timeout = Duration::from_millis(500);
    let load = run_checked(&config);
    assert_eq!(failures(&load), [(FailureClass::Timeout, "first_byte", 1)]);
    assert_eq!((load.ledger.ok, server.requests()), (2, 3));
}

/// What is in flight at the deadline is neither lost nor a failure, and the run ends there.
#[test]
fn deadline_leaves_requests_unfinished() {
    let server = hangs();
    let mut config = by_count(&server, 1, 5);
    config.threads = 2;
    config.stop = Stop::Duration(Duration::from_millis(300));
    let load = run_checked(&config);
    assert_eq!((load.ledger.sent, load.ledger.unfinished), (5, 5));
    assert_eq!((load.ledger.ok, failures(&load)), (0, vec![]));
    assert_eq!(load.window.length_ns(), 300_000_000);
    assert!(
        load.warnings
            .iter()
            .any(|warning| warning.code == "unfinished_oldest")
    );
    assert_eq!(server.stop(), [1; 5]);
}

/// A slow server: nothing fails, and one request per connection is unfinished.
#[test]
fn slow_server_has_no_failures() {
    let server = Server::start(|exchange| {
        // sleeps: a slow server.
        std::thread::sleep(Duration::from_millis(20));
        exchange.send(OK);
        Then::Keep
    });
    let mut config = by_count(&server, 1, 6);
    config.stop = Stop::Duration(Duration::from_millis(300));
    let load = run_checked(&config);
    assert_eq!((load.ledger.unfinished, failures(&load)), (6, vec![]));
    assert!(load.latency.unwrap().min_ns >= 20_000_000);
}

/// A server that stops listening during the run: every request is accounted for and the run ends.
#[test]
fn server_that_dies_ends_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        let mut some = [0; 1000];
        assert!(stream.read(&mut some).unwrap() > 0);
        stream.write_all(OK).unwrap();
        // Only closes when the second request has come, so that it is in flight.
        assert!(stream.read(&mut some).unwrap() > 0);
    });
    let mut config = Config::new(format!("http://127.0.0.1:{port}/"));
    config.stop = Stop::Requests(6);
    let load = run_checked(&config);
    server.join().unwrap();
    assert_eq!((load.ledger.ok, load.ledger.replayed), (1, 1));
    assert_eq!(failures(&load), [(FailureClass::Refused, "connect", 5)]);
}

/// By time, a server that has gone ends the run early, with what was measured until then.
#[test]
fn outage_ends_the_run_early() {
    let server = Server::start(|exchange| {
        exchange.send(OK);
        Then::Keep
    });
    let mut config = by_count(&server, 1, 2);
    config.stop = Stop::Duration(Duration::from_hours(1));
    config.slice_interval = Some(Duration::from_millis(50));
    let load = run(&config, &mut Stops(Some(server))).unwrap();
    check_account(&load);
    let why = load.ended_early.as_deref().unwrap();
    assert!(why.contains("in a row") && why.contains("refused"), "{why}");
    assert!(load.ledger.ok > 0);
    // It was not hammered.
    assert!(load.ledger.failed_total() < 200, "{:?}", load.ledger);
}

/// Ends the server once something was measured.
struct Stops(Option<Server>);

impl Control for Stops {
    fn slice(&mut self, slice: &LoadSlice) {
        if slice.ok > 0 {
            self.0 = None;
        }
    }
}

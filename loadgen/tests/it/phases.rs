//! Warm-up, barriers, slices and early ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loadgen::{Control, Stop, StopHandle, Warmup, run};
use recording::{LoadPhase, LoadSlice};

use crate::server::{OK, Server, Then};
use crate::{by_count, check_account, failures};

/// Writes down what it is told, and what the server had seen by then.
#[derive(Default)]
struct Diary {
    requests: Arc<AtomicU64>,
    entries: Vec<(&'static str, u64)>,
    barriers: Vec<bool>,
    at_ns: Vec<u64>,
    slices: Vec<LoadSlice>,
    stop: Option<StopHandle>,
    stop_at: Option<&'static str>,
}

impl Diary {
    fn note(&mut self, what: &'static str) {
        self.entries
            .push((what, self.requests.load(Ordering::SeqCst)));
        if self.stop_at == Some(what) {
            self.stop.as_ref().unwrap().stop("interrupted");
        }
    }
}

impl Control for Diary {
    fn started(&mut self, stop: StopHandle) {
        self.stop = Some(stop);
        self.note("started");
    }

    fn ready(&mut self, at_ns: u64) {
        self.at_ns.push(at_ns);
        self.note("ready");
    }

    fn phase(&mut self, phase: LoadPhase, at_ns: u64, barrier: bool) {
        self.at_ns.push(at_ns);
        self.barriers.push(barrier);
        self.note(match phase {
            LoadPhase::Warmup => "warmup",
            LoadPhase::Measure => "measure",
            LoadPhase::Drain => "drain",
        });
    }

    fn slice(&mut self, slice: &LoadSlice) {
        self.slices.push(slice.clone());
        // Not before something was measured, however busy the machine is.
        if slice.ok > 0 {
            self.note("slice");
        }
    }
}

fn counting() -> (Server, Diary) {
    let diary = Diary::default();
    let requests = Arc::clone(&diary.requests);
    let server = Server::start(move |exchange| {
        requests.fetch_add(1, Ordering::SeqCst);
        exchange.send(OK);
        Then::Keep
    });
    (server, diary)
}

/// In lock-step nothing is in flight at a barrier: the server has seen exactly what was due.
#[test]
fn barriers_are_exact() {
    for (connections, threads) in [(1, 1), (4, 2)] {
        let (server, mut diary) = counting();
        let mut config = by_count(&server, 30, connections);
        config.threads = threads;
        config.warmup = Warmup::Requests(7);
        config.barriers = true;
        let load = run(&config, &mut diary).unwrap();
        check_account(&load);
        let wanted = [
            ("started", 0),
            ("ready", 0),
            ("warmup", 0),
            ("measure", 7),
            ("slice", 37),
            ("drain", 37),
        ];
        assert_eq!(diary.entries, wanted);
        assert_eq!(diary.barriers, [false, true, true]);
        assert_eq!(
            (load.ledger.carried_in, load.ledger.sent, load.ledger.ok),
            (0, 30, 30)
        );
        assert!(
            load.window.start_ns >= diary.at_ns[2],
            "the window begins with the permission"
        );
        assert_eq!(load.window.end_ns, diary.at_ns[3]);
        assert_eq!(server.accepts(), u64::from(connections));
    }
}

/// Lock-step without warm-up.
#[test]
fn barrier_before_the_first_request() {
    let (server, mut diary) = counting();
    let mut config = by_count(&server, 3, 1);
    config.barriers = true;
    run(&config, &mut diary).unwrap();
    assert_eq!(
        diary.entries,
        [
            ("started", 0),
            ("ready", 0),
            ("measure", 0),
            ("slice", 3),
            ("drain", 3)
        ]
    );
    assert_eq!(diary.barriers, [true, true]);
}

/// A warm-up by count ends before the window begins, also without barriers.
#[test]
fn warmup_by_count_is_exact() {
    let (server, mut diary) = counting();
    let mut config = by_count(&server, 40, 3);
    config.warmup = Warmup::Requests(20);
    let load = run(&config, &mut diary).unwrap();
    check_account(&load);
    assert_eq!(diary.entries[2..4], [("warmup", 0), ("measure", 20)]);
    assert_eq!(
        (load.ledger.carried_in, load.ledger.sent, server.requests()),
        (0, 40, 60)
    );
    assert_eq!(load.timeline.completed.iter().sum::<u32>(), 60);
}

/// A warm-up by time resets the counters and keeps the connections; what is in flight is carried
/// into the window.
#[test]
fn warmup_by_time_carries_over() {
    let (server, mut diary) = counting();
    let mut config = by_count(&server, 1, 4);
    config.threads = 2;
    config.warmup = Warmup::Time(Duration::from_millis(60));
    config.stop = Stop::Duration(Duration::from_millis(120));
    config.slice_interval = Some(Duration::from_millis(30));
    let load = run(&config, &mut diary).unwrap();
    check_account(&load);
    assert_eq!((load.ledger.carried_in, load.ledger.unfinished), (4, 4));
    assert_eq!(failures(&load), []);
    assert_eq!(
        (load.connections.open_at_start, load.connections.established),
        (4, 0)
    );
    assert_eq!(load.window.length_ns(), 120_000_000);
    assert_eq!(load.window.start_ns - diary.at_ns[1], 60_000_000);
    assert_eq!(load.slices.len(), 4);
    assert_eq!(load.slices, diary.slices);
    assert_eq!(server.accepts(), 4);
    // The timeline has the warm-up, too; the server may have read what the deadline cut off.
    let completed = u64::from(load.timeline.completed.iter().sum::<u32>());
    assert!(completed >= load.ledger.ok);
    assert!((completed..=completed + 4).contains(&server.requests()));
    let in_window = load.timeline.completed_in(load.window);
    let tolerance = load.ledger.ok as f64 * 0.05 + 200.0;
    assert!(
        (in_window - load.ledger.ok as f64).abs() < tolerance,
        "{in_window}"
    );
}

/// A warm-up by time and a window by count: the window has exactly so many new requests.
#[test]
fn warmup_by_time_then_count() {
    let (server, mut diary) = counting();
    let mut config = by_count(&server, 25, 2);
    config.warmup = Warmup::Time(Duration::from_millis(30));
    let load = run(&config, &mut diary).unwrap();
    check_account(&load);
    assert_eq!((load.ledger.sent, load.ledger.unfinished), (25, 0));
    assert_eq!(load.ledger.ok, 25 + load.ledger.carried_in);
}

/// Whoever stops a run gets what was measured so far.
#[test]
fn stop_keeps_the_results() {
    let (server, mut diary) = counting();
    diary.stop_at = Some("slice");
    let mut config = by_count(&server, 1, 3);
    config.threads = 2;
    config.stop = Stop::Duration(Duration::from_hours(1));
    config.slice_interval = Some(Duration::from_millis(20));
    let load = run(&config, &mut diary).unwrap();
    check_account(&load);
    assert_eq!(load.ended_early.as_deref(), Some("interrupted"));
    assert!(load.ledger.ok > 0);
    assert_eq!(diary.entries.last().unwrap().0, "drain");
}

/// A run can be stopped at every point, and what it returns balances.
#[test]
fn stop_works_everywhere() {
    for stop_at in ["started", "ready", "warmup", "measure"] {
        for by_time in [false, true] {
            let (server, mut diary) = counting();
            diary.stop_at = Some(stop_at);
            let mut config = by_count(&server, 1 << 40, 2);
            config.threads = 2;
            config.warmup = Warmup::Requests(5);
            if by_time {
                config.warmup = Warmup::Time(Duration::from_millis(20));
                config.stop = Stop::Duration(Duration::from_hours(1));
            }
            let load = run(&config, &mut diary).unwrap();
            check_account(&load);
            assert_eq!(
                load.ended_early.as_deref(),
                Some("interrupted"),
                "{stop_at}"
            );
        }
    }
}

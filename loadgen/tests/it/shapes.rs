//! Loads that are more than a closed loop: rates, think time, stages, and what is said of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use loadgen::{Config, Control, Limit, Stage, Stop, StopHandle, Think, Warmup, find_max, run};
use recording::{Arrivals, LimitedBy, Load, LoadMeasures, LoadSlice};

use crate::server::{OK, Server, Then};
use crate::{by_count, check_account, failures, gate, run_checked};

fn quick() -> Server {
    Server::start(|exchange| {
        exchange.send(OK);
        Then::Keep
    })
}

fn slow(time: Duration) -> Server {
    Server::start(move |exchange| {
        // sleeps: it is a slow server
        std::thread::sleep(time);
        exchange.send(OK);
        Then::Keep
    })
}

fn at_rate(server: &Server, rate: &str, stop: Stop, connections: u32) -> Config {
    let mut config = by_count(server, 1, connections);
    config.stop = stop;
    config.shape.arrivals = Arrivals::Constant;
    config.shape.rates = Stage::parse_all(rate).unwrap();
    config
}

fn measures(load: &Load) -> &LoadMeasures {
    load.measures.as_deref().unwrap()
}

fn millis(ms: u64) -> Stop {
    Stop::Duration(Duration::from_millis(ms))
}

/// At a rate that the server keeps, exactly what is due is sent, however many threads share it.
#[test]
fn rate_is_kept() {
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        let server = quick();
        let mut config = at_rate(&server, "1000", millis(400), 4);
        config.threads = 2;
        config.shape.arrivals = arrivals;
        let load = run_checked(&config);
        let schedule = measures(&load).schedule.as_ref().unwrap();
        assert_eq!(schedule.due - schedule.dropped, load.ledger.sent);
        assert!((schedule.asked_rps - 1000.0).abs() < 1e-6);
        if arrivals == Arrivals::Constant {
            assert_eq!(schedule.due, 400);
        }
        let (lag, service) = (&schedule.lag, &measures(&load).phases.service);
        assert_eq!(lag.as_ref().unwrap().count, load.ledger.ok);
        assert_eq!(service.as_ref().unwrap().count, load.ledger.ok);
        assert_eq!(load.plan.shape.as_ref().unwrap().arrivals, arrivals);
        assert_eq!(server.requests(), load.ledger.sent);
    }
}

/// A number of requests is exact at a rate, too, and takes as long as the rate says.
#[test]
fn count_is_exact_at_a_rate() {
    let server = quick();
    let mut config = at_rate(&server, "500", Stop::Requests(101), 3);
    config.threads = 3;
    let load = run_checked(&config);
    assert_eq!((load.ledger.sent, server.requests()), (101, 101));
    let schedule = measures(&load).schedule.as_ref().unwrap();
    assert_eq!((schedule.due, schedule.dropped), (101, 0));
    assert!(
        load.window.length_ns() >= 200_000_000,
        "the 101st is due at 200 ms"
    );
}

/// Latency begins when a request is due, service time when it is written; what lies between is lag.
#[test]
fn latency_begins_when_due() {
    let server = slow(Duration::from_millis(20));
    let mut config = at_rate(&server, "1000", Stop::Requests(10), 1);
    config.timeout = Duration::from_secs(5);
    let load = run_checked(&config);
    assert_eq!(load.ledger.ok, 10);
    let latency = load.latency.as_ref().unwrap();
    let measures = measures(&load);
    let service = measures.phases.service.as_ref().unwrap();
    let lag = measures.schedule.as_ref().unwrap().lag.as_ref().unwrap();
    // The last of ten is due after 9 ms and is written after nine times 20 ms.
    assert!(latency.max_ns > 185_000_000, "{latency:?}");
    assert!(lag.max_ns > 165_000_000, "{lag:?}");
    assert!(service.min_ns >= 19_900_000, "{service:?}");
    assert!(latency.max_ns > lag.max_ns);
}

/// What is later than the limit is dropped and counted, and the rest is on time.
#[test]
fn catch_up_is_bounded() {
    let server = slow(Duration::from_millis(10));
    let mut config = at_rate(&server, "1000", millis(300), 1);
    config.shape.catch_up = Some(Duration::from_millis(20));
    let load = run_checked(&config);
    let schedule = measures(&load).schedule.as_ref().unwrap();
    assert_eq!(schedule.due, 300);
    assert_eq!(schedule.dropped, 300 - load.ledger.sent);
    assert!(schedule.dropped > 200, "{schedule:?}");
    let lag = schedule.lag.as_ref().unwrap();
    // Histograms round up by a thousandth.
    assert!(lag.max_ns <= 20_100_000, "{lag:?}");
}

/// A rate that is not reached is said to be, with the share and the reason. (Which reason it is
/// depends on what else the machine does, and is checked where it is found.)
#[test]
fn missed_rate_is_said() {
    let server = slow(Duration::from_millis(100));
    let config = at_rate(&server, "100", millis(1000), 1);
    let load = run_checked(&config);
    let measures = measures(&load);
    let schedule = measures.schedule.as_ref().unwrap();
    // One connection can have ten replies of 100 ms in a second, and one more under way.
    assert_eq!(schedule.due, 100);
    assert!((1..=11).contains(&load.ledger.sent), "{:?}", load.ledger);
    assert_eq!(schedule.dropped, 100 - load.ledger.sent);
    let share = load.ledger.sent as f64 / 100.0;
    assert!((schedule.share() - share).abs() < 1e-9, "{schedule:?}");
    assert_ne!(measures.limiter.who, LimitedBy::Rate);
    let warning = load
        .warnings
        .iter()
        .find(|warning| warning.code == "rate_not_reached")
        .unwrap();
    let wanted = format!(
        "achieved {:.1} % of the asked rate ({:.1} of 100.0 requests/s, {} of 100 due ones never sent): {}",
        share * 100.0,
        load.ledger.sent as f64,
        schedule.dropped,
        measures.limiter.why
    );
    assert_eq!(warning.text, wanted);
}

/// Steps and ramps send what lies under them.
#[test]
fn stages_add_up() {
    let server = quick();
    // 20 + 100 + 0 + 40, the last stage going on.
    let stages = "100:200ms,0-1000:200ms,0:100ms,200";
    let load = run_checked(&at_rate(&server, stages, millis(700), 8));
    let schedule = measures(&load).schedule.as_ref().unwrap();
    assert_eq!(schedule.due, 160);
    assert!((schedule.asked_rps - 160.0 / 0.7).abs() < 1e-6);
    assert_eq!(load.plan.shape.as_ref().unwrap().rates.len(), 4);
}

/// A warm-up at a rate leaves nothing of its own in the window.
#[test]
fn warmup_at_a_rate() {
    let server = quick();
    let mut config = at_rate(&server, "500", millis(200), 2);
    config.warmup = Warmup::Time(Duration::from_millis(100));
    let load = run_checked(&config);
    let schedule = measures(&load).schedule.as_ref().unwrap();
    assert_eq!(schedule.due, 100);
    // By count it is sent whole, however busy the machine is.
    let before = server.requests();
    config.warmup = Warmup::Requests(50);
    let load = run_checked(&config);
    let schedule = measures(&load).schedule.as_ref().unwrap();
    assert_eq!(schedule.due, 100);
    assert!(server.requests() - before >= 50 + load.ledger.ok);
}

/// In a closed loop with think time each connection sends only as often as it allows.
#[test]
fn think_time_paces_connections() {
    let server = quick();
    let mut config = by_count(&server, 20, 2);
    config.shape.think = Some(Think {
        mean: Duration::from_millis(10),
        random: false,
    });
    let load = run_checked(&config);
    assert_eq!((load.ledger.ok, server.requests()), (20, 20));
    // At best ten requests on each connection, with nine thoughts between them.
    assert!(load.window.length_ns() >= 90_000_000);
    config.shape.think = Some(Think {
        mean: Duration::from_millis(1),
        random: true,
    });
    assert_eq!(run_checked(&config).ledger.ok, 20);
}

/// The most requests that were in the server at the same time.
#[derive(Default)]
struct Crowd {
    present: AtomicU64,
    most: AtomicU64,
}

fn crowded() -> (Server, Arc<Crowd>) {
    let crowd = Arc::new(Crowd::default());
    let seen = Arc::clone(&crowd);
    let server = Server::start(move |exchange| {
        let present = seen.present.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most.fetch_max(present, Ordering::SeqCst);
        // sleeps: requests have to meet in the server
        std::thread::sleep(Duration::from_millis(2));
        seen.present.fetch_sub(1, Ordering::SeqCst);
        exchange.send(OK);
        Then::Keep
    });
    (server, crowd)
}

/// Limits on requests in flight hold, whatever the connections; the sum of the threads is exact.
#[test]
fn concurrency_is_limited() {
    let (server, crowd) = crowded();
    let mut config = by_count(&server, 60, 8);
    config.threads = 2;
    config.shape.concurrency = Stage::parse_all("3").unwrap();
    let load = run_checked(&config);
    assert_eq!((load.ledger.ok, server.accepts()), (60, 8));
    assert_eq!(crowd.most.load(Ordering::SeqCst), 3);
}

/// A limit that rises lets more requests in.
#[test]
fn concurrency_rises() {
    let (server, crowd) = crowded();
    let mut config = by_count(&server, 1, 8);
    config.stop = millis(400);
    config.shape.concurrency = Stage::parse_all("1:100ms,8").unwrap();
    let load = run_checked(&config);
    assert!(load.ledger.ok > 0);
    assert_eq!(crowd.most.load(Ordering::SeqCst), 8);
}

/// Connections are opened at a rate at most, at the start and later.
#[test]
fn connections_are_opened_at_a_rate() {
    let server = quick();
    let mut config = by_count(&server, 10, 10);
    config.shape.connection_rate = Some(100.0);
    let begun = Instant::now();
    let load = run_checked(&config);
    assert_eq!((load.ledger.ok, server.accepts()), (10, 10));
    // Ten connections, nine distances of 10 ms.
    assert!(begun.elapsed() >= Duration::from_millis(90));
    config.requests_per_connection = Some(1);
    config.connections = 1;
    let load = run_checked(&config);
    assert_eq!(load.ledger.ok, 10);
    assert!(measures(&load).connects_delayed > 0);
    assert!(load.window.length_ns() >= 80_000_000);
}

/// Ends a run when a server has taken so many connections.
struct Accepted<'a> {
    server: &'a Server,
    connections: u64,
    stop: Option<StopHandle>,
}

impl Control for Accepted<'_> {
    fn started(&mut self, stop: StopHandle) {
        self.stop = Some(stop);
    }

    fn slice(&mut self, _slice: &LoadSlice) {
        if self.server.accepts() >= self.connections {
            self.stop.as_ref().unwrap().stop("all are there");
        }
    }
}

/// A paced load opens a connection again that an idle server has closed, long before a request is
/// due: as many are alive as asked.
#[test]
fn idle_connections_are_kept_alive() {
    let server = Server::start(|exchange| {
        exchange.send(OK);
        Then::Close
    });
    // One request at once, and the next one in a thousand seconds.
    let mut config = at_rate(&server, "0.001", Stop::Duration(Duration::from_mins(1)), 2);
    config.slice_interval = Some(Duration::from_millis(10));
    let mut control = Accepted {
        server: &server,
        connections: 3,
        stop: None,
    };
    let load = run(&config, &mut control).unwrap();
    check_account(&load);
    assert_eq!(load.ended_early.as_deref(), Some("all are there"));
    assert_eq!((load.ledger.ok, failures(&load)), (1, vec![]));
    assert_eq!((server.requests(), server.accepts()), (1, 3));
    let live = measures(&load).live_connections.unwrap();
    assert!(live > 1.0 && live < 2.01, "{live}");
}

/// In a closed loop the server's silent closes do not shrink the load either.
#[test]
fn live_connections_are_averaged() {
    let server = quick();
    let load = run_checked(&by_count(&server, 200, 4));
    let live = measures(&load).live_connections.unwrap();
    assert!((live - 4.0).abs() < 0.01, "{live}");
    let spread = measures(&load).responses_per_connection.unwrap();
    assert_eq!(spread.count, 4);
    assert!((spread.mean - 50.0).abs() < 1e-9, "{spread:?}");
}

/// What is in flight at the deadline is counted with its age, and given up or waited for.
#[test]
fn deadline_drains_or_aborts() {
    let server = slow(Duration::from_millis(50));
    let mut config = by_count(&server, 1, 16);
    config.stop = millis(130);
    for drain in [false, true] {
        config.shape.drain = drain;
        let load = run_checked(&config);
        let unfinished = &measures(&load).unfinished;
        assert_eq!(load.ledger.unfinished, 16, "{:?}", load.ledger);
        assert_eq!(unfinished.age.as_ref().unwrap().count, 16);
        let found = (
            unfinished.drained_ok,
            unfinished.drained_failed,
            unfinished.aborted,
        );
        assert_eq!(found, if drain { (16, 0, 0) } else { (0, 0, 16) });
    }
}

/// What is waited for and never comes fails by its timeout: the run ends.
#[test]
fn drain_ends_by_timeout() {
    let server = Server::start(|_| Then::Keep);
    let mut config = by_count(&server, 1, 3);
    config.stop = millis(50);
    config.timeout = Duration::from_millis(200);
    config.shape.drain = true;
    let load = run_checked(&config);
    assert_eq!(load.ledger.unfinished, 3);
    assert_eq!(measures(&load).unfinished.drained_failed, 3);
}

/// Phases: every ok request has a first byte and a time to receive, every connection a time to
/// connect, those before the window included.
#[test]
fn phases_are_complete() {
    let (head_sent, others_may_go) = gate();
    let (others_came, body_may_go) = gate();
    let pass = |gate: &Mutex<Receiver<()>>| gate.lock().unwrap().recv().unwrap();
    let open = |gate: &Mutex<Sender<()>>| gate.lock().unwrap().send(()).unwrap();
    let server = Server::start(move |exchange| {
        match exchange.total {
            1 => {
                exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
                open(&head_sent);
                // Meanwhile the client has sent all others on its other connection, one by one, and
                // each time that it waited for one it has read what was there.
                pass(&body_may_go);
                exchange.send(b"ok");
                return Then::Keep;
            }
            2 => pass(&others_may_go),
            20 => open(&others_came),
            _ => {}
        }
        exchange.send(b"HTTP/1.1 204 No Content\r\n\r\n");
        Then::Keep
    });
    let load = run_checked(&by_count(&server, 20, 2));
    let latency = load.latency.as_ref().unwrap().to_hdr().unwrap();
    let phases = &measures(&load).phases;
    let first_byte = phases.first_byte.as_ref().unwrap().to_hdr().unwrap();
    let receive = phases.receive.as_ref().unwrap().to_hdr().unwrap();
    assert_eq!((first_byte.len(), receive.len()), (20, 20));
    // Only the body of the first response came later than its head.
    assert_eq!(receive.count_between(0, 0), 19);
    assert!(receive.max() > 0);
    // Both parts of each request are the whole of it, as far as histograms are exact.
    let parts_ns = (first_byte.mean() + receive.mean()) * 20.0;
    let whole_ns = latency.mean() * 20.0;
    assert!(
        (parts_ns / whole_ns - 1.0).abs() < 0.01,
        "{parts_ns} {whole_ns}"
    );
    assert_eq!(phases.connect.as_ref().unwrap().count, 2);
    assert_eq!(phases.connection_first_byte.as_ref().unwrap().count, 2);
    assert_eq!(phases.connection_life.as_ref().unwrap().count, 2);
    assert_eq!((&phases.tls, &phases.service), (&None, &None));
    // "Content-Length" and "2", once.
    assert_eq!(measures(&load).header_field_bytes, Some(15));
}

/// The search ends at a rate that keeps the limit, below one that does not.
#[test]
fn search_finds_the_highest_rate() {
    let server = slow(Duration::from_millis(5));
    let mut config = at_rate(&server, "60", millis(400), 1);
    config.timeout = Duration::from_secs(5);
    let limit = Limit::parse("p90<200ms").unwrap();
    let load = find_max(&config, &limit, &mut ()).unwrap();
    let search = measures(&load).search.as_ref().unwrap();
    let (highest, broken) = (
        search.highest_rps.unwrap(),
        search.lowest_broken_rps.unwrap(),
    );
    // One connection at 5 ms and a little more each: below 200 per second.
    assert!(highest < 230.0, "{search:?}");
    assert!(highest < broken, "{search:?}");
    assert_eq!(search.limit, "p90<200ms");
    assert!(
        search
            .trials
            .iter()
            .any(|trial| !trial.kept && trial.why.is_some())
    );
    let shown = load.plan.shape.as_ref().unwrap().rates[0].from;
    assert!((shown - highest).abs() < 1e-9);
}

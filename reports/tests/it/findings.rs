//! Every rule with evidence that triggers it and evidence just below; nothing is said about a server
//! without peculiarities.

use recording::{
    CallObject, Confidence, Detail, Finding, ListenQueue, Network, NetworkNamespace, Profile,
    Recording, ThreadCpu, TlsReport, WaitRow,
};
use reports::findings::{find, rules};

use crate::truth::{COST, TrueCall, Truth, known, plain, true_call};

const SOCKET: Option<CallObject> = Some(CallObject::Socket);
const FILE: Option<CallObject> = Some(CallObject::File);

/// A server that makes some calls besides, and sleeps in none.
fn with(calls: Vec<TrueCall>) -> Recording {
    let mut truth = plain("nginx");
    truth.calls.extend(calls);
    known(&[truth], 2)
}

/// One call of so many per request, 500 ns each.
fn call(name: &'static str, on: Option<CallObject>, count: f64) -> TrueCall {
    true_call(name, on, count, 500.0)
}

fn again(name: &'static str, count: f64, share: f64) -> TrueCall {
    TrueCall {
        failed: Some(("EAGAIN", share)),
        ..call(name, SOCKET, count)
    }
}

fn moving(call: TrueCall, bytes: f64) -> TrueCall {
    TrueCall {
        bytes: Some(bytes),
        ..call
    }
}

/// The plain server with its profiles changed.
fn changed(change: impl Fn(&mut Profile)) -> Recording {
    let mut recording = known(&[plain("nginx")], 2);
    let rounds = recording.rounds.iter_mut();
    rounds.filter_map(|r| r.profile.as_mut()).for_each(change);
    recording
}

fn found<'a>(findings: &'a [Finding], id: &str) -> Option<&'a Finding> {
    findings.iter().find(|finding| finding.id == id)
}

/// The rule says something about the first recording and nothing about the second; what it says
/// holds together.
fn triggers(id: &str, evidence: &Recording, harmless: &Recording) -> Finding {
    let findings = find(evidence);
    let finding = found(&findings, id).unwrap_or_else(|| panic!("{id}: {findings:?}"));
    assert_eq!(found(&find(harmless), id), None);
    assert!(!finding.title.is_empty() && !finding.change.is_empty() && !finding.cause.is_empty());
    let beyond = finding
        .evidence
        .iter()
        .filter(|n| n.limit.is_some())
        .count();
    assert!(beyond > 0, "{finding:?}");
    assert!(finding.cost_ns_per_request.is_none_or(|ns| ns > 0.0));
    finding.clone()
}

/// A server without peculiarities has no finding, and a recording without probes neither.
#[test]
fn nothing_is_said_without_evidence() {
    let mut recording = known(&[plain("nginx"), plain("h2o")], 3);
    assert_eq!(find(&recording), []);
    recording.rounds.retain(|round| round.profile.is_none());
    assert_eq!(find(&recording), []);
}

/// Socket options around a sendfile of a byte; not around large files.
#[test]
fn cork_around_tiny_sendfile() {
    let server = |bytes| {
        with(vec![
            call("setsockopt", SOCKET, 2.0),
            moving(call("sendfile", SOCKET, 1.0), bytes),
        ])
    };
    let id = "cork-around-tiny-sendfile";
    let finding = triggers(id, &server(1.0), &server(100_000.0));
    // Two calls of 500 ns, each with the entry of the kernel.
    let expected = 2.0 * (500.0 + COST.entry_exit_ns);
    assert!((finding.cost_ns_per_request.unwrap() / expected - 1.0).abs() < 0.02);
    assert!(
        finding.change.contains("tcp_nopush off"),
        "{}",
        finding.change
    );
    assert_eq!(finding.confidence, Confidence::Likely);
    assert_eq!(finding.calls, ["setsockopt(socket)"]);
}

/// Four sends of 60 bytes; not four sends of 8 kB, and not one.
#[test]
fn many_small_writes() {
    let server = |count, bytes| with(vec![moving(call("write", SOCKET, count), bytes)]);
    triggers(
        "many-small-writes",
        &server(4.0, 60.0),
        &server(4.0, 8_000.0),
    );
    assert_eq!(found(&find(&server(1.0, 60.0)), "many-small-writes"), None);
}

/// A line per request; not a buffer every 500 requests.
#[test]
fn log_write_per_request() {
    let server = |count, bytes| with(vec![moving(call("write", FILE, count), bytes)]);
    let id = "log-write-per-request";
    let finding = triggers(id, &server(1.0, 90.0), &server(0.002, 65_536.0));
    assert!(finding.change.contains("buffer=64k"));
    assert_eq!(finding.confidence, Confidence::Measured);
}

/// One read in two ends in EAGAIN; one in ten is nothing.
#[test]
fn reads_ending_in_eagain() {
    let server = |share| with(vec![again("read", 2.0, share)]);
    let finding = triggers("reads-ending-in-eagain", &server(0.5), &server(0.1));
    assert!(finding.evidence[0].value > 0.99 && finding.evidence[0].limit == Some(0.5));
}

/// open, fstat and close of a file for each request; not for each hundredth.
#[test]
fn file_opened_per_request() {
    let server = |count| {
        with(vec![
            call("openat", None, count),
            call("fstat", None, count),
            call("close", FILE, count),
        ])
    };
    let finding = triggers("file-opened-per-request", &server(1.0), &server(0.01));
    let expected = 3.0 * (500.0 + COST.entry_exit_ns);
    assert!((finding.cost_ns_per_request.unwrap() / expected - 1.0).abs() < 0.02);
    assert_eq!(finding.confidence, Confidence::Measured);
    assert!(finding.change.contains("open_file_cache"));
}

/// Threads that sleep in reads of files; not those that only read.
#[test]
fn blocking_file_read() {
    let server = |sleep_ns| {
        let mut recording = with(vec![TrueCall {
            sleep_ns,
            ..call("pread64", FILE, 1.0)
        }]);
        for profile in recording
            .rounds
            .iter_mut()
            .filter_map(|r| r.profile.as_mut())
        {
            let row = profile.calls.iter_mut().find(|row| row.name == "pread64");
            let (row, sleeps) = (row.unwrap(), u64::from(sleep_ns > 0.0));
            row.split.as_mut().unwrap().sleeps = Some(sleeps * row.count);
        }
        recording
    };
    triggers("blocking-file-read", &server(40_000.0), &server(0.0));
}

/// One event per wake with 64 connections; eight are not one. A full room for events makes it sure.
#[test]
fn one_event_per_wake() {
    let server = |events: u64, full: bool| {
        changed(move |profile| {
            let wakes = profile.waits[0].events;
            profile.waits[0] = WaitRow {
                wakes,
                events: wakes * events,
                truncated: Some(if full { wakes } else { 0 }),
                ..profile.waits[0].clone()
            };
        })
    };
    let id = "one-event-per-wake";
    let unsure = triggers(id, &server(1, false), &server(8, false));
    assert_eq!(unsure.confidence, Confidence::Possible);
    let sure = triggers(id, &server(1, true), &server(8, true));
    assert_eq!(sure.confidence, Confidence::Measured);
    let mut few = server(1, true);
    few.scenario.as_mut().unwrap().connections = 2;
    assert_eq!(found(&find(&few), id), None);
}

/// One `epoll_ctl` per request; not one per hundred.
#[test]
fn epoll_ctl_per_request() {
    let server = |count| with(vec![call("epoll_ctl", None, count)]);
    triggers("epoll-ctl-per-request", &server(1.0), &server(0.01));
}

/// poll in place of epoll with 64 connections; not beside it.
#[test]
fn select_or_poll() {
    let server = |name, beside| {
        let mut truth = plain("nginx");
        truth.calls[0].name = name;
        truth.calls.push(call("poll", None, beside));
        known(&[truth], 2)
    };
    triggers(
        "select-or-poll",
        &server("select", 0.0),
        &server("epoll_wait", 0.01),
    );
}

/// Many accepts in vain with several threads; none with one thread.
#[test]
fn accept_herd() {
    let server = |threads| {
        let mut recording = with(vec![again("accept4", 0.2, 0.9)]);
        for profile in recording
            .rounds
            .iter_mut()
            .filter_map(|r| r.profile.as_mut())
        {
            profile.processes = vec![process(threads)];
        }
        recording
    };
    let finding = triggers("accept-herd", &server(4), &server(1));
    assert!(finding.change.contains("reuseport"));
}

/// A full handshake per request; not with resumption.
#[test]
fn full_handshakes_dominate() {
    let server = |full_share: f64| {
        let mut recording = known(&[plain("nginx")], 2);
        for load in recording.rounds.iter_mut().filter_map(|r| r.load.as_mut()) {
            let all = load.ledger.ok;
            let full = crate::fixture::whole(all as f64 * full_share);
            load.tls = Some(TlsReport {
                full_handshakes: full,
                resumed_handshakes: all - full,
                retried_handshakes: 0,
                failed_handshakes: 0,
                early_data_handshakes: None,
                early_data_refused: None,
                handshake_time: None,
                negotiated: Vec::new(),
                clear_sent_bytes: 0,
                clear_received_bytes: 0,
            });
        }
        recording
    };
    triggers("full-handshakes-dominate", &server(1.0), &server(0.05));
}

/// Overflows of the namespace with a full queue of the server are sure, else only possible.
#[test]
fn listen_queue_overflow() {
    let server = |listen_overflows, deepest| {
        changed(move |profile| {
            profile.network = Some(Network {
                listeners: vec![ListenQueue {
                    namespace: None,
                    port: 80,
                    sockets: 1,
                    deepest,
                    limit: Some(511),
                }],
                namespaces: vec![NetworkNamespace {
                    namespace: None,
                    listen_overflows,
                    listen_drops: listen_overflows,
                    tcp_timeouts: 0,
                }],
                ..Network::default()
            });
        })
    };
    let sure = triggers("listen-queue-overflow", &server(3, 512), &server(0, 512));
    assert_eq!(sure.confidence, Confidence::Measured);
    let unsure = triggers("listen-queue-overflow", &server(3, 9), &server(0, 9));
    assert_eq!(unsure.confidence, Confidence::Possible);
}

/// One segment in a hundred is sent again; one in a hundred thousand is not worth a word.
#[test]
fn retransmits() {
    let server = |per_mille: u64| {
        changed(move |profile| {
            let requests = profile.calls[1].count;
            profile.network = Some(Network {
                retransmits: Some(requests * per_mille / 100_000),
                ..Network::default()
            });
        })
    };
    triggers("retransmits", &server(1_000), &server(1));
}

/// madvise for each request; not once in a hundred.
#[test]
fn allocator_trimming() {
    let server = |count| {
        with(vec![
            call("madvise", None, count),
            call("munmap", None, count),
        ])
    };
    triggers("allocator-trimming", &server(0.5), &server(0.01));
}

/// Clock calls that enter the kernel; with tsc as the source the rule is less sure why.
#[test]
fn clock_misses_vdso() {
    let server = |source: &str, count| {
        let mut recording = with(vec![call("clock_gettime", None, count)]);
        recording.host.clocksource = Some(source.to_owned());
        recording
    };
    let id = "clock-misses-vdso";
    let slow = triggers(id, &server("hpet", 2.0), &server("hpet", 0.001));
    assert_eq!(slow.confidence, Confidence::Measured);
    assert!(slow.title.contains("hpet"));
    let fast = triggers(id, &server("tsc", 2.0), &server("tsc", 0.001));
    assert_eq!(fast.confidence, Confidence::Likely);
}

/// getrandom for each request; not once in a hundred.
#[test]
fn getrandom_per_request() {
    let server = |count| with(vec![call("getrandom", None, count)]);
    triggers("getrandom-per-request", &server(1.0), &server(0.01));
}

/// Futex calls for each request; not once in ten.
#[test]
fn futex_contention() {
    let server = |count| with(vec![call("futex", Some(CallObject::FutexWait), count)]);
    let finding = triggers("futex-contention", &server(1.0), &server(0.1));
    assert!(finding.title.contains("asleep"));
}

/// A worker at 99 % beside one at 20 %; not beside one at 95 %.
#[test]
fn idle_worker_beside_a_busy_one() {
    let server = |second: f64| {
        let mut recording = known(&[plain("nginx")], 2);
        for cpu in recording
            .rounds
            .iter_mut()
            .filter_map(|r| r.server_cpu.as_mut())
        {
            let window = cpu.window.length_ns() as f64;
            let thread = |tid, share: f64| ThreadCpu {
                pid: 1,
                tid,
                total_ns: crate::fixture::whole(share * window),
            };
            // The third hardly runs: it is no worker.
            cpu.threads = vec![thread(1, 0.99), thread(2, second), thread(3, 0.001)];
        }
        recording
    };
    triggers("idle-worker-beside-busy-one", &server(0.2), &server(0.95));
}

/// Held back by a quota half of the time; not for a thousandth.
#[test]
fn throttled_cgroup() {
    let server = |share: f64| {
        known(
            &[Truth {
                throttled: share,
                ..plain("nginx")
            }],
            2,
        )
    };
    triggers("throttled-cgroup", &server(0.5), &server(0.001));
}

/// Every rule has a test here: their names are those of the rules.
#[test]
fn every_rule_is_known() {
    let ids: Vec<&str> = rules().into_iter().map(|(id, _)| id).collect();
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), ids.len());
    let tests = include_str!("findings.rs");
    for id in ids {
        assert!(tests.contains(&format!("\"{id}\"")), "{id} has no test");
    }
}

/// A finding never says more than was measured: without times there is no cost, with times of the
/// wall clock it is likely at best, and with few requests or lost events only possible.
#[test]
fn findings_keep_within_their_evidence() {
    let server = || {
        with(vec![
            call("openat", None, 1.0),
            call("fstat", None, 1.0),
            call("close", FILE, 1.0),
        ])
    };
    let at = |detail: Detail, recording: &mut Recording| {
        for profile in recording
            .rounds
            .iter_mut()
            .filter_map(|r| r.profile.as_mut())
        {
            profile.detail = detail;
        }
    };
    let of = |recording: &Recording| {
        let findings = find(recording);
        found(&findings, "file-opened-per-request").unwrap().clone()
    };
    let mut counted = server();
    at(Detail::Counts, &mut counted);
    let finding = of(&counted);
    assert_eq!(finding.cost_ns_per_request, None);
    assert_eq!(finding.confidence, Confidence::Likely);

    let mut timed = server();
    at(Detail::Times, &mut timed);
    let finding = of(&timed);
    assert!(finding.cost_ns_per_request.is_some());
    assert_eq!(finding.confidence, Confidence::Likely);
    assert!(finding.caveat.contains("wall time"));

    let mut lossy = server();
    for profile in lossy.rounds.iter_mut().filter_map(|r| r.profile.as_mut()) {
        profile
            .lost
            .add(recording::LostClass::RecursionMisses, 1_000);
    }
    assert_eq!(of(&lossy).confidence, Confidence::Possible);

    let mut few = server();
    few.rounds.iter_mut().for_each(shrink);
    assert_eq!(of(&few).confidence, Confidence::Possible);
}

/// A round of ten requests that makes the same calls per request.
fn shrink(round: &mut recording::Round) {
    let Some(profile) = &mut round.profile else {
        return;
    };
    let requests = round.profile_requests.unwrap();
    for row in &mut profile.calls {
        row.count = crate::fixture::whole(row.count as f64 / requests * 10.0);
    }
    round.profile_requests = Some(10.0);
}

fn process(threads: u32) -> recording::ProfiledProcess {
    recording::ProfiledProcess {
        pid: 1,
        comm: Some("nginx".to_owned()),
        threads: Some(threads),
        container: None,
        ended: false,
        target: None,
        ns_pid: None,
        parent: None,
    }
}

//! The join: sums over rounds, exactness, and what stays absent.

use recording::{Abi, Detail, LostClass, Probes, Timeline, Window};
use reports::join::{join, join_arm};

use crate::fixture::{comparison, h2o, lock_step, nginx};

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-9 * right.abs().max(1.0)
}

/// Figures are sums divided by sums: a round with twice the requests weighs twice.
#[test]
fn figures_are_ratios_of_sums() {
    let mut recording = comparison(&[nginx(), h2o()], 2);
    let probed: Vec<usize> = (0..recording.rounds.len())
        .filter(|&i| recording.rounds[i].arm == "nginx" && recording.rounds[i].profile.is_some())
        .collect();
    let [first, second] = probed[..] else {
        panic!("two probed rounds")
    };
    for (index, requests, writes) in [(first, 1000.0, 1000), (second, 3000.0, 9000)] {
        let round = &mut recording.rounds[index];
        round.profile_requests = Some(requests);
        let profile = round.profile.as_mut().unwrap();
        let row = profile
            .calls
            .iter_mut()
            .find(|row| row.name == "writev")
            .unwrap();
        row.count = writes;
        row.bytes = Some(writes * 100);
        row.time.as_mut().unwrap().ns_total = writes * 2000;
        row.time.as_mut().unwrap().timed = writes;
    }
    let figures = join_arm(&recording, "nginx");
    let writev = figures.call(Abi::X86_64, "writev").unwrap();
    // 10,000 calls over 4,000 requests; the mean of the two ratios would be 2.0.
    assert!(close(writev.per_request, 2.5));
    assert!(close(writev.ns_per_request.unwrap(), 5000.0));
    assert!(close(writev.ns_per_call.unwrap(), 2000.0));
    assert!(close(writev.bytes_per_call.unwrap(), 100.0));
    assert_eq!((figures.rounds, figures.requests), (2, Some(4000.0)));
    assert_eq!(
        writev.integer, None,
        "requests by time are no exact denominator"
    );
}

/// Errors are per request by name; bytes are per call that did not fail.
#[test]
fn errors_and_bytes_have_their_own_denominators() {
    let figures = join_arm(&comparison(&[nginx(), h2o()], 1), "nginx");
    let recvfrom = figures.call(Abi::X86_64, "recvfrom").unwrap();
    assert!(close(recvfrom.errors_per_request["EAGAIN"], 1.0));
    assert!(close(recvfrom.bytes_per_call.unwrap(), 94.0));
    let setsockopt = figures.call(Abi::X86_64, "setsockopt").unwrap();
    assert_eq!(setsockopt.bytes_per_call, None);
    let wait = &figures.waits[0];
    assert!((wait.events_per_wake.unwrap() - 4.0).abs() < 0.01);
    assert_eq!(wait.timeouts, 3);
    let sum: f64 = figures.calls.iter().map(|call| call.per_request).sum();
    assert!(close(figures.syscalls_per_request.unwrap(), sum));
    // Time inside epoll_wait is sleep and in no sum of costs.
    let spent = figures.ns_in_calls_per_request().unwrap();
    assert!(
        close(spent, 2.0 * 610.0 + 2_900.0 + 1_800.0 + 2.0 * 240.0),
        "{spent}"
    );
}

/// At detail counts nothing has a time, and nothing is zero instead.
#[test]
fn counts_have_no_times() {
    let mut recording = comparison(&[nginx(), h2o()], 1);
    for profile in recording
        .rounds
        .iter_mut()
        .filter_map(|round| round.profile.as_mut())
    {
        profile.detail = Detail::Counts;
        for row in &mut profile.calls {
            row.time = None;
        }
        for wait in &mut profile.waits {
            wait.ns_total = None;
        }
    }
    let figures = join_arm(&recording, "nginx");
    assert!(
        figures
            .calls
            .iter()
            .all(|call| call.ns_per_request.is_none())
    );
    assert!(figures.calls.iter().all(|call| call.ns_per_call.is_none()));
    assert!(
        figures
            .waits
            .iter()
            .all(|wait| wait.ns_per_request.is_none())
    );
    assert_eq!(figures.ns_in_calls_per_request(), None);
}

/// Rounds by count give exact figures that say whether they are whole.
#[test]
fn lock_step_figures_are_exact() {
    let figures = join_arm(&lock_step(&[nginx(), h2o()], 1000), "h2o");
    assert!(figures.exact);
    let whole = |name: &str| figures.call(Abi::X86_64, name).unwrap().integer;
    assert_eq!(whole("read"), Some(true));
    assert_eq!(whole("epoll_ctl"), Some(false));
    assert!(close(
        figures.call(Abi::X86_64, "read").unwrap().per_request,
        3.0
    ));
}

/// Failed rounds are in no sum, and an arm without probed rounds has no counts.
#[test]
fn failed_and_missing_rounds_are_absent() {
    let mut recording = comparison(&[nginx(), h2o()], 2);
    for round in recording
        .rounds
        .iter_mut()
        .filter(|round| round.arm == "h2o")
    {
        if round.probes == Probes::On {
            round.failed = Some("h2o exited with status 1".to_owned());
        }
    }
    let figures = join(&recording);
    assert_eq!(figures[0].rounds, 2);
    assert_eq!((figures[1].rounds, figures[1].requests), (0, None));
    assert_eq!(figures[1].syscalls_per_request, None);
    assert!(figures[1].calls.is_empty());
    assert!(
        figures[1].server_cpu_ns_per_request.is_some(),
        "CPU time needs no probes"
    );
    assert_eq!(figures[1].server_cpu_ns_per_request_probed, None);
}

/// CPU time per request comes from the rounds of either kind apart.
#[test]
fn cpu_time_is_kept_apart_by_probes() {
    let figures = join_arm(&comparison(&[nginx(), h2o()], 2), "nginx");
    let (off, on) = (
        figures.server_cpu_ns_per_request.unwrap(),
        figures.server_cpu_ns_per_request_probed.unwrap(),
    );
    assert!((off / 14_100.0 - 1.0).abs() < 0.02, "{off}");
    assert!((on / off - 1.0 / 0.92).abs() < 0.02, "{on}");
}

/// Lost events are summed and related to what was seen.
#[test]
fn lost_events_are_a_share_of_all() {
    let mut recording = comparison(&[nginx(), h2o()], 1);
    for profile in recording
        .rounds
        .iter_mut()
        .filter_map(|round| round.profile.as_mut())
    {
        let seen: u64 = profile.calls.iter().map(|row| row.count).sum();
        profile.lost.add(LostClass::RecursionMisses, seen);
    }
    let figures = join_arm(&recording, "nginx");
    assert!(close(figures.lost_share.unwrap(), 0.5));
}

/// Where CPU time was read over another interval than the load, the timeline says what completed
/// in it.
#[test]
fn cpu_time_is_divided_by_what_completed_meanwhile() {
    let mut recording = comparison(&[nginx(), h2o()], 1);
    recording
        .rounds
        .retain(|round| round.arm == "nginx" && round.probes == Probes::Off);
    let round = &mut recording.rounds[0];
    let load = round.load.as_mut().unwrap();
    let start_ns = load.window.start_ns;
    load.timeline = Timeline {
        start_ns,
        bin_ns: 1_000_000_000,
        completed: vec![60_000, 70_000, 80_000],
    };
    let cpu = round.server_cpu.as_mut().unwrap();
    cpu.window = Window {
        start_ns,
        end_ns: start_ns + 2_500_000_000,
    };
    cpu.total_ns = 1_700_000_000;
    let figures = join_arm(&recording, "nginx");
    assert!(close(figures.server_cpu_ns_per_request.unwrap(), 10_000.0));
}

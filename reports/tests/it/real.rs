//! Recordings of real runs: nginx 1.22 and h2o 2.2 in lock-step, and a shell that starts programs.
//!
//! Host name, kernel suffix and container ids were taken out; everything else is as it was written.

use recording::{Abi, GateStatus, Recording};
use reports::join::join;
use reports::{Footer, Style, analyse, html, markdown, text};

const LOCK_STEP: &str = include_str!("../fixtures/lock-step-nginx-h2o.json");
const COMPARE: &str = include_str!("../fixtures/compare-nginx-h2o.json");
const PROFILE: &str = include_str!("../fixtures/profile-sh-cat.json");

/// What was stored as the result is what its rounds give.
#[test]
fn stored_results_can_be_computed_again() {
    for json in [LOCK_STEP, COMPARE, PROFILE] {
        let stored = Recording::parse(json.as_bytes()).unwrap();
        let mut again = stored.clone();
        analyse(&mut again);
        assert!(again.comparisons == stored.comparisons && again.verdict == stored.verdict);
        // Words may improve and gates may come; what they stand for may not change.
        let statuses = |recording: &Recording| -> Vec<(String, GateStatus)> {
            recording
                .gates
                .iter()
                .map(|gate| (gate.id.clone(), gate.status))
                .collect()
        };
        let (again, stored) = (statuses(&again), statuses(&stored));
        for gate in &stored {
            assert!(again.contains(gate), "{gate:?} {again:?}");
        }
    }
}

/// Every call of both servers is an integer per request, as their sources say.
#[test]
fn lock_step_counts_are_whole() {
    let figures = join(&Recording::parse(LOCK_STEP.as_bytes()).unwrap());
    for (arm, total) in figures.iter().zip([6.0, 7.0]) {
        assert_eq!(arm.requests, Some(2000.0));
        assert_eq!(arm.syscalls_per_request, Some(total));
        assert!(
            arm.calls.iter().all(|call| call.integer == Some(true)),
            "{:#?}",
            arm.calls
        );
    }
    let corks = figures[0].call(Abi::X86_64, "setsockopt").unwrap();
    assert_eq!(corks.count, 4000, "tcp_nopush sets and clears the cork");
}

/// The report of the run.
#[test]
fn lock_step_layout() {
    let mut recording = Recording::parse(LOCK_STEP.as_bytes()).unwrap();
    analyse(&mut recording);
    let text = text::compare(&recording, &Style::default(), &Footer::default());
    assert!(
        text.lines().all(|line| line.chars().count() <= 110),
        "{text}"
    );
    insta::assert_snapshot!(text, @r"
    compare  nginx vs h2o  static-1b  HTTP/1.1  keep-alive  2000 requests one at a time  CPUs server 0 client 1
    VERDICT  none: rounds by count give exact counts per request, not a speed
    gates    ok 7/14  not measured: G6 client saturation, G8 server and client count, G10 A/A control, G11 probe
             cost, G13 other tracers
             WARN G9 quiet machine: load average 5.58 at the start, 2 CPUs; stop other work
             WARN G14 tuning parity: file cache on (open_file_cache)|off (opens the file for each request);
             sendfile on, with tcp_nopush|off; make them equal, or read the result with that in mind
                    nginx     h2o  nginx/h2o  99% CI
     syscalls/req  6.0000  7.0000      0.857   exact
    finding  h2o: 1.000 opens of a file per request, 2.000 calls with stat and close  2.87 us/req, likely: no
             setting is known that keeps files open between requests; serve small files from memory (a mruby
             handler), or from a cache in front
    finding  nginx: 2.000 setsockopt per request around a sendfile of 1 B  0.840 us/req, likely: set `tcp_nopush
             off`, or `sendfile off` where files are small
    SYSCALLS PER REQUEST  n and us per request, ours included, by difference in time, exact; 2 probed rounds
     call           nginx n    us   h2o n     us  diff us  whole
     setsockopt      2.0000  14.9       -      -    +14.9    yes
     writev          1.0000  1.70  1.0000   14.9    -13.2    yes
     openat               -     -  1.0000   2.29    -2.29    yes
     sendfile        1.0000  2.02       -      -    +2.02    yes
     read                 -     -  1.0000   1.36    -1.36    yes
     recvfrom        1.0000  1.23       -      -    +1.23    yes
     close                -     -  1.0000  0.869   -0.869    yes
     pread64              -     -  1.0000  0.700   -0.700    yes
     (2 more)        1.0000     -  2.0000  0.587   -0.587    yes
     all             6.0000  19.9  7.0000   20.7   -0.778    yes
     outside calls           21.4           21.3   +0.157
     server CPU              41.3           41.9   -0.621
    note     wait: time inside is sleep, in no sum and no difference; see waits
    note     whole: the count is an integer per request on every arm
    note     outside calls: user code, interrupts, unseen; inside is wall time: preempted calls count whole
    note     the call that sends includes the client's share of loopback delivery (docs/method.md)
    waits    nginx epoll_wait 1.0000 wakes/req, 1.000 events/wake (median 1), 0 empty, 108 us/req inside
    waits    h2o epoll_wait 1.0000 wakes/req, 1.000 events/wake (median 1), 0 empty, 107 us/req inside
    headers  nginx|h2o: Server nginx|h2o/2.2.5
    missing  calls in flight: not measured: /proc/PID/task/TID/syscall may not be read without CAP_SYS_PTRACE (run
             with sudo)
    run      1 pair, no warm-up, whyfast 0.1.0, 2026-11-30  nginx 1.22.1, h2o 2.2.5
    machine  kernel 6.18.44 x86_64  2 CPUs, AMD EPYC  hypervisor
    ");
}

/// The report of a profile begins with the table and names what it could not measure.
#[test]
fn profile_layout() {
    let recording = Recording::parse(PROFILE.as_bytes()).unwrap();
    let text = text::profile(&recording, &Style::default(), &Footer::default());
    let header = "% time     seconds  usecs/call     calls    errors syscall\n";
    assert!(text.starts_with(header), "{text}");
    assert!(text.contains("\nlost     nothing\n"));
    assert!(text.contains("CPU time: not measured"));
    let page = markdown::profile(&recording, &Footer::default());
    assert!(page.contains("| `wait4` |"), "{page}");
}

/// A comparison of nginx and h2o in rounds by time, on a machine that was busy with other work, in every
/// format; the recording is JSON itself, and what is read is what is written.
#[test]
fn compare_layouts() {
    let mut recording = Recording::parse(COMPARE.as_bytes()).unwrap();
    analyse(&mut recording);
    let end = Footer::default();
    insta::assert_snapshot!(
        "compare-text",
        text::compare(&recording, &Style::default(), &end)
    );
    insta::assert_snapshot!("compare-markdown", markdown::compare(&recording, &end));
    assert!(Recording::parse(recording.to_json().as_bytes()).unwrap() == recording);
}

/// The page of the run in lock-step, without its style, its script and the recording inside.
#[test]
fn lock_step_page() {
    let mut recording = Recording::parse(LOCK_STEP.as_bytes()).unwrap();
    analyse(&mut recording);
    let page = html::compare(&recording, &Footer::default());
    insta::assert_snapshot!("lock-step-html", said(&page));
}

/// The page of a profile, likewise.
#[test]
fn profile_page() {
    let recording = Recording::parse(PROFILE.as_bytes()).unwrap();
    let page = html::profile(&recording, &Footer::default());
    insta::assert_snapshot!("profile-html", said(&page));
}

/// The body of a page up to its scripts, a line for each element that is a block.
fn said(page: &str) -> String {
    let body = &page[page.find("<header").unwrap()..page.find("<script").unwrap()];
    [
        "<section", "<tr", "<li", "<p", "<details", "<dt", "<dd", "<svg", "<figure", "<h3",
    ]
    .iter()
    .fold(body.to_owned(), |text, tag| {
        text.replace(tag, &format!("\n{tag}"))
    })
}

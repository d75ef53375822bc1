//! Layouts on a terminal, as snapshots.

use recording::{
    Detail, LostClass, NotMeasured, Probes, RequestCount, RequestSource, Warning, Window,
};
use reports::{Footer, Style, analyse, csv, text};

use crate::fixture::{
    Server, busy_nginx, comparison, h2o, lock_step, nginx, profile, profile_recording,
};

fn end() -> Footer {
    Footer {
        saved: vec!["run/recording.json".to_owned(), "run/report.md".to_owned()],
        reproduce: Some("whyfast compare nginx h2o --pairs 8".to_owned()),
    }
}

/// The main report: at most 45 lines and 110 columns.
#[test]
fn compare_layout() {
    let mut recording = comparison(&[nginx(), h2o()], 8);
    analyse(&mut recording);
    let text = text::compare(&recording, &Style::default(), &end());
    assert!(text.lines().count() <= 45, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 110),
        "{text}"
    );
    insta::assert_snapshot!(text, @r"
    compare  nginx vs h2o  static-1b  HTTP/1.1  keep-alive  64 connections  CPUs server 0 client 1
    VERDICT  nginx 1.332 times as fast as h2o  [1.326, 1.338] 99% CI, 8 pairs  margin 2%  indicative: no A/A
             control
    busy     nginx: server 98% of 1 CPU, client 58%, limited by the server's CPU; h2o: server 97% of 1 CPU, client
             58%, limiter not known
    gates    ok 10/14  not measured: G8 server and client count, G10 A/A control, G13 other tracers
             WARN G14 tuning parity: file cache on|off; make them equal, or read the result with that in mind
                         nginx     h2o  nginx/h2o          99% CI
     req/s              68,938  51,753      1.332  [1.326, 1.338]
     server CPU us/req    14.1    18.7      0.758  [0.756, 0.760]
     p50 latency         906us  1.22ms      0.744  [0.740, 0.747]
     p99 latency        2.45ms  3.29ms      0.744  [0.741, 0.747]
     syscalls/req        6.250   7.520      0.831         counted
    WHY  +4.82 us per request from nginx (14.5) to h2o (19.3)
     cause                                                us/req          95% CI   share  figures
     outside of calls                    +==============   +4.29  [+4.18, +4.41]   89.1%  9.21 -> 13.4 us of CPU
     send: calls                         -=========        -2.91  [-2.93, -2.89]  -60.4%  2.000 -> 1.000 per req…
     open: calls                         +======           +1.96  [+1.95, +1.97]   40.7%  0.000 -> 1.000 per req…
     send: cost per call                 +=====            +1.47  [+1.46, +1.48]   30.5%  2.35 -> 3.30 us each, …
     effect of probes beyond their cost  -====             -1.17  [-1.24, -1.11]  -24.2%  -1.46 -> -2.59 us of C…
     others (6)                          +====             +1.17               -   24.4%  stat: calls, receive: …
    receipt  8 pairs, bars add up within 2e-16; lost 0
             not measured: CPU time of user code, faults and interrupts, of calls that sleep, and why CPUs were
             idle; entry and exit of the kernel, and the cost of the probes (--detail sched)
    finding  h2o: 1.000 opens of a file per request, 2.000 calls with stat and close  2.52 us/req (14% of its CPU
             time), likely: no setting is known that keeps files open between requests; serve small files from
             memory (a mruby handler), or from a cache in front
    finding  nginx: 1.000 of 2.000 reads per request end in EAGAIN  0.305 us/req (2.2% of its CPU time), likely:
             no setting is known; the server would have to stop at a short read
             2 more findings: --format markdown
    SYSCALLS PER REQUEST  n and us per request, ours included, by difference in time; 16 probed rounds
     call           nginx n    us    err  B/call  h2o n    us    err  B/call  diff us
     openat               -     -                 1.000  1.90                   -1.90
     sendfile         1.000  1.80            1 B      -     -                   +1.80
     read                 -     -                 3.000  1.68  1.000    48 B    -1.68
     recvfrom         2.000  1.22  1.000    94 B      -     -                   +1.22
     (6 more)         3.250  3.38                 3.520  4.31                  -0.926
     all              6.250  6.40  1.000          7.520  7.89  1.000            -1.49
     outside calls           8.98                        12.8                   -3.87
     server CPU              15.4                        20.7                   -5.36
    probes   throughput with/without: nginx 0.920, CPU 14.1 -> 15.4 us/req; h2o 0.900, CPU 18.7 -> 20.7 us/req
    run      8 pairs, 2.00 s windows, 0.50 s warm-up, whyfast 0.1.0, 2023-11-14  nginx 1.0, h2o 1.0
    machine  kernel 6.18.0 x86_64  2 CPUs, Example CPU  kvm
    saved    run/recording.json  run/report.md
    repeat   whyfast compare nginx h2o --pairs 8
    ");
}

/// Without root: no counts, and the remedy; a failed round and a warning are named.
#[test]
fn compare_without_probes_layout() {
    let mut recording = comparison(&[nginx(), h2o()], 3);
    recording.rounds.retain(|round| round.probes == Probes::Off);
    recording.rounds[2].failed = Some("nginx exited with status 1".to_owned());
    recording.not_measured.push(NotMeasured {
        what: "syscalls per request".to_owned(),
        why: "needs root".to_owned(),
        remedy: Some("run with sudo".to_owned()),
    });
    recording.warnings.push(Warning {
        code: "shared_cpus".to_owned(),
        text: "server and client share CPU 0".to_owned(),
    });
    analyse(&mut recording);
    let text = text::compare(&recording, &Style::default(), &Footer::default());
    insta::assert_snapshot!(text, @r"
    compare  nginx vs h2o  static-1b  HTTP/1.1  keep-alive  64 connections  CPUs server 0 client 1
    VERDICT  nginx 1.336 times as fast as h2o  [1.315, 1.358] 99% CI, 2 pairs  margin 2%  indicative: fewer than 8
             pairs, no A/A control
    busy     nginx: server 98% of 1 CPU, client 58%, limited by the server's CPU; h2o: server 96% of 1 CPU, client
             58%, limiter not known
    gates    ok 8/14  not measured: G8 server and client count, G10 A/A control, G11 probe cost, G12 lost events,
             G13 other tracers
             WARN G14 tuning parity: file cache on|off; make them equal, or read the result with that in mind
                         nginx     h2o  nginx/h2o         99% CI
     req/s              68,981  51,617      1.336  too few pairs
     server CPU us/req    14.1    18.7      0.757  too few pairs
     p50 latency         905us  1.22ms      0.742  too few pairs
     p99 latency        2.45ms  3.30ms      0.741  too few pairs
     syscalls/req            -       -          -   not measured
    WHY  +4.88 us per request from nginx (14.5) to h2o (19.4)
     cause                                           us/req  95% CI  share  figures
     CPU time                       +==============   +4.68       -  96.1%  14.1 -> 18.7 us of CPU
     CPUs not used, reason unknown  +=               +0.192       -   3.9%  2.4% -> 3.5% of the CPUs
    receipt  2 pairs, bars add up within 2e-16; lost 0
             not measured: what CPU time was spent on, and why CPUs were idle; intervals of the bars (run as root
             (sudo))
    failed   round 5 of nginx (pair 2, probes off): nginx exited with status 1; its pair is not used
    headers  nginx|h2o: Server nginx|h2o
    warning  server and client share CPU 0
    missing  syscalls per request: not measured: needs root (run with sudo)
    run      3 pairs, 2.00 s windows, 0.50 s warm-up, whyfast 0.1.0, 2023-11-14  nginx 1.0, h2o 1.0
    machine  kernel 6.18.0 x86_64  2 CPUs, Example CPU  kvm
    ");
}

/// Exact counts: four decimals, and whether each is whole.
#[test]
fn lock_step_layout() {
    let mut recording = lock_step(&[nginx(), h2o()], 1000);
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
    analyse(&mut recording);
    let text = text::compare(&recording, &Style::default(), &Footer::default());
    insta::assert_snapshot!(text, @r"
    compare  nginx vs h2o  static-1b  HTTP/1.1  keep-alive  1000 requests one at a time  CPUs server 0 client 1
    VERDICT  none: rounds by count give exact counts per request, not a speed
    gates    ok 8/14  not measured: G6 client saturation, G8 server and client count, G10 A/A control, G11 probe
             cost, G13 other tracers
             WARN G14 tuning parity: file cache on|off; make them equal, or read the result with that in mind
                    nginx     h2o  nginx/h2o  99% CI
     syscalls/req  6.2500  7.5200      0.831   exact
    finding  nginx: 2.000 setsockopt per request around a sendfile of 1 B  cost not measured, likely: set
             `tcp_nopush off`, or `sendfile off` where files are small
    finding  nginx: 1.000 of 2.000 reads per request end in EAGAIN  cost not measured, likely: no setting is
             known; the server would have to stop at a short read
    finding  h2o: 1.000 opens of a file per request, 2.000 calls with stat and close  cost not measured, likely:
             no setting is known that keeps files open between requests; serve small files from memory (a mruby
             handler), or from a cache in front
             1 more finding: --format markdown
    SYSCALLS PER REQUEST  n per request, by difference in number, exact; 2 probed rounds
     call        nginx n     err  B/call   h2o n     err  B/call   diff n  whole
     read              -                  3.0000  1.0000    48 B  -3.0000    yes
     recvfrom     2.0000  1.0000    94 B       -                  +2.0000    yes
     setsockopt   2.0000                       -                  +2.0000    yes
     close             -                  1.0000                  -1.0000    yes
     newfstatat        -                  1.0000                  -1.0000    yes
     openat            -                  1.0000                  -1.0000    yes
     sendfile     1.0000             1 B       -                  +1.0000    yes
     epoll_wait   0.2500                  0.5000                  -0.2500     no
     (2 more)     1.0000                  1.0200                  -0.0200     no
     all          6.2500  1.0000          7.5200  1.0000          -1.2700     no
    note     whole: the count is an integer per request on every arm
    waits    nginx epoll_wait 0.2500 wakes/req, 4.000 events/wake (median 4 to 7), 3 empty
    waits    h2o epoll_wait 0.5000 wakes/req, 2.000 events/wake (median 4 to 7), 3 empty
    headers  nginx|h2o: Server nginx|h2o
    run      1 pair, 0.50 s warm-up, whyfast 0.1.0, 2023-11-14  nginx 1.0, h2o 1.0
    machine  kernel 6.18.0 x86_64  2 CPUs, Example CPU  kvm
    ");
}

/// Three arms: arms are rows, and the table of calls drops its narrow columns.
#[test]
fn three_arms_layout() {
    let fast = Server {
        name: "testserver:writev,cache",
        rps: 90_000.0,
        ..nginx()
    };
    let mut recording = comparison(&[nginx(), h2o(), fast], 8);
    analyse(&mut recording);
    let text = text::compare(&recording, &Style::default(), &Footer::default());
    assert!(
        text.lines().all(|line| line.chars().count() <= 110),
        "{text}"
    );
    insta::assert_snapshot!(text, @r"
    compare  nginx vs h2o vs testserver:writev,cache  static-1b  HTTP/1.1  keep-alive  64 connections  CPUs server
             0 client 1
    VERDICT  nginx 1.332 times as fast as h2o  [1.326, 1.338] 99% CI, 8 pairs
    VERDICT  testserver:writev,cache 1.297 times as fast as nginx  [1.294, 1.299] 99% CI, 8 pairs
             (nginx/testserver:writev,cache 0.771)  margin 2%  indicative: no A/A control
    busy     nginx: server 98% of 1 CPU, client 58%, limited by the server's CPU; h2o: server 97% of 1 CPU, client
             58%, limiter not known; testserver:writev,cache: server 126% of 1 CPU, client 58%, limited by the
             server's CPU
    gates    ok 10/14  not measured: G8 server and client count, G10 A/A control, G13 other tracers
             WARN G14 tuning parity: file cache on|off|off; make them equal, or read the result with that in mind
     arm                       req/s  first/this          99% CI  CPU us/req     p50     p99  syscalls/req
     nginx                    68,938           -               -        14.1   906us  2.45ms         6.250
     h2o                      51,753       1.332  [1.326, 1.338]        18.7  1.22ms  3.29ms         7.520
     testserver:writev,cache  89,401       0.771  [0.770, 0.773]        14.1   716us  1.94ms         6.250
    WHY  +4.82 us per request from nginx (14.5) to h2o (19.3)
     cause                              us/req          95% CI   share  figures
     outside of calls  +==============   +4.29  [+4.18, +4.41]   89.1%  9.21 -> 13.4 us of CPU
     send: calls       -=========        -2.91  [-2.93, -2.89]  -60.4%  2.000 -> 1.000 per request, writev, send…
     open: calls       +======           +1.96  [+1.95, +1.97]   40.7%  0.000 -> 1.000 per request, openat
     others (8)        +=====            +1.48               -   30.7%  send: cost per call, effect of probes be…
    receipt  8 pairs, bars add up within 2e-16; lost 0
             not measured: CPU time of user code, faults and interrupts, of calls that sleep, and why CPUs were
             idle; entry and exit of the kernel, and the cost of the probes (--detail sched)
    WHY  -3.32 us per request from nginx (14.5) to testserver:writev,cache (11.2)
     cause                                                us/req          95% CI   share  figures
     CPUs not used, reason unknown       -==============   -3.32  [-3.37, -3.28]  100.0%  2.5% -> -26.5% of the …
     outside of calls                    -==============   -3.24  [-3.31, -3.19]   97.2%  9.21 -> 5.64 us of CPU
     effect of probes beyond their cost  +==============   +3.24  [+3.19, +3.31]  -97.2%  -1.46 -> 2.11 us of CPU
    receipt  8 pairs, bars add up within 2e-16; lost 0
             not measured: CPU time of user code, faults and interrupts, of calls that sleep, and why CPUs were
             idle; entry and exit of the kernel, and the cost of the probes (--detail sched)
    finding  h2o: 1.000 opens of a file per request, 2.000 calls with stat and close  2.52 us/req (14% of its CPU
             time), likely: no setting is known that keeps files open between requests; serve small files from
             memory (a mruby handler), or from a cache in front
             5 more findings: --format markdown
    probes   throughput with/without: nginx 0.920, CPU 14.1 -> 15.4 us/req; h2o 0.900, CPU 18.7 -> 20.7 us/req;
             testserver:writev,cache 0.920, CPU 14.1 -> 15.4 us/req
    run      8 pairs, 2.00 s windows, 0.50 s warm-up, whyfast 0.1.0, 2023-11-14  nginx 1.0, h2o 1.0,
             testserver:writev,cache 1.0
    machine  kernel 6.18.0 x86_64  2 CPUs, Example CPU  kvm
    ");
}

/// A refusal leads with the gate, and lost events hide the counts.
#[test]
fn refused_layout() {
    let mut recording = comparison(&[nginx(), h2o()], 3);
    recording.arms[1]
        .response
        .as_mut()
        .unwrap()
        .content_encoding = Some("gzip".to_owned());
    for profile in recording
        .rounds
        .iter_mut()
        .filter_map(|round| round.profile.as_mut())
    {
        profile.lost.add(LostClass::RecursionMisses, 1000);
    }
    analyse(&mut recording);
    let text = text::compare(&recording, &Style::default(), &Footer::default());
    assert!(!text.contains("epoll_wait"));
    insta::assert_snapshot!(text, @r"
    compare  nginx vs h2o  static-1b  HTTP/1.1  keep-alive  64 connections  CPUs server 0 client 1
    VERDICT  not comparable: G1 response equality: nginx|h2o: Content-Encoding none|gzip; nginx|h2o: headers
             differ: Server nginx|h2o
    busy     nginx: server 97% of 1 CPU, client 58%, limited by the server's CPU; h2o: server 96% of 1 CPU, client
             58%, limiter not known
    gates    ok 8/14  not measured: G8 server and client count, G10 A/A control, G13 other tracers
             REFUSED G1 response equality: limit: same statuses, body hash, encoding and framing; body length
             within 1%; head within 64 B; make the recipes' variants answer alike (same file, compression on or
             off on both), or accept the difference with --allow-mismatch G1
             WARN G12 lost events: nginx lost 3000 (0.13%), h2o lost 3000 (0.14%); counts per request are hidden;
             probe less: --detail counts
             WARN G14 tuning parity: file cache on|off; make them equal, or read the result with that in mind
                         nginx     h2o  nginx/h2o          99% CI
     req/s              68,377  51,263      1.334  [1.309, 1.360]
     server CPU us/req    14.2    18.8      0.758  [0.750, 0.765]
     p50 latency         913us  1.23ms      0.743  [0.730, 0.756]
     p99 latency        2.47ms  3.33ms      0.743  [0.729, 0.756]
     syscalls/req            -       -          -     hidden, G12
    SYSCALLS PER REQUEST  hidden: too many events were lost, G12
    probes   throughput with/without: nginx 0.920, CPU 14.2 -> 15.4 us/req; h2o 0.901, CPU 18.8 -> 20.8 us/req
    headers  nginx|h2o: Server nginx|h2o
    run      3 pairs, 2.00 s windows, 0.50 s warm-up, whyfast 0.1.0, 2023-11-14  nginx 1.0, h2o 1.0
    machine  kernel 6.18.0 x86_64  2 CPUs, Example CPU  kvm
    ");
}

/// A profile: the table of strace, then what it lacks.
#[test]
fn profile_layout() {
    let mut profile = profile(&nginx(), 100_000.0);
    profile.calls[0].died_in_call = 2;
    profile.lost.add(LostClass::UntrackedProcesses, 3);
    profile.ended_early = Some("the target exited".to_owned());
    let text = text::profile(
        &profile_recording(profile),
        &Style::default(),
        &Footer::default(),
    );
    insta::assert_snapshot!(text, @r"
    % time     seconds  usecs/call     calls    errors syscall
    ------ ----------- ----------- --------- --------- ----------------
     40.56    0.290000           2    100000           writev
     25.17    0.180000           1    100000           sendfile
     17.06    0.122000           0    200000    100000 recvfrom
     10.49    0.075000           3     25000           epoll_wait
      6.71    0.048000           0    200000           setsockopt
    ------ ----------- ----------- --------- --------- ----------------
    100.00    0.715000           1    625000    100000 total

    window   2.000 s, detail times (wall clock inside each call), copying the counters took 41.0us; ended early:
             the target exited
    rate     312,500 calls/s, 50,000 errors/s
    errors   recvfrom EAGAIN 100,000
    waits    epoll_wait 25,000 wakes, 4.000 events per wake (median 4 to 7), 3 without an event (1 that did not
             wait), 0 interrupted, 75.0ms inside
    open     in flight at end, not counted: epoll_wait 1 time (longest 12.0us in pid 4242 tid 4242)
    ended    not counted above, never returned: killed inside epoll_wait 2
    cpu      of the target: 1.98s, 99% of one CPU
    our cost 1,250,000 program runs on the target's calls; reader 1.20ms CPU, maps 3.40 MB, attached in 45.0ms
    LOST     3 child processes with an id outside the target table
    target   1 process, 1 thread, children followed: nginx 4242
     call        calls/s  errors/s  bytes/s  B/call     min         p50 in         p99 in     max
     writev       50,000            11.9 MB   238 B  1.45us  2.05us-4.10us  2.05us-4.10us  58.0us
     sendfile     50,000            50.0 kB     1 B   900ns  1.02us-2.05us  1.02us-2.05us  36.0us
     recvfrom    100,000    50,000  4.70 MB    94 B   305ns   512ns-1.02us   512ns-1.02us  12.2us
     epoll_wait   12,500                             1.50us  2.05us-4.10us  2.05us-4.10us  60.0us
     setsockopt  100,000                              120ns    128ns-256ns    128ns-256ns  4.80us
    ");
}

/// Where somebody counted the requests of a live server, a profile names him, and its calls are per request.
/// 99,000 in 1.98 s are 100,000 in the 2 s of the profile.
#[test]
fn a_profile_per_request() {
    let mut profile = profile(&nginx(), 100_000.0);
    let start_ns = profile.window.start_ns;
    profile.requests = Some(RequestCount {
        source: RequestSource::AccessLog,
        origin: "/var/log/\x1b[2Jaccess.log".to_owned(),
        requests: Some(99_000),
        window: Some(Window {
            start_ns,
            end_ns: start_ns + 1_980_000_000,
        }),
        uncertainty: Some(3),
    });
    let recording = profile_recording(profile);
    let text = text::profile(&recording, &Style::default(), &Footer::default());
    let line = |begin: &str| {
        let mut lines = text.lines();
        lines
            .find(|line| line.starts_with(begin))
            .unwrap_or_default()
            .to_owned()
    };
    insta::assert_snapshot!(
        [line("requests"), line(" call "), line(" recvfrom")].join("\n"),
        @r"
    requests 100,000 by lines of its access log (/var/log/\x1b[2Jaccess.log): 50,000/s, 6.250 calls each, 19.8us
     call        calls/s  errors/s  calls/req  B/call     min         p50 in         p99 in     max
     recvfrom    100,000    50,000      2.000    94 B   305ns   512ns-1.02us   512ns-1.02us  12.2us
    "
    );
    let csv = csv::syscalls(&recording);
    assert!(csv.contains(",100000,2\n"), "{csv}");
}

/// Many calls are folded into one row, and the last row is the sum of all.
#[test]
fn many_calls_are_folded() {
    let busy = busy_nginx();
    let mut recording = comparison(&[busy, h2o()], 8);
    analyse(&mut recording);
    let text = text::compare(&recording, &Style::default(), &end());
    assert!(text.lines().count() <= 45, "{text}");
    let rows: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with(" call "))
        .skip(1)
        .take_while(|line| line.starts_with(' '))
        .collect();
    let folded = rows.iter().position(|row| row.contains(" more) "));
    let folded = folded.unwrap_or_else(|| panic!("{text}"));
    // Of both servers together there are 28 kinds of calls.
    assert!(rows[folded].starts_with(&format!(" ({} more) ", 28 - folded)));
    let of_nginx = |row: &str| -> f64 {
        let after = row.split(") ").last().unwrap_or(row);
        let cells = after.split_ascii_whitespace();
        let mut numbers = cells.filter_map(|cell| match cell {
            "-" => Some(0.0),
            cell => cell.parse().ok(),
        });
        numbers.next().unwrap()
    };
    let sum: f64 = rows[..=folded].iter().map(|row| of_nginx(row)).sum();
    assert!(rows[folded + 1].starts_with(" all "), "{text}");
    assert!((sum - 15.25).abs() < 0.01, "{text}");
    assert!((of_nginx(rows[folded + 1]) - 15.25).abs() < 0.01, "{text}");
}

/// Where a terminal is narrow, tables have fewer columns and lines wrap; only the command to repeat the run
/// stays whole, and the verdict comes first in any width.
#[test]
fn narrow_terminals_get_fewer_columns() {
    let mut recording = comparison(&[nginx(), h2o()], 8);
    analyse(&mut recording);
    for width in [72, 80, 100] {
        let style = Style {
            width,
            ..Style::default()
        };
        let text = text::compare(&recording, &style, &end());
        let long = |line: &&str| line.chars().count() > width && !line.starts_with("repeat ");
        assert_eq!(text.lines().find(long), None, "{width}\n{text}");
        let verdict = text.find("VERDICT").unwrap();
        let why = text.find("WHY").unwrap();
        assert!(verdict < why && text.contains("outside of calls"), "{text}");
    }
}

/// Colour adds escape sequences and changes nothing else.
#[test]
fn colour_says_nothing_alone() {
    let mut recording = comparison(&[nginx(), h2o()], 8);
    analyse(&mut recording);
    let plain = text::compare(&recording, &Style::default(), &end());
    let coloured = text::compare(
        &recording,
        &Style {
            colour: true,
            ..Style::default()
        },
        &end(),
    );
    assert_ne!(plain, coloured);
    let mut stripped = coloured;
    for code in ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m"] {
        stripped = stripped.replace(code, "");
    }
    assert_eq!(stripped, plain);
}

/// Every renderer copes with a recording in which nothing was measured.
#[test]
fn empty_recordings_render() {
    for kind in [
        recording::RecordingKind::Compare,
        recording::RecordingKind::Load,
        recording::RecordingKind::Profile,
    ] {
        let mut empty = crate::fixture::empty(kind);
        analyse(&mut empty);
        let (style, end) = (Style::default(), Footer::default());
        for text in [
            text::compare(&empty, &style, &end),
            text::profile(&empty, &style, &end),
            text::load(&empty, &style, &end),
        ] {
            assert!(text.ends_with('\n'), "{text:?}");
        }
    }
}

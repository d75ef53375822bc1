//! Where the time of threads, CPUs and groups went, laid out.

use std::collections::BTreeMap;

use recording::{
    Abi, Calibration, CallObject, CallTime, CpuView, Detail, Group, GroupBy, GroupCall, IdleLabel,
    Log2Histogram, Profile, ThreadTime,
};
use reports::{Footer, Style, markdown, text};

use crate::fixture::{nginx, profile, profile_recording};

/// A server with a thread that works and one that sleeps, for two seconds.
fn sched_profile() -> Profile {
    let mut profile = profile(&nginx(), 1000.0);
    profile.detail = Detail::Sched;
    for (row, at) in profile.calls.iter_mut().zip(1..) {
        row.split = Some(CallTime {
            on_cpu_ns: 40_000_000 * at,
            off_cpu_ns: if row.name == "epoll_wait" {
                2_010_000_000
            } else {
                10_000_000
            },
            run_queue_ns: 1_000_000,
            sleeps: Some(20 * at),
        });
    }
    profile.threads = Some(ThreadTime {
        lifetime_ns: 4_000_000_000,
        user_ns: 1_000_000_000,
        kernel_ns: 600_000_000,
        off_cpu_in_calls_ns: 2_050_000_000,
        off_cpu_outside_ns: 0,
        run_queue_ns: 200_000_000,
        irq_ns: 50_000_000,
        softirq_ns: 100_000_000,
        charged_at_switches_ns: Some(-30_000_000),
        residual_ns: 0,
        run_queue_waits: Log2Histogram::new([vec![0; 17], vec![280, 20, 11, 1]].concat()),
        threads_began: 1,
        threads_ended: 0,
        voluntary_switches: 300,
        involuntary_switches: 12,
        migrations: 3,
        wakeups: 299,
        page_faults: 1_000,
        page_fault_ns_estimate: Some(500_000),
    });
    profile.cpu_ns = Some(1_700_000_000);
    profile.cpus = Some(CpuView {
        cpus: vec![0, 1],
        capacity_ns: 4_000_000_000,
        target_ns: 1_600_000_000,
        other_ns: 400_000_000,
        irq_ns: 100_000_000,
        softirq_ns: 100_000_000,
        idle: BTreeMap::from([
            (IdleLabel::Blocked, 800_000_000),
            (IdleLabel::Waiting, 1_000_000_000),
        ]),
        steal_ns: Some(10_000_000),
        throttled_ns: Some(0),
        residual_ns: 0,
    });
    profile.cost.sched_events = 1_226;
    profile.cost.calibration = Some(Calibration {
        probe_ns_per_call: 400.0,
        probe_ns_per_switch: Some(900.0),
        entry_exit_ns: 90.0,
        page_fault_ns: Some(500.0),
        null_call_inside_ns: None,
    });
    profile.cost.target_ns_estimate = Some(2_780_800);
    profile
}

/// A group with one call and time outside of calls.
fn group(id: u32, comm: Option<&str>, count: u64) -> Group {
    let split = CallTime {
        on_cpu_ns: 1_000_000 * count,
        off_cpu_ns: 5_000_000,
        run_queue_ns: 100_000,
        sleeps: None,
    };
    Group {
        id: Some(id),
        pid: Some(4242),
        comm: comm.map(str::to_owned),
        calls: vec![GroupCall {
            abi: Abi::X86_64,
            name: "read".to_owned(),
            on: Some(CallObject::Socket),
            count,
            errors: 1,
            bytes: Some(count * 10),
            ns_total: Some(count * 2_000),
            split: Some(split),
        }],
        outside: Some(split),
    }
}

fn text_of(profile: Profile) -> String {
    text::profile(
        &profile_recording(profile),
        &Style::default(),
        &Footer::default(),
    )
}

/// The lines with these labels, with those that continue them.
fn labelled(text: &str, labels: &[&str]) -> String {
    let mut shown = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if !line.starts_with(' ') {
            shown = labels.iter().any(|label| line.starts_with(label));
        }
        if shown {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// From the line that begins with this on, as many.
fn part(text: &str, first: &str, count: usize) -> String {
    let from = text
        .lines()
        .skip_while(|line| !line.trim_start().starts_with(first));
    let lines: Vec<&str> = from.take(count).collect();
    assert!(!lines.is_empty(), "no {first} in\n{text}");
    lines.join("\n")
}

/// Lives, both accounts of CPU time, switches, CPUs and cost on labelled lines.
#[test]
fn lines_of_threads_and_cpus() {
    let text = text_of(sched_profile());
    insta::assert_snapshot!(labelled(&text, &["threads ", "on cpu", "switches", "cpus", "our cost"]), @r"
    threads  4.00s of threads (2.00 on average), 1 began and 0 ended; unexplained 0ns
    on cpu   1.72s by our account (less 30.0ms from wake-up to CPU), 1.70s by the kernel's clock (+1.2%), which
             may leave out interrupts (150ms) and what the hypervisor took (10.0ms of all CPUs)
    switches 300 voluntary, 12 involuntary, 3 migrations, 299 wake-ups, 1,000 page faults (estimated 500us of user
             time); a wait for a CPU took 65.5us-131us in the median, at most 524us in 99 %
    cpus     2 CPUs that the target may use: target 40%, others 10%, interrupts 5%, idle while a thread was
             blocked in a call 20%, idle while all threads waited for events 25%, unexplained 0%
    our cost 12,500 program runs on the target's calls, 1,226 on switches and interrupts, about 2.78ms of the
             target (400.0 ns per call, 900.0 per switch, measured at start); reader 1.20ms CPU, maps 3.40 MB,
             attached in 45.0ms
    ");
}

/// Every term of the threads' time with its share, down to the sum.
#[test]
fn terms_of_threads() {
    let text = text_of(sched_profile());
    insta::assert_snapshot!(part(&text, "threads' time", 10), @r"
    threads' time                time  share
    user code                   1.00s    25%
    in system calls, on a CPU   600ms    15%
    in system calls, asleep     2.05s    51%
    asleep outside of calls       0ns     0%
    waiting for a CPU           200ms     5%
    interrupts                 50.0ms   1.2%
    soft interrupts             100ms   2.5%
    unexplained                   0ns     0%
    threads times window        4.00s   100%
    ");
}

/// What is missing is named, also where a term was counted twice.
#[test]
fn residual_is_told() {
    let mut profile = sched_profile();
    profile.threads.as_mut().unwrap().residual_ns = -40_000_000;
    let text = text_of(profile);
    assert!(text.contains("unexplained -40.0ms"), "{text}");
    assert!(part(&text, "unexplained", 1).contains("-1%"), "{text}");
}

/// The calls by time on a CPU, the largest first, with what a call took.
#[test]
fn time_by_call() {
    let text = text_of(sched_profile());
    insta::assert_snapshot!(part(&text, "call        on CPU", 6), @r"
    call        on CPU  us/call  asleep  sleeps  run queue
    setsockopt   200ms      100  10.0ms     100     1.00ms
    sendfile     160ms      160  10.0ms      80     1.00ms
    writev       120ms      120  10.0ms      60     1.00ms
    recvfrom    80.0ms     40.0  10.0ms      40     1.00ms
    epoll_wait  40.0ms      160   2.01s      20     1.00ms
    ");
}

/// A clock that was not read is said to be so, and a quota that was hit stands out.
#[test]
fn absent_clock_and_throttling() {
    let mut profile = sched_profile();
    profile.cpu_ns = None;
    profile.cpus.as_mut().unwrap().throttled_ns = Some(250_000_000);
    let text = text_of(profile);
    insta::assert_snapshot!(labelled(&text, &["on cpu", "cpus"]), @r"
    on cpu   1.72s by our account (less 30.0ms from wake-up to CPU); the kernel's clock was not read: a process
             ended before that
    cpus     2 CPUs that the target may use: target 40%, others 10%, interrupts 5%, idle while a thread was
             blocked in a call 20%, idle while all threads waited for events 25%, unexplained 0%; THROTTLED by the
             quota of its control group for 250ms
    ");
}

/// Groups in the order of the recording: id, name, calls and times; one that is gone has no name.
#[test]
fn groups_by_thread() {
    let mut profile = sched_profile();
    profile.grouped_by = Some(GroupBy::Thread);
    profile.groups = vec![group(4242, Some("nginx"), 900), group(4243, None, 100)];
    let text = text_of(profile);
    insta::assert_snapshot!(part(&text, "thread  ", 3), @r"
    thread  name    calls  errors  on CPU  asleep  run queue  most frequent
    4242    nginx     900       1   1.80s  10.0ms      200us  read(socket) 900
    4243    (gone)    100       1   200ms  10.0ms      200us  read(socket) 100
    ");
}

/// Names from a server do not reach the terminal as they are.
#[test]
fn hostile_names() {
    let mut profile = sched_profile();
    profile.grouped_by = Some(GroupBy::Comm);
    profile.groups = vec![Group {
        id: None,
        pid: None,
        ..group(0, Some("\u{1b}[2Jx"), 5)
    }];
    let text = text_of(profile);
    assert!(!text.contains('\u{1b}'), "{text}");
}

/// Three hundred calls of two thousand threads: the terminal shows the busiest and how many more
/// there are, the recording has them all.
#[test]
fn many_groups_are_capped() {
    let mut profile = sched_profile();
    profile.grouped_by = Some(GroupBy::Thread);
    let one = profile.calls[0].clone();
    profile.calls = (0..300)
        .map(|nr| recording::CallRow {
            nr,
            name: format!("call{nr}"),
            ..one.clone()
        })
        .collect();
    profile.groups = (0..2_000)
        .map(|id| group(id + 1, Some("worker"), 2_000 - u64::from(id)))
        .collect();
    let recording = profile_recording(profile.clone());
    let text = text_of(profile);
    assert!(text.contains("(1980 more threads)"), "{text}");
    assert!(text.contains("(280 more calls)"), "{text}");
    let page = markdown::profile(&recording, &Footer::default());
    assert!(page.contains("(1950 more threads)"), "{page}");
    let json = recording.to_json();
    let back = recording::Recording::parse(json.as_bytes()).unwrap();
    let kept = back.rounds[0].profile.as_ref().unwrap();
    assert_eq!((kept.groups.len(), kept.calls.len()), (2_000, 300));
    // The first table is that of strace, which has every call.
    assert!(text.contains("call299"));
}

/// Below detail `sched` there is no line and no table of threads.
#[test]
fn nothing_below_sched() {
    let text = text_of(profile(&nginx(), 1000.0));
    for absent in ["threads' time", "run queue", "switches", "unexplained"] {
        assert!(!text.contains(absent), "{absent} in\n{text}");
    }
}

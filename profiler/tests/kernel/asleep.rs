//! Threads that have no event during the window: asleep before it and after it.

use profiler::{Config, Session, Target};
use recording::{Detail, IdleLabel, Profile};

use crate::sched::is_in_read;
use crate::workload_process::{Workload, attach, await_until, row};

/// A window in which nothing happens to the target.
fn quiet_window(session: &mut Session) -> Profile {
    session.open(true).unwrap();
    // sleeps: time that passes without an event is what is measured.
    std::thread::sleep(std::time::Duration::from_millis(100));
    session.close(true).unwrap()
}

/// A thread that was blocked before the profiler came is asleep in its call, whichever it is, for
/// all of the window; and again in a second window.
#[test]
fn asleep_all_the_time() {
    for (call, name, idle) in [
        ("epoll_wait", "epoll_wait", IdleLabel::Waiting),
        ("futex", "futex(wait)", IdleLabel::Parked),
        ("nanosleep", "clock_nanosleep", IdleLabel::Blocked),
        ("poll", "poll", IdleLabel::Waiting),
        ("read", "read(pipe)", IdleLabel::Blocked),
    ] {
        let mut workload = Workload::start(&["blocked-in", call]);
        workload.await_byte();
        workload.await_blocked(2);
        let mut session = attach(Config::new([Target::Pid(workload.pid())], Detail::Sched));
        for _window in 0..2 {
            let profile = quiet_window(&mut session);
            let threads = profile.threads.as_ref().unwrap();
            assert_eq!(
                threads.lifetime_ns, threads.off_cpu_in_calls_ns,
                "{call}: {threads:?}"
            );
            assert_eq!(threads.residual_ns, 0);
            // The first thread is in `read`, which a second may share with it.
            let sleepers = if call == "read" { 2 } else { 1 };
            // Which of poll and ppoll it is depends on the library.
            let row = if call == "poll" {
                let is_poll = |call: &&recording::CallRow| call.name.ends_with("poll");
                profile.calls.iter().find(is_poll).unwrap()
            } else {
                row(&profile, name)
            };
            let split = row.split.unwrap();
            assert_eq!(
                split.off_cpu_ns * 2,
                threads.lifetime_ns * sleepers,
                "{call}"
            );
            assert_eq!(
                (split.on_cpu_ns, split.run_queue_ns, split.sleeps),
                (0, 0, Some(0))
            );
            assert_eq!(row.count, 0);
            assert_lifetime_is_window(&profile, 2);
            assert_nothing_ran(&profile);
            assert_eq!(profile.in_flight_at_end.len(), 2);
            assert_labels_only(
                &profile,
                if call == "read" {
                    idle
                } else {
                    IdleLabel::Blocked
                },
            );
        }
    }
}

/// An idle program with one thread: its life is the window, and nothing that the profiler did to
/// itself before is in the result.
#[test]
fn an_idle_target() {
    let workload = Workload::start(&["calls", "1"]);
    workload.await_blocked(1);
    let mut session = attach(Config::new([Target::Pid(workload.pid())], Detail::Sched));
    let profile = quiet_window(&mut session);
    assert_lifetime_is_window(&profile, 1);
    assert_nothing_ran(&profile);
    // In a call that does not wait for events.
    assert_labels_only(&profile, IdleLabel::Blocked);
    assert_eq!(profile.calls.len(), 1, "{:?}", profile.calls);
    assert!(profile.waits.is_empty());
    assert_eq!(profile.processes.len(), 1);
}

/// To attach takes no look into `/proc` for each thread: it would take half a second for ten thousand.
#[test]
fn attaching_reads_nothing_per_thread() {
    for detail in [Detail::Counts, Detail::Times, Detail::Sched] {
        let reads = ["1", "400"].map(|threads| {
            let workload = Workload::start(&["idle-threads", threads, "0"]);
            await_until("the threads", || is_in_read(workload.pid()));
            let before = own_reads();
            let session = attach(Config::new([Target::Pid(workload.pid())], detail));
            let reads = own_reads() - before;
            drop(session);
            reads
        });
        assert!(reads[1] < reads[0] + 100, "{detail:?}: {reads:?}");
    }
}

/// Calls of `read` that this process has made.
fn own_reads() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let count = io.lines().find_map(|line| line.strip_prefix("syscr: "));
    count.unwrap().parse().unwrap()
}

fn assert_lifetime_is_window(profile: &Profile, count: u64) {
    let lived = profile.threads.as_ref().unwrap().lifetime_ns;
    let windows = profile.window.length_ns() * count;
    assert!(
        lived.abs_diff(windows) <= profile.boundary_ns * count,
        "{lived} ns in {count} windows of {} ns, {} ns at the edges",
        profile.window.length_ns(),
        profile.boundary_ns
    );
}

/// Neither the target's threads nor, in their name, the idle task.
fn assert_nothing_ran(profile: &Profile) {
    let threads = profile.threads.as_ref().unwrap();
    assert_eq!(threads.run_queue_waits.count(), 0, "{threads:?}");
    assert_eq!(
        threads.voluntary_switches
            + threads.involuntary_switches
            + threads.wakeups
            + threads.migrations
            + threads.page_faults
            + threads.threads_began
            + threads.threads_ended,
        0,
        "{threads:?}"
    );
    assert_eq!(threads.on_cpu_ns(), 0, "{threads:?}");
    let cpus = profile.cpus.as_ref().unwrap();
    assert_eq!(cpus.target_ns, 0, "{cpus:?}");
    assert_eq!(profile.cpu_ns, Some(0));
    assert!(profile.calls.iter().all(|call| call.count == 0));
    assert_eq!(profile.cost.target_events, 0);
}

/// CPUs that were idle were so for one reason, and all their time is accounted for.
fn assert_labels_only(profile: &Profile, label: IdleLabel) {
    let cpus = profile.cpus.as_ref().unwrap();
    for (other, &ns) in &cpus.idle {
        assert!(*other == label || ns == 0, "{cpus:?}");
    }
    assert!(
        cpus.residual_ns.unsigned_abs() * 100 < cpus.capacity_ns,
        "{cpus:?}"
    );
}

//! Where the time of threads goes, compared with the clocks that the programs read themselves.

use profiler::{Config, Target};
use recording::{Detail, Profile, ThreadTime};

use crate::workload_process::{Workload, attach, await_until, row};

/// At detail `sched`.
fn config(pid: u32) -> Config {
    Config::new([Target::Pid(pid)], Detail::Sched)
}

fn threads(profile: &Profile) -> &ThreadTime {
    profile.threads.as_ref().unwrap()
}

/// What a program says of some of its time.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_field_names,
    reason = "the unit ends each name, as everywhere"
)]
struct Clocks {
    wall_ns: u64,
    cpu_ns: u64,
    waited_ns: u64,
}

impl Clocks {
    /// What the hypervisor took while the program was not asleep: no clock of the kernel has it, and
    /// it is in our figures.
    fn stolen_ns(self) -> u64 {
        self.wall_ns.saturating_sub(self.cpu_ns + self.waited_ns)
    }
}

/// Profiles one go of a workload that tells its clocks when it is done.
fn profile_told(args: &[&str]) -> (Profile, Vec<Clocks>) {
    let mut workload = Workload::start(args);
    workload.await_blocked(1);
    let mut session = attach(config(workload.pid()));
    session.open(true).unwrap();
    workload.go();
    let told = workload.await_numbers();
    workload.await_blocked(1);
    let told = told.chunks(3).map(|told| Clocks {
        wall_ns: told[0],
        cpu_ns: told[1],
        waited_ns: told[2],
    });
    (session.close(true).unwrap(), told.collect())
}

/// What the hypervisor took, as far as whole ticks of the clock show it.
fn stolen_ns(profile: &Profile) -> u64 {
    profile.cpus.as_ref().unwrap().steal_ns.unwrap_or(0)
}

/// Equal to two percent, and to what is not known.
fn near(what: &str, is: u64, wanted: u64, unknown_ns: u64) -> Result<(), String> {
    let allowed = wanted / 50 + unknown_ns;
    if is.abs_diff(wanted) <= allowed {
        return Ok(());
    }
    Err(format!(
        "{what}: {is} ns, the program says {wanted} ns, allowed {allowed} ns"
    ))
}

/// The terms add up to the threads' lives, with less than one percent missing.
pub(crate) fn assert_adds_up(profile: &Profile) {
    let threads = threads(profile);
    let lived = i128::from(threads.lifetime_ns);
    let residual = i128::from(threads.residual_ns);
    assert!(residual.abs() * 100 < lived, "{threads:?}");
    assert_eq!(i128::from(threads.accounted_ns()) + residual, lived);
    let by_row = |term: fn(&recording::CallTime) -> u64| -> u64 {
        profile
            .calls
            .iter()
            .filter_map(|call| call.split.as_ref())
            .map(term)
            .sum()
    };
    assert_eq!(by_row(|split| split.on_cpu_ns), threads.kernel_ns);
    assert_eq!(
        by_row(|split| split.off_cpu_ns),
        threads.off_cpu_in_calls_ns
    );
    assert!(by_row(|split| split.run_queue_ns) <= threads.run_queue_ns);
}

/// Time in user code, in a call, asleep and waiting for a CPU is what the program's clocks say.
#[test]
fn time_is_what_the_program_says() {
    let differences: Vec<String> = (0..UNDISTURBED_WITHIN)
        .map_while(|_| spends_as_its_clocks_say().err())
        .collect();
    assert!(differences.len() < UNDISTURBED_WITHIN, "{differences:#?}");
}

/// What was not near, which the hypervisor can bring about: what it takes while the kernel switches is
/// in the time before the switch or after it, depending on who reads the clock when.
fn spends_as_its_clocks_say() -> Result<(), String> {
    let (profile, told) = profile_told(&["spend", "150"]);
    let [user, kernel, asleep] = told[..] else {
        panic!("three phases: {told:?}");
    };
    assert_adds_up(&profile);
    // How much later than it was due it went on, on a machine that others use too.
    let late_ns = asleep.wall_ns - SLEEP_NS;
    let stolen_ns = user.stolen_ns() + kernel.stolen_ns();
    let threads = threads(&profile);
    let unknown_ns = stolen_ns.min(SLEEP_NS / 50) + threads.irq_ns + threads.softirq_ns;
    let sleep = row(&profile, "nanosleep").split.unwrap();
    assert_eq!(sleep.sleeps, Some(1));
    // Wall clock and CPU clock side by side: asleep is time in the call, and no CPU time.
    let time = row(&profile, "nanosleep").time.as_ref().unwrap();
    assert!(time.ns_total >= SLEEP_NS && sleep.on_cpu_ns < SLEEP_NS / 20);
    near("user", threads.user_ns, user.cpu_ns, unknown_ns)?;
    let read = row(&profile, "read(other)").split.unwrap();
    near("read", read.on_cpu_ns, kernel.cpu_ns, unknown_ns)?;
    let slept_ns = asleep.wall_ns - asleep.cpu_ns - asleep.waited_ns;
    let late_ns = late_ns.min(SLEEP_NS / 50);
    near("asleep", sleep.off_cpu_ns, slept_ns, late_ns)?;
    let cpu_ns = profile.cpu_ns.unwrap();
    near("CPU clock", threads.cpu_clock_ns(), cpu_ns, unknown_ns)?;
    let waited_ns = user.waited_ns + kernel.waited_ns + asleep.waited_ns;
    let phases_ns = user.wall_ns + kernel.wall_ns + asleep.wall_ns;
    let unknown_ns = unknown_ns + SLEEP_NS / 50 + (threads.lifetime_ns - phases_ns);
    near("run queue", threads.run_queue_ns, waited_ns, unknown_ns)
}

/// Two that spin on one CPU: one waits while the other runs, as its own clocks say.
#[test]
fn waiting_for_a_cpu() {
    let agrees = (0..UNDISTURBED_WITHIN).any(|_| waits_as_its_clocks_say());
    assert!(agrees, "no run of the program agreed with its clocks");
}

fn waits_as_its_clocks_say() -> bool {
    let rival = Workload::start(&["hog", "0"]);
    await_until("the rival to spin", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", rival.pid())).unwrap();
        let after_name = stat.rsplit(") ").next().unwrap();
        after_name.split(' ').nth(11) != Some("0")
    });
    let (profile, told) = profile_told(&["spin-on", "0", "400"]);
    drop(rival);
    let [told] = told[..] else {
        panic!("one phase: {told:?}");
    };
    assert_adds_up(&profile);
    let threads = threads(&profile);
    assert!(threads.involuntary_switches > 0);
    assert!(threads.run_queue_waits.count() >= threads.involuntary_switches);
    let unknown_ns = told.stolen_ns() + threads.irq_ns + threads.softirq_ns;
    near("user", threads.user_ns, told.cpu_ns, unknown_ns).is_ok()
        && near(
            "run queue",
            threads.run_queue_ns,
            told.waited_ns,
            unknown_ns,
        )
        .is_ok()
        && threads.run_queue_ns > told.wall_ns / 10
}

/// A thread that sleeps most of the time: on and off the CPU together are the time that passed, and
/// each is what its clocks say.
#[test]
fn on_and_off_the_cpu() {
    let (profile, told) = profile_told(&["mostly-asleep", "30"]);
    let [told] = told[..] else {
        panic!("one phase: {told:?}");
    };
    assert_adds_up(&profile);
    let threads = threads(&profile);
    let sleep = row(&profile, "nanosleep").split.unwrap();
    // Each sleep is at least as long as was asked for, and is followed by work.
    assert!(sleep.off_cpu_ns >= 30 * 9_000_000 * 98 / 100, "{sleep:?}");
    // Before its clocks begin and after they end it waits for a CPU too, when it does not wait for us.
    let with_us_ns = row(&profile, "read(pipe)").split.unwrap().off_cpu_ns;
    let untold_ns = threads.lifetime_ns - told.wall_ns - with_us_ns;
    let unknown_ns = stolen_ns(&profile) + told.wall_ns / 50 + untold_ns;
    near("on CPU", threads.on_cpu_ns(), told.cpu_ns, unknown_ns).unwrap();
    let off_ns = sleep.off_cpu_ns + threads.run_queue_ns;
    near("off CPU", off_ns, told.wall_ns - told.cpu_ns, unknown_ns).unwrap();
    assert_eq!(sleep.sleeps, Some(30));
}

/// Threads, children and programs that begin and end: every nanosecond of each is in one term, and
/// on-CPU time is that of the kernel's clock, of ended threads too.
#[test]
fn terms_add_up() {
    for args in [
        &["threads", "8", "1000"][..],
        &["exit-threads", "50"],
        &["idle-threads", "100", "100"],
        &["sleepers-that-end", "100"],
        &["forks", "16", "1000"],
        &["spawn", "10"],
        &["ping-pong", "2000"],
    ] {
        // What the hypervisor takes is in our account and not in the kernel's: a disturbed run is
        // made again.
        let agrees = (0..UNDISTURBED_WITHIN).any(|_| {
            let profile = profile_busy(args);
            assert_eq!(profile.lost.of_calls(), 0, "{args:?}: {:?}", profile.lost);
            assert_adds_up(&profile);
            let began = threads(&profile).threads_began;
            assert!(began >= threads(&profile).threads_ended || args[0] != "forks");
            on_cpu_agrees(&profile, args[0])
        });
        assert!(
            agrees,
            "{args:?}: time on a CPU never agreed with the kernel's clock"
        );
    }
}

/// One go of a workload whose threads may not rest.
fn profile_busy(args: &[&str]) -> Profile {
    let mut workload = Workload::start(args);
    await_until("the workload to wait", || is_in_read(workload.pid()));
    let mut session = attach(config(workload.pid()));
    session.open(false).unwrap();
    workload.go();
    workload.await_byte();
    session.close(false).unwrap()
}

/// Whether on-CPU time is that of the kernel's clock, as far as that can be told: threads that spin
/// go on while the clocks are read, one after the other.
fn on_cpu_agrees(profile: &Profile, workload: &str) -> bool {
    let threads = threads(profile);
    let rests = !["threads", "exit-threads"].contains(&workload);
    let Some(cpu_ns) = profile.cpu_ns.filter(|_| rests) else {
        return true;
    };
    let unknown_ns = stolen_ns(profile)
        + threads.irq_ns
        + threads.softirq_ns
        + threads.threads_ended * LAST_STEPS_NS
        + EDGE_NS;
    threads.cpu_clock_ns().abs_diff(cpu_ns) <= cpu_ns / 50 + unknown_ns
}

/// A thread that sleeps for a moment, again and again: the kernel's clock has it run from each wake-up
/// on, while an idle CPU is still on its way to it. That is told apart, and with it the account is the
/// kernel's.
#[test]
fn short_sleeps_are_charged_as_the_kernel_does() {
    let differences: Vec<String> = (0..UNDISTURBED_WITHIN)
        .map_while(|_| naps_are_charged().err())
        .collect();
    assert!(differences.len() < UNDISTURBED_WITHIN, "{differences:#?}");
}

fn naps_are_charged() -> Result<(), String> {
    let mut workload = Workload::start(&["naps", "2000"]);
    workload.await_blocked(1);
    let mut session = attach(config(workload.pid()));
    session.open(true).unwrap();
    workload.go();
    workload.await_byte();
    workload.await_blocked(1);
    let profile = session.close(true).unwrap();
    assert_adds_up(&profile);
    let threads = threads(&profile);
    // One that is over before the thread has left its CPU is none.
    assert!(threads.voluntary_switches > 0);
    let at_switches_ns = threads.charged_at_switches_ns.unwrap();
    // Found in the time that threads wait, or where the idle task was chosen.
    let most_ns = threads.run_queue_ns + threads.on_cpu_ns();
    assert!(at_switches_ns.unsigned_abs() <= most_ns, "{threads:?}");
    let stolen_ns = stolen_ns(&profile);
    let cpu_ns = profile.cpu_ns.unwrap();
    // A kernel that accounts for interrupts apart leaves them out between a wake-up and its switch, too.
    let cpus = profile.cpus.as_ref().unwrap();
    let ours_ns = threads.cpu_clock_ns();
    let without_ns = ours_ns.saturating_sub(cpus.irq_ns + cpus.softirq_ns);
    let ours_ns = cpu_ns.clamp(without_ns, ours_ns);
    near("CPU clock", ours_ns, cpu_ns, stolen_ns)
}

/// Hundreds of threads that sleep and wake at once: where the kernel does not report that one came onto its
/// CPU, its sleep of a tenth of a second is no time on a CPU.
#[test]
fn sleep_is_never_time_on_a_cpu() {
    for _ in 0..CROWDS {
        let profile = profile_busy(&["crowd", "500", "3"]);
        assert_adds_up(&profile);
        let threads = threads(&profile);
        let Some(cpu_ns) = profile.cpu_ns else {
            continue;
        };
        let most_ns =
            2 * cpu_ns + stolen_ns(&profile) + threads.irq_ns + threads.softirq_ns + EDGE_NS;
        assert!(
            threads.on_cpu_ns() <= most_ns,
            "{cpu_ns}: {threads:?} {:?}",
            profile.lost
        );
    }
}

/// Threads that begin and end are counted as such.
#[test]
fn lives_are_counted() {
    let profile = crate::workload_process::profile_with(&["exit-threads", "50"], config);
    assert_eq!(threads(&profile).threads_ended, 50);
    let profile = crate::workload_process::profile_with(&["forks", "16", "10"], config);
    let forks = threads(&profile);
    assert_eq!((forks.threads_began, forks.threads_ended), (16, 16));
    assert_adds_up(&profile);
}

/// A program that replaces itself from another thread than its first: one life ends, one goes on.
#[test]
fn exec_from_another_thread() {
    let profile = crate::workload_process::profile_to_end(&["exec-from-thread"], 1, config);
    let threads = threads(&profile);
    assert_eq!((threads.threads_began, threads.threads_ended), (1, 2));
    assert_adds_up(&profile);
    assert!(row(&profile, "execve").split.unwrap().on_cpu_ns > 0);
}

/// Moved to another CPU while it sleeps, a thread is asleep no longer than time passed.
#[test]
fn migration_while_asleep() {
    let mut workload = Workload::start(&["naps", "300"]);
    workload.await_blocked(1);
    let mut session = attach(config(workload.pid()));
    session.open(true).unwrap();
    workload.go();
    let pid = rustix::process::Pid::from_raw(workload.pid().cast_signed());
    let ours = rustix::thread::sched_getaffinity(None).unwrap();
    let mut turn = 0;
    await_until("the naps", || {
        let cpus = (0..ours.count() as usize).filter(|&cpu| ours.is_set(cpu));
        let cpus: Vec<usize> = cpus.collect();
        let mut one = rustix::thread::CpuSet::new();
        one.set(cpus[turn % cpus.len()]);
        turn += 1;
        rustix::thread::sched_setaffinity(pid, &one).unwrap();
        workload.is_done()
    });
    workload.await_byte();
    let profile = session.close(true).unwrap();
    assert_adds_up(&profile);
    let sleep = row(&profile, "nanosleep").split.unwrap();
    assert!(
        sleep.off_cpu_ns <= threads(&profile).lifetime_ns,
        "{sleep:?}"
    );
    assert!(sleep.off_cpu_ns >= 300 * 250_000, "{sleep:?}");
    assert!(ours.count() < 2 || threads(&profile).migrations > 0);
}

/// Two threads that wake each other as fast as they can: every sleep has its wake-up, every call is
/// counted, and every switch that the kernel counts.
#[test]
fn wake_ups_are_not_lost() {
    let mut workload = Workload::start(&["ping-pong", "30000"]);
    workload.await_blocked(2);
    let mut session = attach(config(workload.pid()));
    session.open(true).unwrap();
    let before = SwitchesOfKernel::read(workload.pid());
    workload.go();
    workload.await_byte();
    workload.await_blocked(2);
    let profile = session.close(true).unwrap();
    let kernel = SwitchesOfKernel::read(workload.pid());
    assert_eq!(profile.lost.of_calls(), 0, "{:?}", profile.lost);
    assert_adds_up(&profile);
    let threads = threads(&profile);
    assert_eq!(
        threads.voluntary_switches,
        kernel.voluntary - before.voluntary,
        "{threads:?}"
    );
    assert_eq!(
        threads.involuntary_switches,
        kernel.involuntary - before.involuntary,
        "{threads:?}"
    );
    let sleeps: u64 = profile
        .calls
        .iter()
        .filter_map(|call| call.split?.sleeps)
        .sum();
    // Both slept at both edges: as many sleeps began as ended.
    assert_eq!(sleeps, threads.wakeups, "{threads:?}");
    // One that is woken while it leaves its CPU has not slept.
    assert!(sleeps <= threads.voluntary_switches, "{threads:?}");
    assert!(sleeps > 0 && threads.voluntary_switches - sleeps <= sleeps / 100);
    assert_eq!(row(&profile, "read(pipe)").count, 60_001);
}

/// What the kernel counts itself of a process whose threads sleep.
struct SwitchesOfKernel {
    voluntary: u64,
    involuntary: u64,
}

impl SwitchesOfKernel {
    fn read(pid: u32) -> Self {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let of_threads: Vec<String> = tasks
            .map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap())
            .collect();
        let sum = |name: &str| {
            let lines = of_threads.iter().flat_map(|status| status.lines());
            let counts =
                lines.filter_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
            counts.sum()
        };
        Self {
            voluntary: sum("voluntary_ctxt_switches:"),
            involuntary: sum("nonvoluntary_ctxt_switches:"),
        }
    }
}

/// Whether the first thread of a process has left its CPU in a `read` of its stdin.
pub(crate) fn is_in_read(pid: u32) -> bool {
    let call = std::fs::read_to_string(format!("/proc/{pid}/syscall"));
    call.is_ok_and(|call| call.starts_with("0 0x0 "))
}

/// As long as the workload sleeps.
const SLEEP_NS: u64 = 150_000_000;
/// The kernel's clock of the process leaves out what a thread does after it was released, until it
/// leaves its CPU for the last time.
const LAST_STEPS_NS: u64 = 20_000;
/// The last thread goes to sleep while the clock of the process is read.
const EDGE_NS: u64 = 1_000_000;
/// Enough for the kernel to leave some switches unreported.
const CROWDS: usize = 5;
/// Runs of which one has to be undisturbed.
const UNDISTURBED_WITHIN: usize = 5;

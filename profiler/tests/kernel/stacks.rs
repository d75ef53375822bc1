//! Where threads were: functions by name and by share, on the CPU by samples and off it by switches.

use profiler::{Config, Target};
use recording::{Detail, Frame, FrameSide, Profile, Stack, StackSet, Stacks};

use crate::workload_process::{Workload, attach, profile, profile_with};

/// Of two functions, one takes three times as long: its share of the samples is as large, both are called
/// by the third, and that the stack ends where a caller has no frame pointer is told.
#[test]
fn hot_functions() {
    let profile = sampled(&["hot", "12000"]);
    let stacks = stacks(&profile);
    assert_eq!(stacks.hz, HZ);
    let samples = |function: &str| count(stacks, &stacks.on_cpu, function);
    let (three, one) = (
        samples("kernel_workload_three"),
        samples("kernel_workload_one"),
    );
    let all = (three + one) as f64;
    assert!(all > 100.0, "{three} and {one} samples");
    // Five standard deviations of a binomial distribution.
    let bound = 5.0 * (0.75 * 0.25 / all).sqrt();
    assert!(
        (three as f64 / all - 0.75).abs() < bound,
        "{three} and {one} samples"
    );
    let callers = stacks
        .on_cpu
        .stacks
        .iter()
        .filter(|stack| has(stacks, stack, "kernel_workload_three"));
    for stack in callers {
        let names = names(stacks, stack);
        let at = names
            .iter()
            .position(|name| name == "kernel_workload_three")
            .unwrap();
        assert_eq!(names[at - 1], "kernel_workload_turns", "{names:?}");
        assert_eq!(stack.comm, "kernel-workload");
        assert_eq!(stack.ns, stack.count * 1_000_000_000 / u64::from(HZ));
    }
    assert_eq!(stacks.on_cpu.lost, 0);
    let module = stacks
        .modules
        .iter()
        .find(|module| module.name == "kernel-workload")
        .unwrap();
    assert_eq!(module.names.as_deref(), Some("symbol table"));
    assert!(module.share > 0.5, "{module:?}");
    assert!(profile.cost.stack_events as f64 >= all);
}

/// Time off the CPU by stacks is to the nanosecond what the threads' states add up to, for a thread that
/// naps and one that sleeps through the window; each stack ends where the kernel switches.
#[test]
fn off_cpu_time_is_that_of_states() {
    for args in [
        &["naps", "40"][..],
        &["idle-threads", "3", "1"],
        &["calls", "10"],
    ] {
        let profile = profile(args, Detail::Stacks);
        let stacks = stacks(&profile);
        let off_cpu = stacks.off_cpu.as_ref().unwrap();
        let threads = profile.threads.as_ref().unwrap();
        let asleep_ns = threads.off_cpu_in_calls_ns + threads.off_cpu_outside_ns;
        assert!(asleep_ns > 0);
        assert_eq!(
            off_cpu.ns_total() + off_cpu.lost_ns.unwrap(),
            asleep_ns,
            "{args:?}"
        );
        assert_eq!(off_cpu.lost, 0);
        for stack in off_cpu
            .stacks
            .iter()
            .filter(|stack| stack.count > 0 && !stack.comm.is_empty())
        {
            let innermost = &stacks.frames[*stack.frames.last().unwrap() as usize];
            assert_eq!(
                innermost.name.as_deref(),
                Some("__schedule"),
                "{:?}",
                names(stacks, stack)
            );
            assert_eq!(innermost.side, FrameSide::Kernel);
        }
    }
}

/// Naps are in the call that makes them: its stack has as many sleeps, and nearly all of the time.
#[test]
fn naps_have_their_stack() {
    let profile = profile(&["naps", "40"], Detail::Stacks);
    let stacks = stacks(&profile);
    let off_cpu = stacks.off_cpu.as_ref().unwrap();
    let sleeps = count(stacks, off_cpu, "hrtimer_nanosleep");
    assert!(
        (35..=40).contains(&sleeps),
        "{sleeps} sleeps: {:?}",
        stacks.frames
    );
    let napping = off_cpu
        .stacks
        .iter()
        .filter(|stack| has(stacks, stack, "hrtimer_nanosleep"));
    assert!(napping.map(|stack| stack.ns).sum::<u64>() >= 35 * 250_000);
}

/// Code that a program made while it ran has the name that its map gives it, and only that.
#[test]
fn names_from_a_jit_map() {
    let profile = sampled(&["jit", "300"]);
    let stacks = stacks(&profile);
    let made = |frame: &&Frame| frame.side == FrameSide::Jit;
    let frame = stacks
        .frames
        .iter()
        .find(made)
        .unwrap_or_else(|| panic!("{:?}", stacks.frames));
    assert_eq!(frame.name.as_deref(), Some("made_at_run_time;\u{1b}[31m"));
    assert_eq!(frame.module.as_deref(), Some("[jit]"));
    let inside = count(stacks, &stacks.on_cpu, "made_at_run_time;\u{1b}[31m");
    let all = stacks.on_cpu.count();
    assert!(inside * 10 > all * 8, "{inside} of {all} samples");
}

/// Programs that begin and end while nobody looks have the names of their functions, and so has one that took the
/// place of the program that was asked.
#[test]
fn names_of_short_lives() {
    let mut workload = Workload::start(&["short-lives", "20", "600"]);
    let mut config = Config::new([Target::Pid(workload.pid())], Detail::Stacks);
    config.stack_hz = HZ;
    let mut session = attach(config);
    session.open(false).unwrap();
    workload.go();
    // Nobody calls `tick` meanwhile.
    workload.await_end();
    let profile = session.close(false).unwrap();
    let stacks = stacks(&profile);
    let all = stacks.on_cpu.count();
    let named = count(stacks, &stacks.on_cpu, "kernel_workload_turns");
    assert!(
        all > 50 && named * 10 > all * 6,
        "{named} of {all} samples: {:?}",
        stacks.frames
    );
    let innermost = |stack: &Stack| &stacks.frames[*stack.frames.last().unwrap() as usize];
    let unknown = stacks
        .on_cpu
        .stacks
        .iter()
        .filter(|stack| innermost(stack).module.is_none());
    assert_eq!(unknown.map(|stack| stack.count).sum::<u64>(), 0);
    let mut lost = profile
        .warnings
        .iter()
        .filter(|warning| warning.code == "mappings_lost");
    assert_eq!(lost.next(), None);
}

pub(crate) fn sampled(args: &[&str]) -> Profile {
    profile_with(args, |pid| {
        let mut config = Config::new([Target::Pid(pid)], Detail::Stacks);
        config.stack_hz = HZ;
        config
    })
}

pub(crate) fn stacks(profile: &Profile) -> &Stacks {
    profile.stacks.as_ref().unwrap()
}

/// Samples or sleeps of all stacks with a function.
pub(crate) fn count(stacks: &Stacks, set: &StackSet, function: &str) -> u64 {
    let with = set
        .stacks
        .iter()
        .filter(|stack| has(stacks, stack, function));
    with.map(|stack| stack.count).sum()
}

fn has(stacks: &Stacks, stack: &Stack, function: &str) -> bool {
    names(stacks, stack).iter().any(|name| name == function)
}

pub(crate) fn names(stacks: &Stacks, stack: &Stack) -> Vec<String> {
    let frames = stack.frames.iter().map(|&at| &stacks.frames[at as usize]);
    frames
        .map(|frame| frame.name.clone().unwrap_or_default())
        .collect()
}

/// Ten times as often as by default, for a tenth of the time.
pub(crate) const HZ: u32 = 999;

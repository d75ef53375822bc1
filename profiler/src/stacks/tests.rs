//! The table of stacks in memory: differences of copies, what is lost, and names of this test itself.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use profiler_common::{ASLEEP, LOST_SLEEP, NO_PLACE, RUNNING};
use recording::{FrameSide, StackClock};

use super::named::{Sampling, named};
use super::symbols::Symbols;
use super::*;
use crate::source::CounterSource as _;
use crate::source::replay::Replay;

const COMM: &[u8; 16] = b"nginx\0\0\0\0\0\0\0\0\0\0\0";

fn open(sleep: u64, state: u64, ns: u64) -> OpenSegment {
    OpenSegment {
        tid: 7,
        row: 0,
        state,
        ns,
        sleep,
    }
}

fn copy(replay: &Replay, open: &[OpenSegment]) -> StackCopy {
    let mut copy = StackCopy::closed(&replay.tables().stacks);
    copy.add_open(open);
    copy
}

/// A window has what was counted between its edges, with the addresses of each stack, and sleeps that began
/// before it or go on behind it for the part that is inside.
#[test]
fn difference_of_two_copies() {
    let replay = Replay::new(64);
    replay.put_stack(3, 42, COMM, [&[0xffff, 0xfff0], &[0x10, 0x20, 0x30]]);
    replay.stacks[3].samples.store(5, Relaxed);
    let from = copy(&replay, &[open(4, ASLEEP, 300)]);
    replay.stacks[3].samples.store(9, Relaxed);
    replay.stacks[3].asleep_ns.store(1_300, Relaxed);
    replay.put_stack(70, 43, COMM, [&[], &[0x50]]);
    replay.stacks[70].sleeps.store(1, Relaxed);
    let to = copy(&replay, &[open(71, ASLEEP, 50), open(4, RUNNING, 9_999)]);
    let delta = StackDelta::between(&from, &to, &replay.tables().stacks);
    let counts = |samples, sleeps, asleep_ns| Counts {
        samples,
        sleeps,
        asleep_ns,
    };
    assert_eq!(
        delta.stacks,
        [
            RawStack {
                tgid: 42,
                comm: "nginx".into(),
                kernel: vec![0xffff, 0xfff0],
                user: vec![0x10, 0x20, 0x30],
                counts: counts(4, 0, 1_000),
            },
            RawStack {
                tgid: 43,
                comm: "nginx".into(),
                kernel: vec![],
                user: vec![0x50],
                counts: counts(0, 1, 50),
            },
        ]
    );
    assert_eq!(
        (delta.lost, delta.unseen),
        (Counts::default(), Counts::default())
    );
    assert_eq!(delta.events(), 5);
    let same = StackDelta::between(&to, &to, &replay.tables().stacks);
    assert_eq!(same, StackDelta::default());
}

/// What found no entry, whose addresses found no room, and what slept before anybody looked is told, each
/// as what it is.
#[test]
fn losses_are_told() {
    let replay = Replay::new(64);
    let from = copy(&replay, &[]);
    replay.put_stack(0, 42, COMM, [&[1], &[2]]);
    replay.stacks[0].place.store(NO_PLACE, Relaxed);
    replay.stacks[0].samples.store(2, Relaxed);
    replay.stack_head.lost_samples.store(3, Relaxed);
    replay.stack_head.lost_sleeps.store(4, Relaxed);
    replay.stack_head.lost_asleep_ns.store(100, Relaxed);
    replay.stack_head.unseen_sleeps.store(1, Relaxed);
    let to = copy(&replay, &[open(LOST_SLEEP, ASLEEP, 10), open(0, ASLEEP, 7)]);
    let delta = StackDelta::between(&from, &to, &replay.tables().stacks);
    assert_eq!(delta.stacks, []);
    assert_eq!(
        (delta.lost.samples, delta.lost.sleeps, delta.lost.asleep_ns),
        (5, 4, 110)
    );
    assert_eq!((delta.unseen.sleeps, delta.unseen.asleep_ns), (1, 7));
    let (stacks, warnings) = named(&delta, SAMPLING, &mut Symbols::default());
    assert_eq!(
        (stacks.on_cpu.lost, stacks.on_cpu.lost_ns),
        (5, Some(50_000_000))
    );
    let off_cpu = stacks.off_cpu.unwrap();
    assert_eq!(
        (off_cpu.lost, off_cpu.lost_ns, off_cpu.ns_total()),
        (4, Some(110), 7)
    );
    let codes: Vec<&str> = warnings
        .iter()
        .map(|warning| warning.code.as_str())
        .collect();
    assert_eq!(codes, ["stacks_lost"]);
}

/// A stack of this test has the test's functions by name, the caller of `main` ends it, and a return
/// address behind the last instruction of a caller is still the caller's.
#[test]
fn names_our_own_functions() {
    let mut symbols = Symbols::default();
    let own = std::process::id();
    symbols.meet(&[own].into(), 0);
    let here = (names_our_own_functions as fn() as usize) as u64;
    let place = symbols.in_program(own, here);
    let name = place.frame.name.unwrap();
    assert!(name.ends_with("names_our_own_functions"), "{name}");
    assert_eq!(place.frame.offset, None);
    let before = symbols.in_program(own, here - 1);
    assert_ne!(before.frame.name, Some(name));
    assert_eq!(symbols.in_program(own, 8).frame.module, None);
    assert_eq!(symbols.in_program(u32::MAX, here).frame.module, None);
    let module = symbols.modules(&[place.frame.module.unwrap()].into());
    assert_eq!(module[0].names.as_deref(), Some("symbol table"));
}

/// Samples are time by the clock's period; processes with the same functions are one stack, the most
/// expensive comes first, and a process that nobody could ask has frames without names.
#[test]
fn stacks_of_a_recording() {
    let raw = |tgid, samples| RawStack {
        tgid,
        comm: "worker".into(),
        kernel: vec![],
        user: vec![0x10, 0x20],
        counts: Counts {
            samples,
            ..Counts::default()
        },
    };
    let mut other = raw(3, 9);
    other.comm = "other".into();
    let delta = StackDelta {
        stacks: vec![raw(1, 1), raw(2, 2), other],
        ..StackDelta::default()
    };
    let (stacks, warnings) = named(&delta, SAMPLING, &mut Symbols::default());
    let told: Vec<(&str, u64, u64)> = stacks
        .on_cpu
        .stacks
        .iter()
        .map(|stack| (stack.comm.as_str(), stack.count, stack.ns))
        .collect();
    assert_eq!(told, [("other", 9, 90_000_000), ("worker", 3, 30_000_000)]);
    assert_eq!(stacks.frames.len(), 1);
    assert_eq!(
        (&stacks.frames[0].name, stacks.frames[0].side),
        (&None, FrameSide::User)
    );
    // Nobody knows where they end, so they do.
    assert_eq!(warnings[0].code, "stacks_end_early");
    assert!(
        warnings[0].text.starts_with("100 % of the samples"),
        "{}",
        warnings[0].text
    );
}

/// As often as makes arithmetic easy.
const SAMPLING: Sampling = Sampling {
    clock: StackClock::CpuClock,
    hz: 100,
};

/// Sums of counts over any windows are those of the whole.
#[test]
fn windows_add_up() {
    let replay = Replay::new(64);
    replay.put_stack(1, 42, COMM, [&[1], &[]]);
    let mut edges = vec![copy(&replay, &[])];
    for (samples, asleep_ns, asleep) in [(3, 0, 500), (4, 700, 0), (9, 700, 40)] {
        replay.stacks[1].samples.store(samples, Relaxed);
        replay.stacks[1].asleep_ns.store(asleep_ns, Relaxed);
        edges.push(copy(&replay, &[open(2, ASLEEP, asleep)]));
    }
    let tables = replay.tables().stacks;
    let counts = |from: usize, to: usize| {
        let delta = StackDelta::between(&edges[from], &edges[to], &tables);
        delta
            .stacks
            .iter()
            .fold(Counts::default(), |mut sum, stack| {
                sum.add(stack.counts);
                sum
            })
    };
    let mut sum = Counts::default();
    for edge in 1..edges.len() {
        sum.add(counts(edge - 1, edge));
    }
    assert_eq!(sum, counts(0, 3));
    assert_eq!((sum.samples, sum.asleep_ns), (9, 740));
    let by_edge: BTreeMap<usize, u64> = (1..4)
        .map(|at| (at, counts(at - 1, at).asleep_ns))
        .collect();
    assert_eq!(by_edge, [(1, 500), (2, 200), (3, 40)].into());
}

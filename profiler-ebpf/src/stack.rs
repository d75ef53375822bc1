// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! Detail `stacks`: where threads are when a clock ticks, and where they go to sleep.
//!
//! A stack is walked by the kernel, hashed, and counted in one table; its addresses are copied the first
//! time only. The kernel's own map of stacks is not used: it keeps one stack per hash, so that a stack
//! whose place is taken is refused for ever.

use core::sync::atomic::AtomicU64;

use aya_ebpf::{
    EbpfContext,
    programs::{BtfTracePointContext, PerfEventContext},
};
use profiler_common::{
    ENDED, LOST_SLEEP, NO_PLACE, STACK_CONTEXTS, STACK_DEPTH, STACK_ENTRIES, STACK_PROBES,
    STACK_WORDS as WORDS, StackEntry, StackHash, StackScratch, TARGET, pack_place,
};

use crate::{
    kernel::{
        Side, Task, add, advance, comm, cpu, fetch_add, fetch_or, load, replace_zero, slot,
        stack_depth, store,
    },
    lifecycle::flags,
    maps::{KEEP_STACKS, SLEEPS, STACK_HEAD, STACK_SCRATCH, STACK_WORDS, STACKS},
};

/// Whether stacks are kept. A constant to the verifier, which removes what depends on it.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    KEEP_STACKS.load() != 0
}

/// A clock of this CPU ticks.
#[inline(always)]
pub(crate) fn sample(ctx: &PerfEventContext) {
    let tgid = ctx.tgid();
    if flags(tgid) & (TARGET | ENDED) == 0 {
        return;
    }
    match entry(ctx, tgid, IN_CLOCK) {
        Some(index) => add(STACKS.get(index).map(|entry| &entry.samples), 1),
        None => add(STACK_HEAD.get(0).map(|head| &head.lost_samples), 1),
    }
}

/// The running thread goes to sleep: remembers where.
#[inline(always)]
pub(crate) fn sleeps(ctx: &BtfTracePointContext, task: Task) {
    let Some(sleep) = SLEEPS.get(task.tid()) else {
        return;
    };
    match entry(ctx, task.tgid(), IN_SWITCH) {
        Some(index) => {
            add(STACKS.get(index).map(|entry| &entry.sleeps), 1);
            store(&sleep.0, u64::from(index) + 1);
        }
        None => {
            add(STACK_HEAD.get(0).map(|head| &head.lost_sleeps), 1);
            store(&sleep.0, LOST_SLEEP);
        }
    }
}

/// A thread has slept.
#[inline(always)]
pub(crate) fn slept(task: Task, ns: u64) {
    let Some(head) = STACK_HEAD.get(0) else {
        return;
    };
    let Some(sleep) = SLEEPS.get(task.tid()) else {
        fetch_add(&head.lost_asleep_ns, ns);
        return;
    };
    let found = load(&sleep.0);
    store(&sleep.0, 0);
    if found == 0 {
        fetch_add(&head.unseen_sleeps, 1);
        fetch_add(&head.unseen_asleep_ns, ns);
    } else if let Some(entry) = STACKS.get((found - 1) as u32)
        && found != LOST_SLEEP
    {
        fetch_add(&entry.asleep_ns, ns);
    } else {
        fetch_add(&head.lost_asleep_ns, ns);
    }
}

/// A new thread, whose id another may have had.
#[inline(always)]
pub(crate) fn forget(task: Task) {
    if let Some(sleep) = SLEEPS.get(task.tid()) {
        store(&sleep.0, 0);
    }
}

/// The entry of the running thread's stack; `None` where there is none to take.
#[inline(always)]
fn entry<C: EbpfContext>(ctx: &C, tgid: u32, context: u32) -> Option<u32> {
    let at = cpu() * STACK_CONTEXTS + context;
    let scratch = STACK_SCRATCH.get(at)?;
    store(
        &scratch.kernel_depth,
        stack_depth(ctx, &scratch.kernel, Side::Kernel),
    );
    store(
        &scratch.user_depth,
        stack_depth(ctx, &scratch.user, Side::User),
    );
    let comm = comm();
    let mut hash = StackHash::new()
        .with(tgid.into())
        .with(load(&scratch.kernel_depth))
        .with(comm[0])
        .with(comm[1]);
    hash = hashed(hash, &scratch.kernel, &scratch.kernel_depth);
    hash = hashed(hash, &scratch.user, &scratch.user_depth);
    let (index, is_new) = find(hash)?;
    if is_new && let Some(entry) = STACKS.get(index) {
        fill(entry, scratch);
        store(&entry.tgid, tgid.into());
        store(&entry.comm[0], comm[0]);
        store(&entry.comm[1], comm[1]);
        let taken = STACK_HEAD.get(0).map(|head| &head.taken);
        if let Some(taken) = taken {
            fetch_or(slot(taken, (index / 64) as usize), 1 << (index % 64));
        }
    }
    Some(index)
}

/// The depth is loaded from memory wherever it is needed: to the verifier it is then any number, however a
/// loop before ended, and what follows is looked at once instead of once for each length.
#[inline(always)]
fn hashed(mut hash: StackHash, words: &[AtomicU64; STACK_DEPTH], depth: &AtomicU64) -> StackHash {
    let depth = load(depth);
    for index in 0..STACK_DEPTH {
        if index as u64 >= depth {
            break;
        }
        hash = hash.with(load(slot(words, index)));
    }
    hash
}

/// Finds or takes an entry, and whether it is new.
#[inline(always)]
fn find(hash: StackHash) -> Option<(u32, bool)> {
    for probe in 0..STACK_PROBES {
        let index = hash.first().wrapping_add(probe) % STACK_ENTRIES;
        let entry = STACKS.get(index)?;
        let mut found = load(&entry.key);
        if found == 0 {
            found = replace_zero(&entry.key, hash.key());
            if found == 0 {
                store(&entry.check, hash.check());
                return Some((index, true));
            }
        }
        if found == hash.key() {
            // Zero: another CPU has just taken it for the same stack.
            let check = load(&entry.check);
            return (check == 0 || check == hash.check()).then_some((index, false));
        }
    }
    None
}

/// Copies the addresses to a place of their own.
#[inline(always)]
fn fill(entry: &StackEntry, scratch: &StackScratch) {
    let Some(head) = STACK_HEAD.get(0) else {
        return;
    };
    let depth = load(&scratch.kernel_depth) + load(&scratch.user_depth);
    let at = advance(&head.words, depth);
    if at + depth > WORDS.into() {
        store(&entry.place, NO_PLACE);
        return;
    }
    copy(at, &scratch.kernel, &scratch.kernel_depth);
    let user_at = at + load(&scratch.kernel_depth);
    copy(user_at, &scratch.user, &scratch.user_depth);
    let kernel = load(&scratch.kernel_depth) as u32;
    let user = load(&scratch.user_depth) as u32;
    store(&entry.place, pack_place(at as u32, kernel, user));
}

#[inline(always)]
fn copy(at: u64, words: &[AtomicU64; STACK_DEPTH], depth: &AtomicU64) {
    let depth = load(depth);
    for index in 0..STACK_DEPTH {
        if index as u64 >= depth {
            break;
        }
        if let Some(word) = STACK_WORDS.get(at as u32 + index as u32) {
            store(word, load(slot(words, index)));
        }
    }
}

/// Contexts: the clock may interrupt a switch.
const IN_SWITCH: u32 = 0;
const IN_CLOCK: u32 = 1;

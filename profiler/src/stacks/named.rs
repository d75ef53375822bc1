//! From stacks of addresses to those of a recording: every function by its name, the time of each stack, and
//! what was not seen of it.

use std::collections::{BTreeMap, HashMap};

use profiler_common::STACK_DEPTH;
use recording::{Frame, FrameSide, Stack, StackClock, StackSet, Stacks, Warning};

use super::symbols::{Place, Symbols};
use super::{Counts, RawStack, StackDelta};

/// What samples were taken by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampling {
    pub(crate) clock: StackClock,
    pub(crate) hz: u32,
}

/// The stacks of a window, and what is to be said about them.
pub(crate) fn named(
    delta: &StackDelta,
    sampling: Sampling,
    symbols: &mut Symbols,
) -> (Stacks, Vec<Warning>) {
    let mut frames = Frames::default();
    let mut on_cpu = Sets::default();
    let mut off_cpu = Sets::default();
    let mut innermost: BTreeMap<Option<String>, u64> = BTreeMap::new();
    for stack in &delta.stacks {
        let walked = Walked::of(stack, symbols);
        if stack.counts.samples > 0 {
            let module = walked.innermost().and_then(|frame| frame.module.clone());
            *innermost.entry(module).or_default() += stack.counts.samples;
            let ns = sampled_ns(stack.counts.samples, sampling.hz);
            on_cpu.add(walked.key(&mut frames, false), stack.counts.samples, ns);
        }
        if stack.counts.sleeps > 0 || stack.counts.asleep_ns > 0 {
            let Counts {
                sleeps, asleep_ns, ..
            } = stack.counts;
            off_cpu.add(walked.key(&mut frames, true), sleeps, asleep_ns);
        }
    }
    if delta.unseen != Counts::default() {
        let key = Key {
            comm: String::new(),
            frames: vec![frames.position(unseen())],
            ends_early: true,
        };
        off_cpu.add(key, delta.unseen.sleeps, delta.unseen.asleep_ns);
    }
    let lost = delta.lost;
    let on_cpu = on_cpu.into_set(lost.samples, Some(sampled_ns(lost.samples, sampling.hz)));
    let off_cpu = off_cpu.into_set(lost.sleeps, Some(lost.asleep_ns));
    let used = frames
        .all
        .iter()
        .filter_map(|frame| frame.module.clone())
        .collect();
    let mut modules = symbols.modules(&used);
    let samples = on_cpu.count().max(1);
    for module in &mut modules {
        let inside = innermost
            .get(&Some(module.name.clone()))
            .copied()
            .unwrap_or(0);
        module.share = inside as f64 / samples as f64;
    }
    modules.sort_by(|one, other| other.share.total_cmp(&one.share));
    let mut warnings = warnings(&on_cpu);
    warnings.extend(symbols.warning());
    let stacks = Stacks {
        clock: sampling.clock,
        hz: sampling.hz,
        frames: frames.all,
        on_cpu,
        off_cpu: Some(off_cpu),
        modules,
    };
    (stacks, warnings)
}

/// A stack with its functions, each part the outermost first.
struct Walked {
    comm: String,
    user: Vec<Place>,
    kernel: Vec<Frame>,
    ends_early: bool,
}

impl Walked {
    fn of(stack: &RawStack, symbols: &mut Symbols) -> Self {
        // All but the innermost are addresses to return to: the call is before.
        let at = |(index, &address): (usize, &u64)| address.saturating_sub(u64::from(index > 0));
        let mut user: Vec<Place> = stack
            .user
            .iter()
            .enumerate()
            .map(|place| symbols.in_program(stack.tgid, at(place)))
            .collect();
        let mut kernel: Vec<Frame> = stack
            .kernel
            .iter()
            .enumerate()
            .map(|place| symbols.in_kernel(at(place)))
            .collect();
        user.reverse();
        user.drain(..whole_from(&user));
        kernel.reverse();
        Self {
            comm: stack.comm.clone(),
            ends_early: ends_early(&user),
            user,
            kernel,
        }
    }

    fn innermost(&self) -> Option<&Frame> {
        self.kernel
            .last()
            .or(self.user.last().map(|place| &place.frame))
    }

    /// Of a switch, the part inside of the scheduler is left out: it is ours and the tracepoint's.
    fn key(&self, frames: &mut Frames, is_switch: bool) -> Key {
        let switch = self
            .kernel
            .iter()
            .rposition(|frame| frame.name.as_deref() == Some(SWITCH));
        let kernel = match switch.filter(|_| is_switch) {
            Some(at) => &self.kernel[..=at],
            None => &self.kernel,
        };
        let user = self.user.iter().map(|place| &place.frame);
        Key {
            comm: self.comm.clone(),
            frames: user
                .chain(kernel)
                .map(|frame| frames.position(frame.clone()))
                .collect(),
            ends_early: self.ends_early,
        }
    }
}

/// Where a stack begins, the outermost first: at a function that nobody calls. What lies behind is what was
/// left in the register for the frame pointer, which C libraries use for something else. The innermost function
/// may be one of these and have a caller: who starts a thread calls `clone`.
fn whole_from(user: &[Place]) -> usize {
    let callers = &user[..user.len().saturating_sub(1)];
    let begins =
        |place: &Place| place.is_entry || place.frame.name.as_deref().is_some_and(is_outermost);
    callers.iter().rposition(begins).unwrap_or(0)
}

/// Whether the program's part, the outermost first, ends before its outermost caller.
fn ends_early(user: &[Place]) -> bool {
    let Some(outermost) = user.first() else {
        return false;
    };
    if user.len() >= STACK_DEPTH {
        return true;
    }
    if outermost.is_entry {
        return false;
    }
    let frame = &outermost.frame;
    if let Some(name) = &frame.name {
        return !is_outermost(name);
    }
    // The function of a C library that calls `main` is in no table of a stripped library. It is
    // called by nobody, and calls what is outside.
    let calls_out = user.get(1).is_some_and(|place| !is_c_library(&place.frame));
    !(is_c_library(frame) && calls_out)
}

fn is_outermost(name: &str) -> bool {
    OUTERMOST.contains(&name) || name.starts_with("__libc_start_")
}

fn is_c_library(frame: &Frame) -> bool {
    let module = frame.module.as_deref().unwrap_or_default();
    ["libc.so", "libc-2.", "libpthread", "ld-musl"]
        .iter()
        .any(|start| module.starts_with(start))
}

fn warnings(on_cpu: &StackSet) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let early: u64 = on_cpu
        .stacks
        .iter()
        .filter(|stack| stack.ends_early)
        .map(|stack| stack.count)
        .sum();
    let all = on_cpu.count();
    if early as f64 > all as f64 * EARLY_IS_TOLD {
        let share = 100.0 * early as f64 / all as f64;
        warnings.push(Warning {
            code: "stacks_end_early".into(),
            text: format!(
                "{share:.0} % of the samples have a stack that ends before its outermost caller: the \
                 program, or a library that it calls, is compiled without frame pointers \
                 (-fno-omit-frame-pointer), so callers are missing; the innermost functions are right"
            ),
        });
    }
    if on_cpu.lost > 0 {
        warnings.push(Warning {
            code: "stacks_lost".into(),
            text: format!(
                "{} samples are in no stack: the table of stacks in the kernel was full",
                on_cpu.lost
            ),
        });
    }
    warnings
}

/// Frames by their positions.
#[derive(Default)]
struct Frames {
    all: Vec<Frame>,
    positions: HashMap<Frame, u32>,
}

impl Frames {
    fn position(&mut self, frame: Frame) -> u32 {
        if let Some(&position) = self.positions.get(&frame) {
            return position;
        }
        let position =
            u32::try_from(self.all.len()).expect("the table in the kernel has 2 million");
        self.all.push(frame.clone());
        self.positions.insert(frame, position);
        position
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    comm: String,
    frames: Vec<u32>,
    ends_early: bool,
}

/// Stacks of the same functions are one: they may differ in addresses, or be of several processes.
#[derive(Default)]
struct Sets(BTreeMap<Key, (u64, u64)>);

impl Sets {
    fn add(&mut self, key: Key, count: u64, ns: u64) {
        let sum = self.0.entry(key).or_default();
        *sum = (sum.0 + count, sum.1.saturating_add(ns));
    }

    fn into_set(self, lost: u64, lost_ns: Option<u64>) -> StackSet {
        let stacks = self.0.into_iter().map(|(key, (count, ns))| Stack {
            comm: key.comm,
            frames: key.frames,
            count,
            ns,
            ends_early: key.ends_early,
        });
        let mut stacks: Vec<Stack> = stacks.collect();
        stacks.sort_by_key(|stack| std::cmp::Reverse(stack.ns));
        StackSet {
            stacks,
            lost,
            lost_ns,
        }
    }
}

/// Samples stand for the time between two of them.
fn sampled_ns(samples: u64, hz: u32) -> u64 {
    let ns = u128::from(samples) * 1_000_000_000 / u128::from(hz.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// What stands for the stack of a thread that slept before anybody looked.
fn unseen() -> Frame {
    Frame {
        name: Some("[asleep since before the profiler was attached]".to_owned()),
        module: None,
        offset: None,
        side: FrameSide::User,
    }
}

/// Functions that nobody calls: of C libraries, of threads, and of Go.
const OUTERMOST: [&str; 14] = [
    "_start",
    "_start_c",
    "__clone",
    "__clone3",
    "clone",
    "clone3",
    "start",
    "start_thread",
    "thread_start",
    "_rt0_amd64_linux",
    "runtime.goexit.abi0",
    "runtime.goexit",
    "runtime.mstart",
    "runtime.rt0_go.abi0",
];
/// The scheduler's function that switches.
const SWITCH: &str = "__schedule";
/// Share of samples from which it is told that they end early.
const EARLY_IS_TOLD: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    fn place(module: Option<&str>, name: Option<&str>) -> Place {
        Place {
            frame: Frame {
                name: name.map(str::to_owned),
                module: module.map(str::to_owned),
                offset: name.is_none().then_some(1),
                side: FrameSide::User,
            },
            is_entry: false,
        }
    }

    /// A stack is whole where a function is outermost that nobody calls: by its name, as the entry point of a
    /// program without names, or in a stripped C library as what calls the program.
    #[test]
    fn whole_stacks() {
        let main = || place(Some("nginx"), Some("main"));
        let stripped_caller = place(Some("libc.so.6"), None);
        let mut entry = place(Some("busybox"), None);
        entry.is_entry = true;
        for outermost in ["_start", "start_thread", "__libc_start_call_main", "clone3"] {
            assert!(!ends_early(&[
                place(Some("libc.so.6"), Some(outermost)),
                main()
            ]));
        }
        assert!(!ends_early(&[stripped_caller, main()]));
        assert!(!ends_early(&[entry, place(Some("busybox"), None)]));
        assert!(!ends_early(&[]));
    }

    /// It ends early where the outermost function has a caller, is inside of a C library that lost the way, or
    /// is as deep as the kernel looks.
    #[test]
    fn stacks_that_end_early() {
        let in_libc = || place(Some("libc.so.6"), None);
        assert!(ends_early(&[place(
            Some("nginx"),
            Some("ngx_process_events")
        )]));
        assert!(ends_early(&[place(Some("nginx"), None), in_libc()]));
        assert!(ends_early(&[in_libc()]));
        assert!(ends_early(&[in_libc(), in_libc()]));
        assert!(ends_early(&[
            place(None, None),
            place(Some("node"), Some("main"))
        ]));
        let deep: Vec<Place> = (0..STACK_DEPTH)
            .map(|_| place(None, Some("_start")))
            .collect();
        assert!(ends_early(&deep));
    }

    /// What lies behind a function that nobody calls is left out; where the innermost one is called `clone`, it is
    /// what starts a thread, and has callers.
    #[test]
    fn nothing_lies_behind_the_outermost() {
        let named = |name| place(Some("hot"), Some(name));
        let garbage = place(None, None);
        let from = |user: &[Place]| whole_from(user);
        assert_eq!(
            from(&[
                garbage.clone(),
                named("tm"),
                named("__libc_start_call_main"),
                named("main")
            ]),
            2
        );
        assert_eq!(from(&[named("_start"), named("main")]), 0);
        assert_eq!(from(&[named("main"), named("spawn"), named("clone")]), 0);
        assert_eq!(from(&[garbage, named("main")]), 0);
        assert_eq!(from(&[]), 0);
    }

    /// Half of the samples that end early are told as that, one in a hundred is not.
    #[test]
    fn tells_what_ends_early() {
        let stack = |count, ends_early| Stack {
            comm: String::new(),
            frames: Vec::new(),
            count,
            ns: 0,
            ends_early,
        };
        let told = |early, whole| {
            let stacks = vec![stack(early, true), stack(whole, false)];
            let set = StackSet {
                stacks,
                ..StackSet::default()
            };
            warnings(&set).first().map(|warning| warning.text.clone())
        };
        assert!(told(50, 50).unwrap().starts_with("50 % of the samples"));
        assert_eq!(told(1, 99), None);
        assert_eq!(told(0, 0), None);
    }
}

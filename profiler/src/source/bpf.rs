//! Loads the object into the kernel, attaches its programs and maps its counters. The only file
//! that names aya; what the counters mean is not decided here.

mod clock;
mod sizes;

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::AtomicU64;

use aya::maps::Map;
use aya::programs::links::LinkError;
use aya::programs::uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeLinkId, UProbeScope};
use aya::programs::{Program, ProgramError, UProbe};
use aya::{Ebpf, EbpfError, EbpfLoader, Endianness};
use profiler_common::{
    BelowEvents, CountRow, CpuRow, EndRow, ErrnoRow, Events, GroupEntry, LabelClock, Lives,
    PORT_WORDS, PortWord, ROWS, SegmentSlot, SleepSlot, SplitRow, StackEntry, StackHead, StartSlot,
    TargetEntry, TimeRow, TlsRow, UNKNOWN_ROWS, UnknownEntry, UringRow, WaitRow, global, map,
    program,
};
use recording::{Detail, StackClock};

use super::loaded::Loaded;
use super::object::{check_abi, object};
use super::offsets::Offsets;
use super::programs::{FUNCTION, LIFECYCLE, programs};
use super::refusal::{not_permitted, refused};
use super::{ByThread, CounterSource, Probed, StackTables, Tables, below};
use crate::btf::Btf;
use crate::sys::{Mapping, Parts, Shared};
use crate::{Hook, ProfilerError, privileges};
use sizes::Sizes;

/// What to load, and how large.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches that do not depend on each other"
)]
pub(crate) struct LoadPlan {
    pub(crate) detail: Detail,
    pub(crate) hook: Hook,
    pub(crate) follow: bool,
    /// Process ids below this can be targets.
    pub(crate) target_ids: u32,
    /// Thread ids below this are timed.
    pub(crate) start_ids: u32,
    /// Numbers outside the table that are told apart.
    pub(crate) unknown_numbers: u32,
    /// What calls are grouped by, as the programs know it.
    pub(crate) group_by: u8,
    /// Whether only some rows are counted.
    pub(crate) filtered: bool,
    /// Whether the kernel keeps statistics of all programs meanwhile.
    pub(crate) statistics: bool,
    /// Samples per second of each CPU, at detail `stacks`.
    pub(crate) stack_hz: u32,
    /// Whether functions of TLS libraries will be probed.
    pub(crate) tls: bool,
}

/// The programs in the kernel, attached as long as this lives.
#[derive(Debug)]
pub(crate) struct Bpf {
    counts: Mapping<CountRow>,
    cpus: Mapping<CpuRow>,
    ends: Mapping<EndRow>,
    errnos: Mapping<ErrnoRow>,
    events: Mapping<Events>,
    groups: Mapping<GroupEntry>,
    label_clock: Mapping<LabelClock>,
    lives: Mapping<Lives>,
    only: Mapping<AtomicU64>,
    segments: Parts<SegmentSlot>,
    splits: Mapping<SplitRow>,
    starts: Parts<StartSlot>,
    targets: Mapping<TargetEntry>,
    times: Mapping<TimeRow>,
    unknowns: Mapping<UnknownEntry>,
    waits: Mapping<WaitRow>,
    below: Mapping<BelowEvents>,
    ports: Mapping<PortWord>,
    urings: Mapping<UringRow>,
    sleeps: Parts<SleepSlot>,
    stacks: Mapping<StackEntry>,
    stack_head: Mapping<StackHead>,
    stack_words: Mapping<AtomicU64>,
    stack_clock: Option<StackClock>,
    tls: Mapping<TlsRow>,
    map_bytes: u64,
    programs: Vec<RawFd>,
    missing: Vec<String>,
    /// Keeps the kernel's statistics on.
    statistics: Option<OwnedFd>,
    /// Owns the programs and their links: dropping it detaches them.
    ebpf: Ebpf,
}

impl Bpf {
    /// Loads and attaches. Nothing is counted until a target is set.
    pub(crate) fn load(plan: &LoadPlan) -> Result<Self, ProfilerError> {
        let object = object().ok_or(ProfilerError::NoObject {
            arch: std::env::consts::ARCH,
        })?;
        check_abi(object)?;
        let blob = std::fs::read(VMLINUX_BTF)
            .map_err(|source| ProfilerError::reading_btf(VMLINUX_BTF, source))?;
        let btf = aya::Btf::parse(&blob, Endianness::default())
            .map_err(|error| refused("the kernel's type information", &error))?;
        let own = Btf::parse(&blob)?;
        let sizes = Sizes::new(plan)?;
        let mut ebpf = load_object(object, &btf, &Offsets::find(&own)?, plan, &sizes)?;
        let statistics = plan.statistics.then(keep_statistics).transpose()?;
        let (mut programs, missing) = attach(&mut ebpf, &btf, &own, plan)?;
        let clock = (plan.detail >= Detail::Stacks)
            .then(|| clock::start(&mut ebpf, plan.stack_hz))
            .transpose()?;
        programs.extend(clock.map(|(_, program)| program));
        Ok(Self {
            counts: mapping(&ebpf, map::COUNTS, sizes.counts)?,
            cpus: mapping(&ebpf, map::CPUS, sizes.cpus)?,
            ends: mapping(&ebpf, map::ENDS, ROWS)?,
            errnos: mapping(&ebpf, map::ERRNOS, ROWS)?,
            events: mapping(&ebpf, map::EVENTS, 1)?,
            groups: mapping(&ebpf, map::GROUPS, sizes.groups)?,
            label_clock: mapping(&ebpf, map::LABEL_CLOCK, 1)?,
            lives: mapping(&ebpf, map::LIVES, 1)?,
            only: mapping(&ebpf, map::ONLY, ROWS.div_ceil(64))?,
            segments: parts(&ebpf, map::SEGMENTS, sizes.segments)?,
            splits: mapping(&ebpf, map::SPLITS, sizes.splits)?,
            starts: parts(&ebpf, map::STARTS, sizes.starts)?,
            targets: mapping(&ebpf, map::TARGETS, sizes.targets)?,
            times: mapping(&ebpf, map::TIMES, sizes.times)?,
            unknowns: mapping(&ebpf, map::UNKNOWNS, UNKNOWN_ROWS)?,
            waits: mapping(&ebpf, map::WAITS, sizes.waits)?,
            below: mapping(&ebpf, map::BELOW, 1)?,
            ports: mapping(&ebpf, map::PORTS, PORT_WORDS)?,
            urings: mapping(&ebpf, map::URINGS, sizes.urings)?,
            sleeps: parts(&ebpf, map::SLEEPS, sizes.sleeps)?,
            stacks: mapping(&ebpf, map::STACKS, sizes.stacks)?,
            stack_head: mapping(&ebpf, map::STACK_HEAD, 1)?,
            stack_words: mapping(&ebpf, map::STACK_WORDS, sizes.stack_words)?,
            stack_clock: clock.map(|(clock, _)| clock),
            tls: mapping(&ebpf, map::TLS_ROWS, sizes.tls)?,
            map_bytes: map_bytes(&ebpf),
            programs,
            missing,
            statistics,
            ebpf,
        })
    }
}

impl CounterSource for Bpf {
    fn tables(&self) -> Tables<'_> {
        Tables {
            counts: self.counts.entries(),
            cpus: self.cpus.entries(),
            ends: self.ends.entries(),
            errnos: self.errnos.entries(),
            events: &self.events.entries()[0],
            groups: self.groups.entries(),
            label_clock: &self.label_clock.entries()[0],
            lives: &self.lives.entries()[0],
            only: self.only.entries(),
            segments: ByThread::Mapped(&self.segments),
            splits: self.splits.entries(),
            starts: ByThread::Mapped(&self.starts),
            targets: self.targets.entries(),
            times: self.times.entries(),
            unknowns: self.unknowns.entries(),
            waits: self.waits.entries(),
            below: &self.below.entries()[0],
            ports: self.ports.entries(),
            urings: self.urings.entries(),
            stacks: StackTables {
                entries: self.stacks.entries(),
                head: &self.stack_head.entries()[0],
                words: self.stack_words.entries(),
                sleeps: ByThread::Mapped(&self.sleeps),
            },
            tls: self.tls.entries(),
        }
    }

    fn recursion_misses(&self) -> u64 {
        let fds = self.programs.iter();
        fds.filter_map(|&fd| fdinfo(fd, "recursion_misses:")).sum()
    }

    fn map_bytes(&self) -> u64 {
        self.map_bytes
    }

    fn run_statistics(&self) -> Option<(u64, u64)> {
        self.statistics.as_ref()?;
        let sum = |key| self.programs.iter().filter_map(|&fd| fdinfo(fd, key)).sum();
        Some((sum("run_time_ns:"), sum("run_cnt:")))
    }

    fn missing(&self) -> &[String] {
        &self.missing
    }

    fn stack_clock(&self) -> Option<StackClock> {
        self.stack_clock
    }

    fn probe_functions(&mut self, file: &Path, functions: &[Probed]) -> Result<(), ProfilerError> {
        // The exits first: a call that is seen to begin is then seen to end.
        let mut made = Vec::new();
        for name in [program::TLS_EXIT, program::TLS_ENTER] {
            let fd = match probe_all(&mut self.ebpf, name, file, functions, &mut made) {
                Ok(fd) => fd,
                Err(error) => {
                    // Half of the probes would be worse than none.
                    for (program, link) in made {
                        // What cannot be detached goes with the programs.
                        let _detached = probe_program(&mut self.ebpf, program).detach(link);
                    }
                    return Err(not_permitted("probe functions of a TLS library", &error)
                        .unwrap_or_else(|| refused(name, &error)));
                }
            };
            if !self.programs.contains(&fd) {
                self.programs.push(fd);
            }
        }
        Ok(())
    }

    fn give_states(&mut self) -> Result<(), ProfilerError> {
        let Some(Program::Iter(program)) = self.ebpf.program_mut(program::FIRST_STATES) else {
            unreachable!("the object was built with an iterator of this name");
        };
        let refused = |error: &(dyn StdError + 'static)| refused(program::FIRST_STATES, error);
        let link = program.attach().map_err(|error| refused(&error))?;
        let link = program.take_link(link).map_err(|error| refused(&error))?;
        let mut threads = link.into_file().map_err(|error| refused(&error))?;
        loop {
            // The program says nothing: to read is to let it run, for a million threads at a time.
            match threads.read(&mut [0]) {
                Ok(0) => return Ok(()),
                Err(error) if !is_for_now(&error) => return Err(refused(&error)),
                Ok(_) | Err(_) => {}
            }
        }
    }
}

/// Whether another attempt goes on where this one was interrupted.
fn is_for_now(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    )
}

fn load_object(
    object: &[u8],
    btf: &aya::Btf,
    offsets: &Offsets,
    plan: &LoadPlan,
    sizes: &Sizes,
) -> Result<Ebpf, ProfilerError> {
    let follow = u8::from(plan.follow);
    let filtered = u8::from(plan.filtered);
    let look_up = u8::from(!privileges::is_confidential());
    let uring_timed = u8::from(plan.detail >= Detail::Times);
    let keep_stacks = u8::from(plan.detail >= Detail::Stacks);
    let tls = u8::from(plan.tls);
    let unknown_limit = plan.unknown_numbers.min(UNKNOWN_ROWS);
    let mut loader = EbpfLoader::new();
    loader
        .btf(Some(btf))
        .override_global(global::FOLLOW, &follow, true)
        .override_global(global::UNKNOWN_LIMIT, &unknown_limit, true)
        .override_global(global::GROUP_BY, &plan.group_by, true)
        .override_global(global::LOOK_UP, &look_up, true)
        .override_global(global::FILTERED, &filtered, true)
        .override_global(global::KEEP_STACKS, &keep_stacks, true)
        .override_global(global::URING_TIMED, &uring_timed, true)
        .override_global(global::TLS, &tls, true);
    for (name, entries) in sizes.by_map() {
        loader.map_max_entries(name, entries);
    }
    for (name, offset) in &offsets.0 {
        loader.override_global(name, offset, true);
    }
    loader.load(object).map_err(|error| match &error {
        EbpfError::MapError(_) | EbpfError::ProgramError(_) => {
            not_permitted("create the eBPF maps", &error)
                .unwrap_or_else(|| refused("the eBPF object", &error))
        }
        _ => refused("the eBPF object", &error),
    })
}

/// Descriptors of the attached programs, and the tracepoints that this kernel lacks.
fn attach(
    ebpf: &mut Ebpf,
    btf: &aya::Btf,
    own: &Btf<'_>,
    plan: &LoadPlan,
) -> Result<(Vec<RawFd>, Vec<String>), ProfilerError> {
    let programs = match (plan.hook, plan.detail) {
        (Hook::Tracepoint, detail) => programs(detail),
        (Hook::Function, Detail::Counts) => [&LIFECYCLE[..], &[FUNCTION]].concat(),
        (Hook::Function, detail) => return Err(ProfilerError::HookForDetail { detail }),
    };
    let mut fds = Vec::new();
    let below = below::Programs::find(own, plan.detail, !privileges::is_confidential());
    let mut missing: Vec<String> = below.missing.iter().map(|&name| name.to_owned()).collect();
    for (name, point) in below.present.into_iter().chain(programs) {
        if below::is_optional(name) && !own.has_typedef(&format!("btf_trace_{point}")) {
            missing.push(point.to_owned());
            continue;
        }
        let program = ebpf
            .program_mut(name)
            .expect("the object was built from the same names");
        let fd = attach_one(program, point, btf).map_err(|error| {
            not_permitted(&format!("attach to {point}"), &error)
                .unwrap_or_else(|| refused(name, &error))
        })?;
        fds.push(fd);
    }
    Ok((fds, missing))
}

fn attach_one(program: &mut Program, point: &str, btf: &aya::Btf) -> Result<RawFd, ProgramError> {
    match program {
        Program::BtfTracePoint(program) => {
            program.load(point, btf)?;
            program.attach()?;
        }
        Program::FExit(program) => {
            program.load(point, btf)?;
            program.attach()?;
        }
        // It runs when it is asked to.
        Program::Iter(program) => program.load(point, btf)?,
        _ => unreachable!("the object was built with programs of these types"),
    }
    Ok(program.fd()?.as_fd().as_raw_fd())
}

/// Attaches a program to all these functions, for all processes that have the file; its descriptor.
fn probe_all(
    ebpf: &mut Ebpf,
    name: &'static str,
    file: &Path,
    functions: &[Probed],
    made: &mut Vec<(&'static str, UProbeLinkId)>,
) -> Result<RawFd, ProgramError> {
    let program = probe_program(ebpf, name);
    if program.fd().is_err() {
        program.load()?;
    }
    for function in functions {
        let point = UProbeAttachPoint {
            location: UProbeAttachLocation::AbsoluteOffset(function.file_offset),
            cookie: Some(function.cookie.into()),
        };
        made.push((
            name,
            program.attach(point, file, UProbeScope::AllProcesses)?,
        ));
    }
    Ok(program.fd()?.as_fd().as_raw_fd())
}

fn probe_program<'a>(ebpf: &'a mut Ebpf, name: &str) -> &'a mut UProbe {
    let Some(Program::UProbe(program)) = ebpf.program_mut(name) else {
        unreachable!("the object was built with a probe of this name");
    };
    program
}

/// Lets the kernel keep run statistics of all programs as long as the descriptor is open.
fn keep_statistics() -> Result<OwnedFd, ProfilerError> {
    let attempt = "enable the kernel's statistics of eBPF programs";
    aya::sys::enable_stats(aya::sys::Stats::RunTime).map_err(|error| {
        if let Some(reason) = privileges::why_no_statistics() {
            return ProfilerError::NotPermitted {
                attempt: attempt.to_owned(),
                reason,
            };
        }
        not_permitted(attempt, &error)
            .unwrap_or_else(|| refused("statistics of eBPF programs", &error))
    })
}

/// The programs that the kernel holds, whoever loaded them.
pub(crate) fn loaded() -> io::Result<Vec<Loaded>> {
    let mut attached = BTreeSet::new();
    for link in aya::programs::loaded_links() {
        match link {
            Ok(link) => attached.insert(link.program_id()),
            Err(LinkError::SyscallError(error)) if is_fleeting(&error.io_error) => continue,
            Err(LinkError::SyscallError(error)) => return Err(error.io_error),
            Err(error) => return Err(io::Error::other(error)),
        };
    }
    let mut found = Vec::new();
    for program in aya::programs::loaded_programs() {
        match program {
            Ok(program) => found.push(Loaded {
                kind: program.program_type() as u32,
                name: String::from_utf8_lossy(program.name()).into_owned(),
                id: program.id(),
                attached: attached.contains(&program.id()),
            }),
            Err(ProgramError::SyscallError(error)) if is_fleeting(&error.io_error) => {}
            Err(ProgramError::SyscallError(error)) => return Err(error.io_error),
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    Ok(found)
}

/// What was freed meanwhile cannot be asked, nor a link that is being made (`bpf_link_by_id` in the kernel).
fn is_fleeting(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EAGAIN))
}

fn mapping<T: Shared>(
    ebpf: &Ebpf,
    name: &'static str,
    entries: u32,
) -> Result<Mapping<T>, ProfilerError> {
    let Some(Map::Array(data)) = ebpf.map(name) else {
        unreachable!("the object was built with an array map {name}");
    };
    Mapping::new(data.fd(), entries).map_err(|source| ProfilerError::Map { map: name, source })
}

fn parts<T: Shared>(
    ebpf: &Ebpf,
    name: &'static str,
    entries: u32,
) -> Result<Parts<T>, ProfilerError> {
    let Some(Map::Array(data)) = ebpf.map(name) else {
        unreachable!("the object was built with an array map {name}");
    };
    Parts::new(data.fd(), entries).map_err(|source| ProfilerError::Map { map: name, source })
}

fn map_bytes(ebpf: &Ebpf) -> u64 {
    let maps = ebpf.maps().filter_map(|(_, map)| match map {
        Map::Array(data) => Some(data.fd().as_fd().as_raw_fd()),
        _ => None,
    });
    maps.filter_map(|fd| fdinfo(fd, "memlock:")).sum()
}

/// A number of `/proc/self/fdinfo`.
fn fdinfo(fd: RawFd, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    value.trim().parse().ok()
}

const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";

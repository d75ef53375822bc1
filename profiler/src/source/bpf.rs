//! Loads the object into the kernel, attaches its programs and maps its counters. The only file
//! that names aya; what the counters mean is not decided here.

use std::error::Error as StdError;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};

use aya::maps::Map;
use aya::programs::{Program, ProgramError};
use aya::{Ebpf, EbpfError, EbpfLoader, Endianness};
use profiler_common::{
    CountRow, EndRow, ErrnoRow, Events, ROWS, StartSlot, TARGETS_PER_ENTRY, TargetEntry, TimeRow,
    UNKNOWN_ROWS, UnknownEntry, WAIT_ROWS, WaitRow, global, map, program,
};
use recording::Detail;

use super::object::{check_abi, object};
use super::{CounterSource, Tables};
use crate::btf::Btf;
use crate::sys::{Mapping, Shared};
use crate::{Hook, ProfilerError, privileges};

/// What to load, and how large.
#[derive(Clone, Copy, Debug)]
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
}

/// The programs in the kernel, attached as long as this lives.
#[derive(Debug)]
pub(crate) struct Bpf {
    counts: Mapping<CountRow>,
    ends: Mapping<EndRow>,
    errnos: Mapping<ErrnoRow>,
    events: Mapping<Events>,
    starts: Mapping<StartSlot>,
    targets: Mapping<TargetEntry>,
    times: Mapping<TimeRow>,
    unknowns: Mapping<UnknownEntry>,
    waits: Mapping<WaitRow>,
    map_bytes: u64,
    programs: Vec<RawFd>,
    /// Owns the programs and their links: dropping it detaches them.
    _ebpf: Ebpf,
}

impl Bpf {
    /// Loads and attaches. Nothing is counted until a target is set.
    pub(crate) fn load(plan: &LoadPlan) -> Result<Self, ProfilerError> {
        let object = object().ok_or(ProfilerError::NoObject {
            arch: std::env::consts::ARCH,
        })?;
        check_abi(object)?;
        let blob = std::fs::read(VMLINUX_BTF).map_err(|source| ProfilerError::NoBtf {
            path: VMLINUX_BTF,
            source,
        })?;
        let btf = aya::Btf::parse(&blob, Endianness::default())
            .map_err(|error| refused("the kernel's type information", &error))?;
        let sizes = Sizes::new(plan)?;
        let mut ebpf = load_object(object, &btf, &Offsets::find(&blob)?, plan, &sizes)?;
        let programs = attach(&mut ebpf, &btf, plan)?;
        Ok(Self {
            counts: mapping(&ebpf, map::COUNTS, sizes.counts)?,
            ends: mapping(&ebpf, map::ENDS, ROWS)?,
            errnos: mapping(&ebpf, map::ERRNOS, ROWS)?,
            events: mapping(&ebpf, map::EVENTS, 1)?,
            starts: mapping(&ebpf, map::STARTS, sizes.starts)?,
            targets: mapping(&ebpf, map::TARGETS, sizes.targets)?,
            times: mapping(&ebpf, map::TIMES, sizes.times)?,
            unknowns: mapping(&ebpf, map::UNKNOWNS, UNKNOWN_ROWS)?,
            waits: mapping(&ebpf, map::WAITS, sizes.waits)?,
            map_bytes: map_bytes(&ebpf),
            programs,
            _ebpf: ebpf,
        })
    }
}

impl CounterSource for Bpf {
    fn tables(&self) -> Tables<'_> {
        Tables {
            counts: self.counts.entries(),
            ends: self.ends.entries(),
            errnos: self.errnos.entries(),
            events: &self.events.entries()[0],
            starts: self.starts.entries(),
            targets: self.targets.entries(),
            times: self.times.entries(),
            unknowns: self.unknowns.entries(),
            waits: self.waits.entries(),
        }
    }

    fn recursion_misses(&self) -> u64 {
        let fds = self.programs.iter();
        fds.filter_map(|&fd| fdinfo(fd, "recursion_misses:")).sum()
    }

    fn map_bytes(&self) -> u64 {
        self.map_bytes
    }
}

/// Offsets of the fields that the programs read.
struct Offsets([(&'static str, u32); 5]);

impl Offsets {
    fn find(blob: &[u8]) -> Result<Self, ProfilerError> {
        let btf = Btf::parse(blob)?;
        let task = |path: &[&str], size| btf.field_offset("task_struct", path, size);
        Ok(Self([
            (global::TASK_TGID, task(&["tgid"], 4)?),
            (global::TASK_PID, task(&["pid"], 4)?),
            (global::TASK_STATUS, task(&["thread_info", "status"], 4)?),
            (global::TASK_SIGNAL, task(&["signal"], 8)?),
            (
                global::SIGNAL_LIVE,
                btf.field_offset("signal_struct", &["live", "counter"], 4)?,
            ),
        ]))
    }
}

/// Entries of the maps whose size depends on the machine and the detail.
struct Sizes {
    counts: u32,
    starts: u32,
    targets: u32,
    times: u32,
    waits: u32,
}

impl Sizes {
    fn new(plan: &LoadPlan) -> Result<Self, ProfilerError> {
        let cpus = aya::util::nr_cpus().map_err(|(path, source)| ProfilerError::Read {
            path: path.into(),
            source,
        })?;
        let cpus = u32::try_from(cpus).expect("a kernel has at most thousands of CPUs");
        let timed = plan.detail >= Detail::Times;
        Ok(Self {
            counts: cpus * ROWS,
            starts: if timed { plan.start_ids.max(1) } else { 1 },
            targets: plan.target_ids.div_ceil(TARGETS_PER_ENTRY).max(1),
            times: if timed { cpus * ROWS } else { 1 },
            waits: cpus * WAIT_ROWS,
        })
    }
}

fn load_object(
    object: &[u8],
    btf: &aya::Btf,
    offsets: &Offsets,
    plan: &LoadPlan,
    sizes: &Sizes,
) -> Result<Ebpf, ProfilerError> {
    let follow = u8::from(plan.follow);
    let unknown_limit = plan.unknown_numbers.min(UNKNOWN_ROWS);
    let mut loader = EbpfLoader::new();
    loader
        .btf(Some(btf))
        .override_global(global::FOLLOW, &follow, true)
        .override_global(global::UNKNOWN_LIMIT, &unknown_limit, true)
        .map_max_entries(map::COUNTS, sizes.counts)
        .map_max_entries(map::STARTS, sizes.starts)
        .map_max_entries(map::TARGETS, sizes.targets)
        .map_max_entries(map::TIMES, sizes.times)
        .map_max_entries(map::WAITS, sizes.waits);
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

fn attach(ebpf: &mut Ebpf, btf: &aya::Btf, plan: &LoadPlan) -> Result<Vec<RawFd>, ProfilerError> {
    let programs = match (plan.hook, plan.detail) {
        (Hook::Tracepoint, detail) => programs(detail),
        (Hook::Function, Detail::Counts) => [&LIFECYCLE[..], &[FUNCTION]].concat(),
        (Hook::Function, detail) => return Err(ProfilerError::HookForDetail { detail }),
    };
    let mut fds = Vec::new();
    for (name, point) in programs {
        let program = ebpf
            .program_mut(name)
            .expect("the object was built from the same names");
        let fd = attach_one(program, point, btf).map_err(|error| {
            not_permitted(&format!("attach to {point}"), &error)
                .unwrap_or_else(|| refused(name, &error))
        })?;
        fds.push(fd);
    }
    Ok(fds)
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
        _ => unreachable!("the object was built with programs of these types"),
    }
    Ok(program.fd()?.as_fd().as_raw_fd())
}

/// Programs of a detail and their tracepoints; the ones of every call last, so that a failure
/// before them costs the host nothing.
fn programs(detail: Detail) -> Vec<(&'static str, &'static str)> {
    let calls: &[_] = match detail {
        Detail::Floor => &[
            (program::FLOOR_EXIT, "sys_exit"),
            (program::FLOOR_ENTER, "sys_enter"),
        ],
        Detail::Counts => &[(program::COUNTS_EXIT, "sys_exit")],
        Detail::Times => &[
            (program::TIMES_EXIT, "sys_exit"),
            (program::TIMES_ENTER, "sys_enter"),
        ],
    };
    [&LIFECYCLE[..], calls].concat()
}

/// How many programs of ours the kernel holds, of this and of other processes, recognised by their
/// names. Zero once every session has ended.
pub fn loaded_programs() -> std::io::Result<usize> {
    let ours = programs(Detail::Times)
        .into_iter()
        .chain(programs(Detail::Floor))
        .chain([FUNCTION]);
    // The kernel keeps 15 bytes of a name.
    let names: Vec<&str> = ours
        .map(|(name, _)| name.get(..15).unwrap_or(name))
        .collect();
    let mut count = 0;
    for program in aya::programs::loaded_programs() {
        // One that was unloaded meanwhile cannot be asked for its name.
        let name = match program {
            Ok(program) => program.name_as_str().unwrap_or_default().to_owned(),
            Err(ProgramError::SyscallError(error)) => return Err(error.io_error),
            Err(error) => return Err(std::io::Error::other(error)),
        };
        count += usize::from(names.contains(&name.as_str()));
    }
    Ok(count)
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

/// The error with its remedy, if it is one of permissions. EACCES is not: that is what the verifier
/// answers to a program that it does not accept.
fn not_permitted(attempt: &str, error: &(dyn StdError + 'static)) -> Option<ProfilerError> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>()
            && error.raw_os_error() == Some(libc::EPERM)
        {
            return Some(ProfilerError::NotPermitted {
                attempt: attempt.to_owned(),
                reason: privileges::why_not_permitted(),
            });
        }
        cause = error.source();
    }
    None
}

fn refused(what: &str, error: &(dyn StdError + 'static)) -> ProfilerError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let inner = error.to_string();
        if !text.contains(&inner) {
            text = format!("{text}: {inner}");
        }
        cause = error.source();
    }
    if let Some(reason) = privileges::why_not_verified(&text) {
        let attempt = format!("load {what}");
        return ProfilerError::NotPermitted { attempt, reason };
    }
    // The verifier's log can have megabytes; what it stumbled over is at its end.
    let skip = text
        .char_indices()
        .rev()
        .nth(MOST_CAUSE)
        .map_or(0, |(at, _)| at);
    ProfilerError::Refused {
        what: what.to_owned(),
        cause: text.split_off(skip),
    }
}

const LIFECYCLE: [(&str, &str); 3] = [
    (program::PROCESS_FORK, "sched_process_fork"),
    (program::PROCESS_EXEC, "sched_process_exec"),
    (program::PROCESS_EXIT, "sched_process_exit"),
];
const FUNCTION: (&str, &str) = (program::FUNCTION_EXIT, "x64_sys_call");
const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";
/// Characters of a cause that are kept.
const MOST_CAUSE: usize = 2000;

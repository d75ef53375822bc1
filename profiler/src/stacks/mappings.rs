//! What the kernel tells of code that programs map, of forks and of ends: a process may be gone before anybody
//! asks it. Put in the order of time; who of them is a target is not decided here.

use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, Clock, SampleFlag, Sampler};

use super::address_space::{Content, Region};
use crate::cpus;

/// What happened to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Ended { pid: u32 },
    Forked { parent: u32, child: u32 },
    Mapped { pid: u32, region: Region },
}

/// The kernel's buffers, one for each CPU.
#[derive(Default)]
pub(super) struct Mappings {
    rings: Vec<Sampler>,
    /// Read, and too young for all that is older to have been read.
    young: Vec<(u64, Change)>,
    lost: u64,
    /// Why there are none.
    refused: Option<io::Error>,
}

impl Mappings {
    /// From now on. Where the kernel refuses, nothing is told, and that is.
    pub(super) fn attach() -> Self {
        match rings() {
            Ok(rings) => Self {
                rings,
                ..Self::default()
            },
            Err(error) => Self {
                refused: Some(error),
                ..Self::default()
            },
        }
    }

    /// What happened until a moment of `CLOCK_MONOTONIC`, ns, and was not taken yet, the oldest first.
    pub(super) fn take(&mut self, until_ns: u64) -> Vec<Change> {
        for ring in &mut self.rings {
            while let Some(record) = ring.next_record() {
                match record.parse_record() {
                    Ok(Record::Lost(lost)) => self.lost = self.lost.saturating_add(lost.lost),
                    Ok(parsed) => {
                        let time_ns = stamp(&record.to_contiguous());
                        let change = change(&parsed);
                        self.young.extend(time_ns.zip(change));
                    }
                    Err(_unreadable) => self.lost = self.lost.saturating_add(1),
                }
            }
        }
        // Of one moment, in the order of their CPU's buffer.
        self.young.sort_by_key(|&(time_ns, _)| time_ns);
        let settled = self.young.partition_point(|&(at_ns, _)| at_ns < until_ns);
        self.young.drain(..settled).map(|(_, told)| told).collect()
    }

    /// What found no room in the buffers so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Why nothing is told.
    pub(super) fn refused(&self) -> Option<&io::Error> {
        self.refused.as_ref()
    }
}

impl fmt::Debug for Mappings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mappings")
            .field("rings", &self.rings.len())
            .field("young", &self.young)
            .field("lost", &self.lost)
            .field("refused", &self.refused)
            .finish()
    }
}

fn rings() -> io::Result<Vec<Sampler>> {
    let cpus = cpus::online().into_iter();
    cpus.map(|cpu| ring(cpu as usize)).collect()
}

fn ring(cpu: usize) -> io::Result<Sampler> {
    let mut builder = Builder::new(Software::DUMMY);
    builder.any_pid().one_cpu(cpu).enabled(true);
    builder.mmap(true).mmap2(true).task(true);
    builder.clockid(Clock::MONOTONIC);
    builder.sample_id_all(true).sample(SampleFlag::TIME);
    builder.build()?.sampled(RING_BYTES)
}

/// When it was written: the only thing that was asked for with each, so the last one.
fn stamp(record: &[u8]) -> Option<u64> {
    record.last_chunk().map(|&bytes| u64::from_ne_bytes(bytes))
}

fn change(record: &Record<'_>) -> Option<Change> {
    match record {
        Record::Mmap2(map) => Some(Change::Mapped {
            pid: map.pid,
            region: Region {
                start: map.addr,
                end: map.addr.checked_add(map.len)?,
                offset: map.pgoff,
                content: content(
                    &map.filename,
                    (map.maj().unwrap_or(0), map.min().unwrap_or(0)),
                    map.ino().unwrap_or(0),
                ),
            },
        }),
        // Threads share the memory of their process, which ends when its first one does.
        Record::Fork(fork) if fork.pid != fork.ppid => Some(Change::Forked {
            parent: fork.ppid,
            child: fork.pid,
        }),
        Record::Exit(exit) if exit.pid == exit.tid => Some(Change::Ended { pid: exit.pid }),
        _ => None,
    }
}

fn content(name: &[u8], (major, minor): (u32, u32), inode: u64) -> Content {
    let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    match name {
        b"[vdso]" => Content::Vdso,
        _ if inode == 0 => Content::Anonymous,
        _ => Content::File {
            key: (number(major), number(minor), inode),
            path: Path::new(std::ffi::OsStr::from_bytes(name)).into(),
        },
    }
}

/// Of each CPU: what 150 programs leave that start and end between two looks.
const RING_BYTES: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use perf_event::data::Exit;

    use super::*;

    fn task(pid: u32, parent: u32, tid: u32) -> Exit {
        Exit {
            pid,
            ppid: parent,
            tid,
            ptid: parent,
            time: 0,
        }
    }

    /// A thread that begins or ends is no process, unless it is the first of one.
    #[test]
    fn processes_not_threads() {
        let child = Change::Forked {
            parent: 7,
            child: 8,
        };
        assert_eq!(change(&Record::Fork(task(8, 7, 8))), Some(child));
        assert_eq!(change(&Record::Fork(task(7, 7, 9))), None);
        let end = Change::Ended { pid: 7 };
        assert_eq!(change(&Record::Exit(task(7, 1, 7))), Some(end));
        assert_eq!(change(&Record::Exit(task(7, 1, 9))), None);
    }

    /// Names as the kernel gives them: of a file, of its own code, and of memory without a file.
    #[test]
    fn contents() {
        let file = Content::File {
            key: (0xfe, 1, 131),
            path: Path::new("/usr/sbin/nginx").into(),
        };
        assert_eq!(content(b"/usr/sbin/nginx", (0xfe, 1), 131), file);
        assert_eq!(content(b"[vdso]", (0, 0), 0), Content::Vdso);
        assert_eq!(content(b"//anon", (0, 0), 0), Content::Anonymous);
    }

    /// The time is the last word of a record; one that is shorter has none.
    #[test]
    fn stamps() {
        let record = [1_u64.to_ne_bytes(), 42_u64.to_ne_bytes()].concat();
        assert_eq!(stamp(&record), Some(42));
        assert_eq!(stamp(&record[..7]), None);
    }

    /// What is younger than asked for stays for the next time, and the older comes first whichever CPU told it.
    #[test]
    fn oldest_first() {
        let told = |pid| Change::Ended { pid };
        let mut mappings = Mappings {
            young: vec![(30, told(3)), (10, told(1)), (20, told(2))],
            ..Mappings::default()
        };
        assert_eq!(mappings.take(20), [told(1)]);
        assert_eq!(mappings.take(u64::MAX), [told(2), told(3)]);
        assert_eq!(mappings.take(u64::MAX), []);
    }
}

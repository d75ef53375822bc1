//! Processes as `/proc` shows them. Every read may find that the process has just ended, which is
//! `None` or an empty list here, never an error.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use procfs::net::{TcpNetEntry, TcpState};
use procfs::process::{FDTarget, Process, Stat};

/// A process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessInfo {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    /// Any bytes, lossily decoded.
    pub(crate) comm: String,
    pub(crate) threads: u32,
    pub(crate) is_zombie: bool,
}

impl ProcessInfo {
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let stat = process(pid)?.stat().ok()?;
        Some(Self::from_stat(pid, &stat))
    }

    fn from_stat(pid: u32, stat: &Stat) -> Self {
        Self {
            pid,
            parent: u32::try_from(stat.ppid).unwrap_or(0),
            comm: stat.comm.clone(),
            threads: u32::try_from(stat.num_threads).unwrap_or(0),
            is_zombie: matches!(stat.state, 'Z' | 'X'),
        }
    }
}

/// All process ids, in order.
pub(crate) fn pids() -> Vec<u32> {
    numbers_in(Path::new("/proc"))
}

/// The threads of a process.
pub(crate) fn tids(pid: u32) -> Vec<u32> {
    numbers_in(&Path::new("/proc").join(pid.to_string()).join("task"))
}

/// The process that a thread belongs to; the process itself for its own id.
pub(crate) fn tgid(tid: u32) -> Option<u32> {
    u32::try_from(process(tid)?.status().ok()?.tgid).ok()
}

/// All processes.
pub(crate) fn all() -> Vec<ProcessInfo> {
    pids().into_iter().filter_map(ProcessInfo::of).collect()
}

/// The name of a process alone, which is cheaper than all of [`ProcessInfo`].
pub(crate) fn comm(pid: u32) -> Option<Vec<u8>> {
    read_comm(&format!("/proc/{pid}/comm"))
}

/// The name of a thread.
pub(crate) fn thread_comm(pid: u32, tid: u32) -> Option<Vec<u8>> {
    read_comm(&format!("/proc/{pid}/task/{tid}/comm"))
}

/// These processes and all that descend from them.
pub(crate) fn with_descendants(roots: &BTreeSet<u32>, all: &[ProcessInfo]) -> BTreeSet<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for process in all {
        children
            .entry(process.parent)
            .or_default()
            .push(process.pid);
    }
    let mut found = BTreeSet::new();
    let mut open: Vec<u32> = roots.iter().copied().collect();
    while let Some(pid) = open.pop() {
        if found.insert(pid) {
            open.extend(children.get(&pid).into_iter().flatten());
        }
    }
    found
}

/// Container id, or the name of the innermost control group that is not the root.
pub(crate) fn container(pid: u32) -> Option<String> {
    let groups = process(pid)?.cgroups().ok()?;
    let paths: Vec<&str> = groups
        .0
        .iter()
        .map(|group| group.pathname.as_str())
        .collect();
    container_of_paths(&paths)
}

/// The ids of a process in the PID namespaces inside of ours that it lives in, the innermost last;
/// none where it lives in ours.
pub(crate) fn ids_in_namespaces(pid: u32) -> Vec<u32> {
    let status = std::fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    inner_ids(&status)
}

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CurrentCall {
    /// It is blocked in a call with this number and these first arguments.
    In { nr: u32, arguments: [u64; 2] },
    /// It is blocked outside of calls, or one that the kernel made (for `io_uring`): what looks like
    /// the call of such a thread is the one that made it.
    Outside,
    /// It runs at this moment, or is about to.
    Running,
    /// It has ended.
    Gone,
    /// The kernel does not let us know.
    Hidden,
}

impl CurrentCall {
    pub(crate) fn of(pid: u32, tid: u32) -> Self {
        match read_line(&format!("/proc/{pid}/task/{tid}/syscall")) {
            Ok(line) => Self::parse(&String::from_utf8_lossy(&line)),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Self::Hidden,
            Err(_) => Self::Gone,
        }
    }

    /// `running`, `-1 STACK PC`, or `NUMBER ARGUMENTS... STACK PC`.
    fn parse(line: &str) -> Self {
        let mut words = line.split_ascii_whitespace();
        let Some(number) = words.next() else {
            return Self::Gone;
        };
        match number.parse() {
            Ok(nr) => {
                let mut argument = || {
                    let word = words.next()?.strip_prefix("0x")?;
                    u64::from_str_radix(word, 16).ok()
                };
                let arguments = [argument().unwrap_or(0), argument().unwrap_or(0)];
                // Never in user code: neither stack nor instruction pointer.
                if line.trim_end().ends_with(" 0x0 0x0") {
                    return Self::Outside;
                }
                Self::In { nr, arguments }
            }
            Err(_) if number == "-1" => Self::Outside,
            Err(_) => Self::Running,
        }
    }
}

/// What a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descriptor {
    Socket,
    File,
    Pipe,
    Eventfd,
    Other,
}

/// What a descriptor of a process is; `None` where that cannot be seen.
pub(crate) fn descriptor(pid: u32, fd: u64) -> Option<Descriptor> {
    let path = format!("/proc/{pid}/fd/{}", fd & u64::from(u32::MAX));
    let target = std::fs::read_link(&path).ok()?;
    let name = target.as_os_str().as_encoded_bytes();
    if name.starts_with(b"socket:[") {
        return Some(Descriptor::Socket);
    }
    if name.starts_with(b"anon_inode:[eventfd") {
        return Some(Descriptor::Eventfd);
    }
    if name.starts_with(b"anon_inode:") {
        return Some(Descriptor::Other);
    }
    let kind = std::fs::metadata(&path).ok()?.file_type();
    Some(if kind.is_fifo() {
        Descriptor::Pipe
    } else if kind.is_file() || kind.is_dir() || kind.is_block_device() {
        Descriptor::File
    } else {
        Descriptor::Other
    })
}

/// Whether the program is a 32-bit one, by its ELF header: its numbers are those of another table.
pub(crate) fn is_32_bit(pid: u32) -> bool {
    let mut ident = [0; 5];
    std::fs::File::open(format!("/proc/{pid}/exe"))
        .and_then(|mut exe| exe.read_exact(&mut ident))
        .is_ok_and(|()| ident == *b"\x7fELF\x01")
}

/// A listening TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listener {
    pub(crate) port: u16,
    pub(crate) inode: u64,
}

/// The listening TCP sockets of every network namespace that a process lives in.
pub(crate) fn listeners() -> Vec<Listener> {
    let mut namespaces = HashSet::new();
    let mut found = BTreeSet::new();
    for pid in pids() {
        // A namespace that cannot be looked at is taken for a new one: its tables may be readable.
        let namespace = std::fs::metadata(format!("/proc/{pid}/ns/net")).map(|file| file.ino());
        if namespace.is_ok_and(|namespace| !namespaces.insert(namespace)) {
            continue;
        }
        let Some(process) = process(pid) else {
            continue;
        };
        // The second is missing where IPv6 is off.
        for table in [process.tcp(), process.tcp6()].into_iter().flatten() {
            found.extend(table.iter().filter_map(listener));
        }
    }
    found.into_iter().collect()
}

/// Inodes of the sockets that a process holds.
pub(crate) fn sockets(pid: u32) -> HashSet<u64> {
    let fds = process(pid).and_then(|process| process.fd().ok());
    fds.into_iter()
        .flatten()
        .filter_map(|fd| match fd.ok()?.target {
            FDTarget::Socket(inode) => Some(inode),
            _ => None,
        })
        .collect()
}

/// The command line of a process.
pub(crate) fn command_line(pid: u32) -> Vec<String> {
    let command_line = process(pid).and_then(|process| process.cmdline().ok());
    command_line.unwrap_or_default()
}

/// Names come from other users: no control character may reach a terminal.
pub(crate) fn printable(comm: &str) -> String {
    let replace = |c: char| {
        if c.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    comm.chars().map(replace).collect()
}

fn read_comm(path: &str) -> Option<Vec<u8>> {
    let mut comm = read_line(path).ok()?;
    if comm.last() == Some(&b'\n') {
        comm.pop();
    }
    Some(comm)
}

/// A file of one short line, in one read: there may be ten thousand of them to read before a window
/// begins.
fn read_line(path: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = [0; MOST_LINE];
    let length = std::fs::File::open(path)?.read(&mut bytes)?;
    Ok(bytes[..length].to_vec())
}

fn process(pid: u32) -> Option<Process> {
    Process::new(i32::try_from(pid).ok()?).ok()
}

fn listener(entry: &TcpNetEntry) -> Option<Listener> {
    (entry.state == TcpState::Listen && entry.inode != 0).then(|| Listener {
        port: entry.local_address.port(),
        inode: entry.inode,
    })
}

fn numbers_in(folder: &Path) -> Vec<u32> {
    let mut numbers: Vec<u32> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// The ids of a `status` file beyond the first one, which is of our namespace.
fn inner_ids(status: &[u8]) -> Vec<u32> {
    let mut lines = status.split(|&byte| byte == b'\n');
    let ids = lines.find_map(|line| line.strip_prefix(b"NSpid:"));
    let ids = String::from_utf8_lossy(ids.unwrap_or_default()).into_owned();
    let ids = ids.split_ascii_whitespace().skip(1);
    ids.filter_map(|id| id.parse().ok()).collect()
}

/// Runtimes name the group of a container by its 64-digit id, some with a prefix and a suffix.
fn container_of_paths(paths: &[&str]) -> Option<String> {
    let parts = || paths.iter().flat_map(|path| path.split('/'));
    let id = parts().find_map(|part| {
        let mut words = part.split(|c: char| !c.is_ascii_hexdigit());
        words.find(|word| word.len() == CONTAINER_ID_DIGITS)
    });
    if let Some(id) = id {
        return Some(id[..SHORT_ID_DIGITS].to_owned());
    }
    let deepest = paths.iter().max_by_key(|path| path.matches('/').count());
    let name = deepest?.rsplit('/').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Nine numbers of 64 bits are less than 200 bytes, a name at most 64.
const MOST_LINE: usize = 256;
const CONTAINER_ID_DIGITS: usize = 64;
/// As the tools of containers print it.
const SHORT_ID_DIGITS: usize = 12;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn info(pid: u32, parent: u32) -> ProcessInfo {
        ProcessInfo {
            pid,
            parent,
            comm: "server".into(),
            threads: 1,
            is_zombie: false,
        }
    }

    /// A tree is found whole, in whatever order it is listed, and nothing beside it.
    #[test]
    fn finds_descendants() {
        let all = [info(9, 7), info(7, 5), info(5, 1), info(6, 1), info(8, 5)];
        let found = with_descendants(&BTreeSet::from([5]), &all);
        assert_eq!(found, BTreeSet::from([5, 7, 8, 9]));
    }

    /// Parents that point at each other (a reused id between two reads) do not make it run forever.
    #[test]
    fn survives_a_cycle() {
        let found = with_descendants(&BTreeSet::from([2]), &[info(2, 3), info(3, 2)]);
        assert_eq!(found, BTreeSet::from([2, 3]));
    }

    /// The three forms of the file, a thread that the kernel made, and a line that is cut short.
    #[test]
    fn parses_current_calls() {
        let check = |line, expected| assert_eq!(CurrentCall::parse(line), expected, "{line}");
        check(
            "232 0x5 0x7ffc 0x200 0xffffffff 0 0 0x7ffc 0x7f1\n",
            CurrentCall::In {
                nr: 232,
                arguments: [5, 0x7ffc],
            },
        );
        let made_by = "425 0x8 0x7f2 0x0 0x0 0x0 0x0 0x0 0x0\n";
        check(made_by, CurrentCall::Outside);
        let zeros = "0 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffc 0x7f1\n";
        let read = CurrentCall::In {
            nr: 0,
            arguments: [0, 0],
        };
        check(zeros, read);
        check("running\n", CurrentCall::Running);
        check("-1 0x7ffc 0x7f1\n", CurrentCall::Outside);
        check("", CurrentCall::Gone);
    }

    /// Ids of the common runtimes, plain groups, and none.
    #[test]
    fn names_containers() {
        let id = "0123456789abcdef".repeat(4);
        for path in [
            format!("/docker/{id}"),
            format!("/system.slice/docker-{id}.scope"),
            format!("/kubepods.slice/pod1/cri-containerd-{id}.scope"),
            format!("/machine.slice/libpod-{id}.scope/container"),
        ] {
            assert_eq!(
                container_of_paths(&["/", &path]).unwrap(),
                "0123456789ab",
                "{path}"
            );
        }
        let nginx = ["/", "/system.slice/nginx.service"];
        assert_eq!(container_of_paths(&nginx).unwrap(), "nginx.service");
        assert_eq!(container_of_paths(&["/"]), None);
        assert_eq!(container_of_paths(&[]), None);
    }

    /// A name cannot smuggle an escape sequence into a message.
    #[test]
    fn names_are_printable() {
        assert_eq!(printable("a\u{1b}[2Jb"), "a\u{fffd}[2Jb");
    }

    /// Ids of namespaces inside of ours, whatever the process is called.
    #[test]
    fn reads_inner_ids() {
        let check = |status: &str, expected: &[u32]| {
            assert_eq!(inner_ids(status.as_bytes()), expected, "{status}");
        };
        check(
            "Name:\tNSpid: 5 6\nNSpid:\t4242\t71\t7\nNSpgid:\t1\t2\n",
            &[71, 7],
        );
        check("NSpid:\t4242\n", &[]);
        check("Name:\tsh\n", &[]);
    }

    /// This test process is seen as what it is.
    #[test]
    fn sees_ourselves() {
        let pid = std::process::id();
        let info = ProcessInfo::of(pid).unwrap();
        assert!(!info.is_zombie && info.threads >= 1 && info.parent > 0);
        assert!(tids(pid).contains(&pid) && pids().contains(&pid));
        assert!(comm(pid).is_some_and(|comm| info.comm.as_bytes() == comm));
        assert!(ProcessInfo::of(0x7fff_fff0).is_none() && tids(0x7fff_fff0).is_empty());
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let listener = listeners()
            .into_iter()
            .find(|listener| listener.port == port);
        assert!(sockets(pid).contains(&listener.unwrap().inode));
    }

    proptest! {
        /// No line makes the parser panic.
        #[test]
        fn any_line_parses(line: String) {
            let _call = CurrentCall::parse(&line);
            let _name = container_of_paths(&[&line]);
        }
    }
}

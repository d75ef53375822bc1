//! Which processes are meant: by id, by port, by name, by control group or by unit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use crate::error::{InnerProcess, PortOwner};
use crate::processes::{self, ProcessInfo, printable};
use crate::{ProfilerError, cgroup, privileges, unit};

/// What to profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// All processes of a control group and of the groups inside it, those that join later too.
    /// The path is absolute or relative to any hierarchy of either version.
    Cgroup(PathBuf),
    /// All processes with exactly this name, those that appear later too.
    Comm(String),
    /// A process that is about to `execve`: counted from that call on, the call included, as
    /// `strace -c -f CMD` counts it.
    Pending(u32),
    /// A process.
    Pid(u32),
    /// Whoever listens on this TCP port, in any network namespace.
    Port(u16),
    /// All processes of a unit of systemd, those that join later too. `.service` may be left out,
    /// and a template (`worker@`) stands for all of its instances.
    Unit(String),
}

/// In the words of the command line: `port 80`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cgroup(path) => write!(f, "cgroup {}", path.display()),
            Self::Comm(comm) => write!(f, "comm {comm}"),
            Self::Pending(_) => f.write_str("command"),
            Self::Pid(pid) => write!(f, "pid {pid}"),
            Self::Port(port) => write!(f, "port {port}"),
            Self::Unit(unit) => write!(f, "unit {unit}"),
        }
    }
}

impl Target {
    /// Whether processes can join later.
    pub(crate) fn is_open_ended(&self) -> bool {
        matches!(self, Self::Cgroup(_) | Self::Comm(_) | Self::Unit(_))
    }

    /// Whether a target whose processes have all ended can have others later: a number of a process cannot.
    pub fn can_return(&self) -> bool {
        self.is_open_ended() || matches!(self, Self::Port(_))
    }

    /// Whether there seems to be such a target, found out at little cost: for waiting until there
    /// is. What [`resolve`](Self::resolve) then says may differ.
    pub fn is_there(&self) -> bool {
        match self {
            Self::Pid(pid) | Self::Pending(pid) => ProcessInfo::of(*pid).is_some(),
            Self::Port(port) => {
                let listeners = processes::listeners();
                listeners.iter().any(|listener| listener.port == *port)
            }
            Self::Comm(_) | Self::Cgroup(_) | Self::Unit(_) => !self.resolve_again().is_empty(),
        }
    }

    /// The processes that are meant, never our own; without the children that would be followed.
    pub fn resolve(&self) -> Result<BTreeSet<u32>, ProfilerError> {
        match self {
            Self::Pid(pid) | Self::Pending(pid) => one(*pid),
            Self::Port(port) => owners_of(*port),
            Self::Comm(comm) => {
                let found = named(comm);
                if found.is_empty() {
                    return Err(ProfilerError::NoSuchComm { comm: comm.clone() });
                }
                Ok(found)
            }
            Self::Cgroup(path) => {
                let folders = cgroup::folders(path)?;
                let found = members(&folders);
                if found.is_empty() {
                    let path = folders.into_iter().next().unwrap_or_default();
                    return Err(ProfilerError::EmptyCgroup { path });
                }
                Ok(found)
            }
            Self::Unit(unit) => {
                let folders = unit::folders(unit)?;
                let found = members(&folders);
                if found.is_empty() {
                    return Err(ProfilerError::EmptyUnit {
                        unit: unit.clone(),
                        path: folders.into_iter().next().unwrap_or_default(),
                    });
                }
                Ok(found)
            }
        }
    }

    /// The processes that are meant now; none is not an error any more.
    pub(crate) fn resolve_again(&self) -> BTreeSet<u32> {
        let members = |folders: Result<Vec<PathBuf>, ProfilerError>| {
            folders.map_or_else(|_gone| BTreeSet::new(), |folders| members(&folders))
        };
        match self {
            Self::Comm(comm) => named(comm),
            Self::Cgroup(path) => members(cgroup::folders(path)),
            Self::Unit(unit) => members(unit::folders(unit)),
            Self::Pid(_) | Self::Pending(_) | Self::Port(_) => BTreeSet::new(),
        }
    }
}

fn one(pid: u32) -> Result<BTreeSet<u32>, ProfilerError> {
    if pid == std::process::id() {
        return Err(ProfilerError::OwnProcess { pid });
    }
    // `/proc/TID` can be opened for a thread that is no process, though it is not listed.
    if let Some(process) = processes::tgid(pid).filter(|&tgid| tgid != pid) {
        return Err(ProfilerError::Thread { tid: pid, process });
    }
    match ProcessInfo::of(pid) {
        None => Err(no_such_process(pid)),
        Some(info) if info.is_zombie && info.threads <= 1 => Err(ProfilerError::Zombie {
            pid,
            comm: printable(&info.comm),
        }),
        Some(_) => Ok(BTreeSet::from([pid])),
    }
}

/// Nobody has the id here; somebody in a container may.
fn no_such_process(pid: u32) -> ProfilerError {
    let has_it = |&outer: &u32| processes::ids_in_namespaces(outer).contains(&pid);
    let processes = processes::pids().into_iter().filter(has_it);
    let processes: Vec<InnerProcess> = processes
        .filter_map(|outer| {
            Some(InnerProcess {
                pid: outer,
                comm: printable(&ProcessInfo::of(outer)?.comm),
                container: processes::container(outer),
            })
        })
        .collect();
    if processes.is_empty() {
        ProfilerError::NoSuchProcess { pid }
    } else {
        ProfilerError::InnerPid { pid, processes }
    }
}

fn named(comm: &str) -> BTreeSet<u32> {
    let named = processes::pids().into_iter().filter(|&pid| {
        pid != std::process::id()
            && processes::comm(pid).is_some_and(|found| found == comm.as_bytes())
    });
    named.collect()
}

fn members(folders: &[PathBuf]) -> BTreeSet<u32> {
    let mut members: BTreeSet<u32> = folders
        .iter()
        .flat_map(|folder| cgroup::members(folder))
        .collect();
    members.remove(&std::process::id());
    members
}

fn owners_of(port: u16) -> Result<BTreeSet<u32>, ProfilerError> {
    let listeners = processes::listeners();
    let wanted: BTreeSet<u64> = listeners
        .iter()
        .filter(|listener| listener.port == port)
        .map(|listener| listener.inode)
        .collect();
    if wanted.is_empty() {
        let ports = listeners
            .iter()
            .map(|listener| (listener.inode, listener.port));
        let mut listening: Vec<PortOwner> = holders(&ports.collect());
        listening.sort_by_key(|owner| (owner.port, owner.pid));
        listening.dedup_by_key(|owner| owner.port);
        return Err(ProfilerError::NobodyListens { port, listening });
    }
    let mut owners = holders(&wanted.into_iter().map(|inode| (inode, port)).collect());
    owners.retain(|owner| owner.pid != std::process::id());
    choose(port, owners, &processes::all())
}

/// The processes that hold one of these sockets (by inode), each with the port.
fn holders(ports: &BTreeMap<u64, u16>) -> Vec<PortOwner> {
    let mut holders = Vec::new();
    for pid in processes::pids() {
        let sockets = processes::sockets(pid);
        let port = sockets.iter().find_map(|inode| ports.get(inode));
        if let Some(&port) = port {
            let comm = processes::comm(pid).unwrap_or_default();
            holders.push(PortOwner {
                port,
                pid,
                comm: printable(&String::from_utf8_lossy(&comm)),
                container: processes::container(pid),
            });
        }
    }
    holders
}

/// The one tree of processes among the owners, or why there is no such.
fn choose(
    port: u16,
    mut owners: Vec<PortOwner>,
    all: &[ProcessInfo],
) -> Result<BTreeSet<u32>, ProfilerError> {
    // Socket activation: init keeps the socket that it handed to the service.
    if owners.iter().any(|owner| owner.pid != INIT) {
        owners.retain(|owner| owner.pid != INIT);
    }
    let pids: BTreeSet<u32> = owners.iter().map(|owner| owner.pid).collect();
    let tops = tops(&pids, all);
    match tops.as_slice() {
        [] => Err(ProfilerError::HiddenListener {
            port,
            reason: privileges::why_hidden(),
        }),
        [top] => {
            let owner = owners.into_iter().find(|owner| owner.pid == *top);
            match owner.filter(is_proxy) {
                Some(owner) => Err(ProfilerError::ProxyListens {
                    port,
                    behind: behind(&owner),
                    owner,
                }),
                None => Ok(pids),
            }
        }
        tops => {
            owners.retain(|owner| tops.contains(&owner.pid));
            Err(ProfilerError::AmbiguousPort { port, owners })
        }
    }
}

/// Those that do not descend from another one.
fn tops(pids: &BTreeSet<u32>, all: &[ProcessInfo]) -> Vec<u32> {
    let parents: BTreeMap<u32, u32> = all.iter().map(|info| (info.pid, info.parent)).collect();
    let descends = |&pid: &u32| {
        let mut ancestor = parents.get(&pid);
        for _ in 0..MOST_GENERATIONS {
            match ancestor {
                Some(found) if pids.contains(found) => return true,
                Some(found) => ancestor = parents.get(found),
                None => return false,
            }
        }
        false
    };
    pids.iter().copied().filter(|pid| !descends(pid)).collect()
}

fn is_proxy(owner: &PortOwner) -> bool {
    owner.pid == INIT || PROXIES.contains(&owner.comm.as_str())
}

/// Who listens on the port that a proxy of Docker passes connections to.
fn behind(proxy: &PortOwner) -> Vec<PortOwner> {
    let command_line = processes::command_line(proxy.pid);
    let Some(port) = container_port(&command_line) else {
        return Vec::new();
    };
    let listeners = processes::listeners();
    let on_port = listeners.iter().filter(|listener| listener.port == port);
    let ports = on_port.map(|listener| (listener.inode, port)).collect();
    let mut owners = holders(&ports);
    owners.retain(|owner| owner.pid != proxy.pid && owner.container != proxy.container);
    owners
}

fn container_port(command_line: &[String]) -> Option<u16> {
    let option = command_line
        .iter()
        .position(|arg| arg == "-container-port")?;
    command_line.get(option + 1)?.parse().ok()
}

const INIT: u32 = 1;
/// User-space proxies of container runtimes (names as the kernel cuts them).
const PROXIES: [&str; 5] = [
    "docker-proxy",
    "pasta",
    "pasta.avx2",
    "rootlessport",
    "slirp4netns",
];
/// Longer chains of parents are a cycle of ids that were reused between two reads.
const MOST_GENERATIONS: u32 = 1000;

#[cfg(test)]
mod tests {
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

    fn owner(pid: u32, comm: &str) -> PortOwner {
        PortOwner {
            port: 80,
            pid,
            comm: comm.into(),
            container: None,
        }
    }

    /// A master and its workers are one target, with the workers' workers.
    #[test]
    fn a_tree_is_one_target() {
        let all = [info(10, 1), info(11, 10), info(12, 11), info(13, 12)];
        let owners = vec![owner(10, "nginx"), owner(11, "nginx"), owner(13, "cgi")];
        assert_eq!(
            choose(80, owners, &all).unwrap(),
            BTreeSet::from([10, 11, 13])
        );
    }

    /// Unrelated owners are listed, each with the option that chooses it.
    #[test]
    fn unrelated_owners_are_listed() {
        let all = [info(10, 1), info(11, 10), info(20, 1)];
        let mut owners = vec![owner(10, "nginx"), owner(11, "nginx"), owner(20, "h2o")];
        owners[2].container = Some("0123456789ab".into());
        let error = choose(80, owners, &all).unwrap_err();
        assert_eq!(error.exit_code(), recording::exit_code::USAGE);
        let text = error.to_string();
        assert!(text.contains("--pid 10  nginx"), "{text}");
        assert!(text.contains("--pid 20  h2o  in 0123456789ab"), "{text}");
        assert!(!text.contains("--pid 11"), "{text}");
    }

    /// Init's copy of an activated socket does not count; a socket that only init holds does.
    #[test]
    fn socket_activation() {
        let all = [info(1, 0), info(10, 1)];
        let both = vec![owner(1, "systemd"), owner(10, "httpd")];
        assert_eq!(choose(80, both, &all).unwrap(), BTreeSet::from([10]));
        let error = choose(80, vec![owner(1, "systemd")], &all).unwrap_err();
        assert!(
            matches!(error, ProfilerError::ProxyListens { .. }),
            "{error}"
        );
    }

    /// A proxy is not profiled in place of the server behind it.
    #[test]
    fn proxies_are_named() {
        let error = choose(80, vec![owner(10, "docker-proxy")], &[info(10, 1)]).unwrap_err();
        assert!(
            error.to_string().contains("docker-proxy (pid 10)"),
            "{error}"
        );
        let command_line = ["docker-proxy", "-proto", "tcp", "-container-port", "8080"];
        assert_eq!(container_port(&command_line.map(String::from)), Some(8080));
    }

    /// No owner means that we could not see it.
    #[test]
    fn hidden_owner() {
        let error = choose(80, Vec::new(), &[]).unwrap_err();
        assert!(matches!(
            error,
            ProfilerError::HiddenListener { port: 80, .. }
        ));
    }

    /// A free port is named together with ports that are open, a bad process id as what it is.
    #[test]
    fn absent_targets() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        drop(socket);
        let error = Target::Port(port).resolve().unwrap_err();
        assert!(
            matches!(error, ProfilerError::NobodyListens { .. }),
            "{error}"
        );
        let error = Target::Pid(std::process::id()).resolve().unwrap_err();
        assert!(matches!(error, ProfilerError::OwnProcess { .. }), "{error}");
        let error = Target::Pid(0x7fff_fff0).resolve().unwrap_err();
        assert!(
            matches!(error, ProfilerError::NoSuchProcess { .. }),
            "{error}"
        );
        let error = Target::Comm("no such name".into()).resolve().unwrap_err();
        assert!(matches!(error, ProfilerError::NoSuchComm { .. }), "{error}");
    }

    /// A child that ended and was not waited for is called a zombie.
    #[test]
    fn zombies_are_named() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let options =
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::waitid(rustix::process::WaitId::Pid(id), options).unwrap();
        let error = Target::Pid(pid).resolve().unwrap_err();
        assert!(matches!(error, ProfilerError::Zombie { .. }), "{error}");
        child.wait().unwrap();
    }
}

//! Limits of the operating system, checked before anything is opened.

use std::net::{IpAddr, UdpSocket};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::LoadError;

/// Makes room for the descriptors of a load: raises the soft limit and returns it as it was and as it
/// is, or says which limit forbids it.
pub(crate) fn ensure_descriptors(
    connections: u32,
    threads: u32,
) -> Result<Option<(u64, u64)>, LoadError> {
    let needed = u64::from(connections) + u64::from(threads) * PER_THREAD + open_descriptors();
    let limit = getrlimit(Resource::Nofile);
    match raised(limit.current, limit.maximum, needed) {
        Raise::Enough => Ok(None),
        Raise::To(soft) => {
            let wanted = Rlimit {
                current: Some(soft),
                maximum: limit.maximum,
            };
            setrlimit(Resource::Nofile, wanted).map_err(|errno| LoadError::Os {
                call: "setrlimit(RLIMIT_NOFILE)",
                errno,
            })?;
            Ok(limit.current.map(|before| (before, soft)))
        }
        Raise::Impossible { hard } => Err(LoadError::FileLimit {
            connections,
            needed,
            hard,
        }),
    }
}

/// Says whether connections can begin at an address.
pub(crate) fn check_source(address: IpAddr) -> Result<(), LoadError> {
    match UdpSocket::bind((address, 0)) {
        Ok(_) => Ok(()),
        Err(error) => Err(LoadError::Source {
            address,
            errno: Errno::from_io_error(&error).unwrap_or(Errno::ADDRNOTAVAIL),
        }),
    }
}

/// Pins the calling thread to one CPU.
pub(crate) fn pin_thread(cpu: usize) -> Result<(), LoadError> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|errno| LoadError::Affinity {
        cpu,
        allowed: allowed_cpus(),
        errno,
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Raise {
    Enough,
    To(u64),
    Impossible { hard: u64 },
}

/// What to do about a soft and a hard limit (`None` is unlimited).
fn raised(soft: Option<u64>, hard: Option<u64>, needed: u64) -> Raise {
    match (soft, hard) {
        (None, _) => Raise::Enough,
        (Some(soft), _) if soft >= needed => Raise::Enough,
        (Some(_), Some(hard)) if hard < needed => Raise::Impossible { hard },
        _ => Raise::To(needed),
    }
}

/// Descriptors in use now; a guess where `/proc` is not mounted.
fn open_descriptors() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(GUESSED_OPEN, |entries| entries.count() as u64)
}

/// The CPUs that this thread may use, for people.
fn allowed_cpus() -> String {
    let Ok(set) = sched_getaffinity(None) else {
        return "unknown".to_owned();
    };
    let cpus: Vec<String> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .map(|cpu| cpu.to_string())
        .collect();
    cpus.join(",")
}

/// An epoll instance, an eventfd, and a socket that is opened before the old one is gone.
const PER_THREAD: u64 = 3;
const GUESSED_OPEN: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// The soft limit is raised as far as needed, never beyond the hard one.
    #[test]
    fn soft_limit_is_raised() {
        assert_eq!(raised(Some(64), Some(1000), 64), Raise::Enough);
        assert_eq!(raised(Some(64), Some(1000), 100), Raise::To(100));
        assert_eq!(raised(Some(64), None, 100), Raise::To(100));
        assert_eq!(raised(None, None, 100), Raise::Enough);
        assert_eq!(
            raised(Some(64), Some(99), 100),
            Raise::Impossible { hard: 99 }
        );
    }
}

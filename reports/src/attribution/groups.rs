//! Which calls are one cause: a request is received, whether by `recvfrom` or by `read`.

use recording::{CallObject, Family};

/// Calls that do the same for a request. Files and sockets are told apart where the profile does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallGroup {
    /// Taking connections.
    Accept,
    /// Closing anything but a file.
    Close,
    /// Closing a file.
    CloseFile,
    /// State of descriptors and sockets.
    Control,
    /// Waiting for and waking other threads.
    Futex,
    /// Address space.
    Memory,
    /// Opening.
    Open,
    /// Anything else.
    Other,
    /// Waiting for events.
    Poll,
    /// Processes and threads.
    Process,
    /// Bytes from sockets.
    Receive,
    /// Bytes from files.
    ReadFile,
    /// Bytes to sockets.
    Send,
    /// Bytes to files.
    WriteFile,
    /// Signals.
    Signal,
    /// Sleeping.
    Sleep,
    /// Looking at files.
    Stat,
    /// The clock.
    Time,
    /// Pipes and eventfds, by which threads tell each other to go on.
    WakeUp,
}

impl CallGroup {
    /// The group of a call.
    pub fn of(name: &str, family: Family, on: Option<CallObject>) -> Self {
        let file = on == Some(CallObject::File);
        let wakes = matches!(on, Some(CallObject::Pipe | CallObject::Eventfd));
        match family {
            Family::Receive | Family::Send if wakes => Self::WakeUp,
            Family::Accept => Self::Accept,
            Family::Close if file => Self::CloseFile,
            Family::Close => Self::Close,
            Family::Control => Self::Control,
            Family::Futex => Self::Futex,
            Family::Memory => Self::Memory,
            Family::Open => Self::Open,
            Family::Other => Self::Other,
            Family::Poll => Self::Poll,
            Family::Process => Self::Process,
            Family::Receive if file => Self::ReadFile,
            Family::Receive => Self::Receive,
            Family::Send if file => Self::WriteFile,
            Family::Send => Self::Send,
            Family::Signal => Self::Signal,
            Family::Stat => Self::Stat,
            Family::Time if name.ends_with("nanosleep") => Self::Sleep,
            Family::Time => Self::Time,
        }
    }

    /// Whether time inside may be sleep, so that below detail `sched` it is no CPU time.
    pub fn may_sleep(self) -> bool {
        matches!(
            self,
            Self::Accept | Self::Futex | Self::Poll | Self::Process | Self::Signal | Self::Sleep
        )
    }

    /// The first part of the identifiers of its bars.
    pub fn id(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Close => "close",
            Self::CloseFile => "close_file",
            Self::Control => "control",
            Self::Futex => "futex",
            Self::Memory => "memory",
            Self::Open => "open",
            Self::Other => "other",
            Self::Poll => "poll",
            Self::Process => "process",
            Self::Receive => "receive",
            Self::ReadFile => "read_file",
            Self::Send => "send",
            Self::WriteFile => "write_file",
            Self::Signal => "signal",
            Self::Sleep => "sleep",
            Self::Stat => "stat",
            Self::Time => "time",
            Self::WakeUp => "wakeup",
        }
    }

    /// The words that reports use.
    pub fn title(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Close => "close",
            Self::CloseFile => "close files",
            Self::Control => "socket options",
            Self::Futex => "futex",
            Self::Memory => "memory",
            Self::Open => "open",
            Self::Other => "other calls",
            Self::Poll => "event loop",
            Self::Process => "processes",
            Self::Receive => "receive",
            Self::ReadFile => "read files",
            Self::Send => "send",
            Self::WriteFile => "write files",
            Self::Signal => "signals",
            Self::Sleep => "sleep",
            Self::Stat => "stat",
            Self::Time => "clock",
            Self::WakeUp => "wake-ups",
        }
    }
}

#[cfg(test)]
mod tests {
    use recording::family;

    use super::*;

    /// Different names for one thing are one group, and one name for different things is not.
    #[test]
    fn groups_follow_what_is_done() {
        let group = |name, on| CallGroup::of(name, family(name), on);
        for name in ["read", "recvfrom", "readv", "recvmsg"] {
            assert_eq!(group(name, Some(CallObject::Socket)), CallGroup::Receive);
            assert_eq!(group(name, None), CallGroup::Receive);
        }
        assert_eq!(group("read", Some(CallObject::File)), CallGroup::ReadFile);
        assert_eq!(group("write", Some(CallObject::Eventfd)), CallGroup::WakeUp);
        assert_eq!(group("close", Some(CallObject::File)), CallGroup::CloseFile);
        for name in ["epoll_wait", "epoll_pwait2", "poll", "select"] {
            assert_eq!(group(name, None), CallGroup::Poll);
        }
        assert_eq!(group("clock_nanosleep", None), CallGroup::Sleep);
        assert_eq!(group("clock_gettime", None), CallGroup::Time);
    }
}

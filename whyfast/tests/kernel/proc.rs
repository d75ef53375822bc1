//! What `/proc` says of a process under test.

use std::fs;

/// Its state letter; `None` when it is gone.
pub(crate) fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// A numeric field of `/proc/PID/stat`, counted from the one behind the name (the state, 0).
pub(crate) fn stat_field(pid: u32, index: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(index)?
        .parse()
        .ok()
}

/// A line of `/proc/PID/status` without its key.
pub(crate) fn status_line(pid: u32, key: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim().to_owned())
}

/// Its effective capabilities.
pub(crate) fn capabilities(pid: u32) -> Option<u64> {
    u64::from_str_radix(&status_line(pid, "CapEff:")?, 16).ok()
}

/// Whether a profiler has given up its capabilities, which it does once it is attached and its
/// window is open. `CAP_SYS_PTRACE` (19) and `CAP_DAC_READ_SEARCH` (2), to see which call a thread
/// is in, are all that may be left.
pub(crate) fn gave_up_privileges(pid: u32) -> bool {
    capabilities(pid).is_some_and(|held| held & !(1 << 19 | 1 << 2) == 0)
}

/// Whoever traces it; 0 for nobody.
pub(crate) fn tracer(pid: u32) -> Option<u32> {
    status_line(pid, "TracerPid:")?.parse().ok()
}

/// Its children.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// Its command line, word by word.
pub(crate) fn command_line(pid: u32) -> Option<Vec<String>> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = bytes.split(|&byte| byte == 0);
    Some(
        words
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect(),
    )
}

//! Time that a thread was ready to run and had no CPU, as the scheduler accounts it.

use std::fs;

/// Of the calling thread since it began, ns; `None` where the kernel does not say.
pub(crate) fn of_this_thread_ns() -> Option<u64> {
    let tid = rustix::thread::gettid().as_raw_nonzero();
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?;
    parse(&text)
}

/// The second of three numbers: time on a CPU, time in the queue, and how often it ran. A kernel
/// that does not account for it says zero to all of them.
fn parse(text: &str) -> Option<u64> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let on_cpu_ns = numbers.next()?.ok()?;
    let queued_ns = numbers.next()?.ok()?;
    let times = numbers.next()?.ok()?;
    (on_cpu_ns > 0 || queued_ns > 0 || times > 0).then_some(queued_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time in the queue is the second number; without accounting there is none.
    #[test]
    fn reads_schedstat() {
        assert_eq!(parse("19542834 1173650 120\n"), Some(1_173_650));
        assert_eq!(parse("0 0 0\n"), None);
        assert_eq!(parse(""), None);
        assert_eq!(parse("1 x 2"), None);
    }
}

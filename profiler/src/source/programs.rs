//! Which programs each detail needs, and what they hang on.

use profiler_common::program;
use recording::Detail;

/// Programs of a detail and their tracepoints; the ones of every call last, so that a failure
/// before them costs the host nothing.
pub(super) fn programs(detail: Detail) -> Vec<(&'static str, &'static str)> {
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
        Detail::Sched | Detail::Stacks => {
            return [&program::INTERRUPTS[..], &SCHED_PROGRAMS].concat();
        }
    };
    [&LIFECYCLE[..], calls].concat()
}

/// Programs that follow processes from fork to exit.
pub(super) const LIFECYCLE: [(&str, &str); 3] = [
    (program::PROCESS_FORK, "sched_process_fork"),
    (program::PROCESS_EXEC, "sched_process_exec"),
    (program::PROCESS_EXIT, "sched_process_exit"),
];
/// The program that hangs on a function of the kernel instead of a tracepoint.
pub(super) const FUNCTION: (&str, &str) = (program::FUNCTION_EXIT, "x64_sys_call");

/// Programs of detail `sched` beside those on interrupts, which come first: what they count is taken
/// out of what the others do.
const SCHED_PROGRAMS: [(&str, &str); 12] = [
    (program::FIRST_STATES, "task"),
    (program::SOFTIRQ_EXIT, "softirq_exit"),
    (program::SOFTIRQ_ENTRY, "softirq_entry"),
    (program::PAGE_FAULT, "page_fault_user"),
    (program::SCHED_MIGRATE, "sched_migrate_task"),
    (program::SCHED_FORK, "sched_process_fork"),
    (program::SCHED_EXEC, "sched_process_exec"),
    (program::SCHED_END, "sched_process_exit"),
    (program::SCHED_SWITCH, "sched_switch"),
    (program::SCHED_WAKEUP, "sched_wakeup"),
    (program::SCHED_EXIT, "sys_exit"),
    (program::SCHED_ENTER, "sys_enter"),
];

//! A kernel that is booted with `lockdown=confidentiality`, which keeps root from reading its memory.

use recording::{Detail, exit_code};

/// Programs need a helper that lockdown takes away, and the error names lockdown, with what to do.
#[test]
fn lockdown_is_named() {
    let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap();
    assert!(lockdown.contains("[confidentiality]"), "{lockdown}");
    for detail in [Detail::Floor, Detail::Counts, Detail::Times, Detail::Sched] {
        let error = profiler::can_measure(detail).unwrap_err();
        assert_eq!(error.exit_code(), exit_code::CANNOT_MEASURE, "{error}");
        let text = error.to_string();
        let cause = format!("the kernel is locked down ({})", lockdown.trim());
        assert!(text.contains(&cause), "{text}");
        assert!(text.contains("boot with lockdown=integrity"), "{text}");
    }
}

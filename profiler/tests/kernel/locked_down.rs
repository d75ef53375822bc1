//! A kernel that is booted with `lockdown=confidentiality`, which keeps root from reading its memory.

use recording::Detail;

use crate::workload_process::{counts, profile};

/// Everything is counted but the kinds of descriptors that were not made under our eyes, and that is
/// said with its cause and remedy.
#[test]
fn lockdown_costs_only_the_kinds() {
    let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap();
    assert!(lockdown.contains("[confidentiality]"), "{lockdown}");
    for detail in [Detail::Counts, Detail::Times, Detail::Sched] {
        let profile = profile(&["calls", "100"], detail);
        let counts = counts(&profile);
        assert_eq!((counts["getppid"], counts["read"]), (100, 101));
        let said = profile
            .not_measured
            .iter()
            .find(|missing| missing.what == "kinds of descriptors")
            .unwrap();
        assert!(said.why.contains("locked down for confidentiality"));
        assert!(said.remedy.as_ref().unwrap().contains("lockdown=integrity"));
    }
}

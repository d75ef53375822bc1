//! A kernel that is booted with `lockdown=confidentiality`, which keeps root from reading its memory.

use std::collections::BTreeMap;

use recording::Detail;

use crate::workload_process::{counts, profile};

/// The programs read kernel structures by their types only, which lockdown allows: they load, and
/// count exactly, at every detail.
#[test]
fn confidential_kernels_are_profiled() {
    let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap();
    assert!(lockdown.contains("[confidentiality]"), "{lockdown}");
    for detail in [Detail::Floor, Detail::Counts, Detail::Times] {
        let profile = profile(&["calls", "100"], detail);
        let expected = match detail {
            Detail::Floor => BTreeMap::new(),
            Detail::Counts | Detail::Times => BTreeMap::from([
                ("getppid", 100),
                ("openat", 100),
                ("read", 101),
                ("write", 1),
            ]),
        };
        assert_eq!(counts(&profile), expected, "{detail:?}");
    }
}

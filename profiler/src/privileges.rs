//! What the kernel asks of a profiler, why it said no, and giving up what is no longer needed.

use std::path::Path;

use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::ProfilerError;

/// Keeps, for the calling thread, only what reading `/proc/PID/task/TID/syscall` of other users takes:
/// the file is its owner's alone (`CAP_DAC_READ_SEARCH`), and shows registers (`CAP_SYS_PTRACE`). The
/// counters are mapped memory and need nothing. What the caller needs is kept too. Threads that were
/// started before keep theirs.
pub(crate) fn drop_privileges(also: CapabilitySet) -> Result<(), ProfilerError> {
    drop_to(CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH | also)
        .map_err(|error| ProfilerError::Drop(error.into()))
}

fn drop_to(kept: CapabilitySet) -> rustix::io::Result<()> {
    let held = rustix::thread::capabilities(None)?;
    clear_ambient_capability_set()?;
    // The bounding set can only be changed by who may change it; it matters for later execs only.
    if held.effective.contains(CapabilitySet::SETPCAP) {
        for capability in held.permitted.difference(kept).iter() {
            remove_capability_from_bounding_set(capability)?;
        }
    }
    set_no_new_privs(true)?;
    let kept = held.permitted.intersection(kept);
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )
}

/// The programs see the ids of the initial namespace, `/proc` shows those of its own.
pub(crate) fn require_initial_pid_namespace() -> Result<(), ProfilerError> {
    let path = Path::new("/proc/self/ns/pid");
    let link = std::fs::read_link(path).map_err(|source| ProfilerError::Read {
        path: path.into(),
        source,
    })?;
    if link.as_os_str() == INITIAL_PID_NAMESPACE {
        return Ok(());
    }
    Err(ProfilerError::PidNamespace)
}

/// Explains EPERM of the `bpf` call by what this system shows.
pub(crate) fn why_not_permitted() -> String {
    explain(&Evidence {
        held: rustix::thread::capabilities(None)
            .map_or(CapabilitySet::empty(), |held| held.effective),
        lockdown: read(LOCKDOWN),
        unprivileged_bpf_disabled: read("/proc/sys/kernel/unprivileged_bpf_disabled"),
        lsm: read("/sys/kernel/security/lsm"),
    })
}

/// Explains what the verifier said, where it is not the program that is at fault.
pub(crate) fn why_not_verified(verifier: &str) -> Option<String> {
    explain_unknown_helper(verifier, read(LOCKDOWN))
}

struct Evidence {
    held: CapabilitySet,
    lockdown: Option<String>,
    unprivileged_bpf_disabled: Option<String>,
    lsm: Option<String>,
}

fn explain(evidence: &Evidence) -> String {
    let admin = evidence.held.contains(CapabilitySet::SYS_ADMIN);
    let missing: Vec<&str> = [
        (CapabilitySet::BPF, "CAP_BPF"),
        (CapabilitySet::PERFMON, "CAP_PERFMON"),
    ]
    .into_iter()
    .filter(|(capability, _)| !admin && !evidence.held.contains(*capability))
    .map(|(_, name)| name)
    .collect();
    if !missing.is_empty() {
        let sysctl = evidence
            .unprivileged_bpf_disabled
            .as_ref()
            .map(|value| format!(" (kernel.unprivileged_bpf_disabled is {value})"));
        return format!(
            "missing {}{}; run as root: sudo whyfast profile ...",
            missing.join(" and "),
            sysctl.unwrap_or_default(),
        );
    }
    let seen: Vec<String> = [
        ("active security modules", &evidence.lsm),
        ("lockdown", &evidence.lockdown),
    ]
    .into_iter()
    .filter_map(|(what, value)| Some(format!("{what}: {}", value.as_ref()?)))
    .collect();
    let seen = if seen.is_empty() {
        String::new()
    } else {
        format!(" ({})", seen.join("; "))
    };
    format!(
        "the capabilities are there, so a security module or a seccomp filter of this container \
         refuses the bpf call{seen}; allow it, or run outside of the container"
    )
}

/// Lockdown for confidentiality allows the `bpf` call, but takes away the helpers that read kernel
/// memory: the verifier calls them unknown, or not for this type of program.
fn explain_unknown_helper(verifier: &str, lockdown: Option<String>) -> Option<String> {
    let lockdown = lockdown.filter(|lockdown| lockdown.contains("[confidentiality]"))?;
    verifier.contains("bpf_probe_read").then(|| {
        format!(
            "the kernel is locked down ({lockdown}), which forbids eBPF to read kernel memory; \
             boot with lockdown=integrity or without lockdown"
        )
    })
}

fn read(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

const LOCKDOWN: &str = "/sys/kernel/security/lockdown";
/// `PROC_PID_INIT_INO` of `include/linux/proc_ns.h`.
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(held: CapabilitySet) -> Evidence {
        Evidence {
            held,
            lockdown: Some("none integrity [confidentiality]".into()),
            unprivileged_bpf_disabled: Some("2".into()),
            lsm: Some("lockdown,capability,yama".into()),
        }
    }

    /// Missing capabilities come first: they are what a user can do something about.
    #[test]
    fn names_missing_capabilities() {
        let text = explain(&evidence(CapabilitySet::PERFMON));
        assert_eq!(
            text,
            "missing CAP_BPF (kernel.unprivileged_bpf_disabled is 2); run as root: sudo whyfast \
             profile ..."
        );
    }

    /// With all capabilities it is a security module, and what is known of those is said.
    #[test]
    fn names_security_modules() {
        let mut evidence = evidence(CapabilitySet::SYS_ADMIN);
        let text = explain(&evidence);
        assert!(
            text.contains(
                "(active security modules: lockdown,capability,yama; \
                 lockdown: none integrity [confidentiality])"
            ),
            "{text}"
        );
        evidence.lockdown = None;
        evidence.lsm = None;
        assert!(explain(&evidence).contains("refuses the bpf call; allow it"));
    }

    /// A helper that lockdown took away is told as that, as Linux 6.1 and 6.12 word it; without
    /// lockdown, and for another fault, it is the program.
    #[test]
    fn names_lockdown() {
        let confidential = || Some("none integrity [confidentiality]".to_owned());
        for verifier in [
            "42: (85) call bpf_probe_read_kernel#113\nunknown func bpf_probe_read_kernel#113",
            "program of this type cannot use helper bpf_probe_read_kernel#113",
        ] {
            let text = explain_unknown_helper(verifier, confidential()).unwrap();
            assert!(text.contains("[confidentiality]"), "{text}");
            let integrity = Some("none [integrity] confidentiality".to_owned());
            assert_eq!(explain_unknown_helper(verifier, integrity), None);
            assert_eq!(explain_unknown_helper(verifier, None), None);
        }
        assert_eq!(
            explain_unknown_helper("invalid mem access", confidential()),
            None
        );
    }
}

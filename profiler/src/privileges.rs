//! What the kernel asks of a profiler, why it said no, and giving up what is no longer needed.

use std::path::Path;

use rustix::process::{Resource, getrlimit};
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

/// Whether the kernel is locked down so far that programs may not read its memory by address.
pub(crate) fn is_confidential() -> bool {
    read(LOCKDOWN).is_some_and(|lockdown| lockdown.contains("[confidentiality]"))
}

/// The capability that the kernel's statistics of programs take, where that is missing.
pub(crate) fn why_no_statistics() -> Option<String> {
    (!held().contains(CapabilitySet::SYS_ADMIN)).then(|| {
        "missing CAP_SYS_ADMIN, which they take beyond what profiling takes; leave out --bpf-stats, or run as root"
            .to_owned()
    })
}

/// Explains EPERM of the `bpf` call by what this system shows.
pub(crate) fn why_not_permitted() -> String {
    let status = read("/proc/self/status").unwrap_or_default();
    let seccomp = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"));
    explain(&Evidence {
        held: held(),
        in_initial_user_namespace: std::fs::read_link("/proc/self/ns/user")
            .is_ok_and(|link| link.as_os_str() == INITIAL_USER_NAMESPACE),
        lockdown: read(LOCKDOWN),
        unprivileged_bpf_disabled: read("/proc/sys/kernel/unprivileged_bpf_disabled"),
        lsm: read("/sys/kernel/security/lsm"),
        seccomp: seccomp.is_some_and(|mode| mode.trim() == SECCOMP_MODE_FILTER),
        kernel: kernel_version(&read("/proc/sys/kernel/osrelease").unwrap_or_default()),
        memlock_bytes: getrlimit(Resource::Memlock).current,
    })
}

/// Explains that the sockets of processes could not be seen.
pub(crate) fn why_hidden() -> String {
    let missing = missing(held(), &TO_FIND);
    if missing.is_empty() {
        return "its process is hidden (mount /proc without hidepid), or has ended just now; try \
                again"
            .to_owned();
    }
    format!(
        "missing {}, which looking into processes of other users takes; {REMEDY}",
        missing.join(" and ")
    )
}

/// Explains what the verifier said, where it is not the program that is at fault.
pub(crate) fn why_not_verified(verifier: &str) -> Option<String> {
    explain_unknown_helper(verifier, read(LOCKDOWN))
}

struct Evidence {
    held: CapabilitySet,
    in_initial_user_namespace: bool,
    lockdown: Option<String>,
    unprivileged_bpf_disabled: Option<String>,
    lsm: Option<String>,
    /// Whether a seccomp filter stands before our calls.
    seccomp: bool,
    /// `None` where the release is no version.
    kernel: Option<(u32, u32)>,
    /// What may be locked in memory; `None`: any amount.
    memlock_bytes: Option<u64>,
}

fn explain(evidence: &Evidence) -> String {
    let missing = missing(evidence.held, &TO_ATTACH);
    if !missing.is_empty() && !evidence.held.contains(CapabilitySet::SYS_ADMIN) {
        let sysctl = evidence.unprivileged_bpf_disabled.as_ref();
        let sysctl = sysctl.map(|value| format!(" (kernel.unprivileged_bpf_disabled is {value})"));
        return format!(
            "missing {}{}; {REMEDY}",
            missing.join(" and "),
            sysctl.unwrap_or_default(),
        );
    }
    if !evidence.in_initial_user_namespace {
        return "the capabilities are those of a user namespace (a rootless container), which do \
                not count here; run on the host, as root"
            .to_owned();
    }
    if let Some(lockdown) = &evidence.lockdown
        && lockdown.contains("[confidentiality]")
    {
        return format!(
            "the kernel is locked down ({lockdown}), which forbids eBPF to read kernel memory; \
             boot with lockdown=integrity or without lockdown"
        );
    }
    if let (Some(kernel), Some(bytes)) = (evidence.kernel, evidence.memlock_bytes)
        && kernel < MEMCG_ACCOUNTS_MAPS
        && bytes < ENOUGH_LOCKED_BYTES
    {
        return format!(
            "this kernel counts eBPF maps as locked memory, of which {} KB are allowed; raise the \
             limit (ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit file), or give \
             CAP_SYS_RESOURCE",
            bytes / 1024
        );
    }
    if evidence.seccomp {
        return "the capabilities are there, but a seccomp filter of this container or unit \
                refuses the bpf call; allow it (docker run --security-opt seccomp=unconfined, \
                SystemCallFilter=bpf), or run outside"
            .to_owned();
    }
    let lsm = evidence.lsm.as_ref().map_or_else(
        || " (securityfs is not mounted, so they cannot be named)".to_owned(),
        |lsm| format!(" (active: {lsm})"),
    );
    format!(
        "the capabilities are there, so a security module refuses the bpf call{lsm}; allow it in \
         its policy"
    )
}

fn held() -> CapabilitySet {
    rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |held| held.effective)
}

fn missing(held: CapabilitySet, needed: &[(CapabilitySet, &'static str)]) -> Vec<&'static str> {
    let missing = needed
        .iter()
        .filter(|(capability, _)| !held.contains(*capability));
    missing.map(|&(_, name)| name).collect()
}

/// `6.1.0-18-cloud-amd64` is 6.1.
fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
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

/// What loading and attaching take.
const TO_ATTACH: [(CapabilitySet, &str); 2] = [
    (CapabilitySet::BPF, "CAP_BPF"),
    (CapabilitySet::PERFMON, "CAP_PERFMON"),
];
/// What looking into processes of other users takes: their descriptors, namespaces and calls.
const TO_FIND: [(CapabilitySet, &str); 2] = [
    (CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE"),
    (CapabilitySet::DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"),
];
const REMEDY: &str = "run as root: sudo whyfast profile ..., or grant it to the program: sudo setcap \
                      cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep $(command -v whyfast)";
/// Since 5.11 maps are charged to the control group instead.
const MEMCG_ACCOUNTS_MAPS: (u32, u32) = (5, 11);
/// More than all maps take where process ids go up to 4,194,304.
const ENOUGH_LOCKED_BYTES: u64 = 256 << 20;
/// `SECCOMP_MODE_FILTER` of `include/uapi/linux/seccomp.h`.
const SECCOMP_MODE_FILTER: &str = "2";
/// `PROC_USER_INIT_INO` of `include/linux/proc_ns.h`.
const INITIAL_USER_NAMESPACE: &str = "user:[4026531837]";
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";
/// `PROC_PID_INIT_INO` of `include/linux/proc_ns.h`.
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(held: CapabilitySet) -> Evidence {
        Evidence {
            held,
            in_initial_user_namespace: true,
            lockdown: None,
            unprivileged_bpf_disabled: Some("2".into()),
            lsm: Some("capability,yama".into()),
            seccomp: false,
            kernel: Some((6, 1)),
            memlock_bytes: Some(8 << 20),
        }
    }

    /// Missing capabilities come first: they are what a user can do something about.
    #[test]
    fn names_missing_capabilities() {
        let text = explain(&evidence(CapabilitySet::PERFMON));
        let expected = "missing CAP_BPF (kernel.unprivileged_bpf_disabled is 2); run as root: sudo";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("setcap cap_bpf,cap_perfmon"), "{text}");
        let text = explain(&evidence(CapabilitySet::BPF));
        assert!(text.starts_with("missing CAP_PERFMON "), "{text}");
        let text = explain(&evidence(CapabilitySet::empty()));
        assert!(
            text.starts_with("missing CAP_BPF and CAP_PERFMON "),
            "{text}"
        );
    }

    /// With all capabilities, each other cause is named in one line, the most certain one first.
    #[test]
    fn names_other_causes() {
        type Change = fn(&mut Evidence);
        let causes: [(Change, &str); 6] = [
            (|_| (), "active: capability,yama"),
            (|seen| seen.lsm = None, "securityfs is not mounted"),
            (|seen| seen.seccomp = true, "seccomp filter"),
            (|seen| seen.kernel = Some((5, 10)), "8192 KB are allowed"),
            (
                |seen| seen.lockdown = Some("none integrity [confidentiality]".into()),
                "[confidentiality]",
            ),
            (
                |seen| seen.in_initial_user_namespace = false,
                "user namespace",
            ),
        ];
        let mut seen = evidence(CapabilitySet::SYS_ADMIN);
        for (change, expected) in causes {
            change(&mut seen);
            let text = explain(&seen);
            assert!(text.contains(expected), "{expected}: {text}");
            assert!(!text.contains('\n'), "{text}");
        }
    }

    /// Integrity lockdown does not forbid anything that we do.
    #[test]
    fn integrity_lockdown_is_no_cause() {
        let mut seen = evidence(CapabilitySet::SYS_ADMIN);
        seen.lockdown = Some("none [integrity] confidentiality".into());
        assert!(explain(&seen).contains("security module"));
    }

    /// Releases of distributions are versions, nonsense is not.
    #[test]
    fn reads_kernel_versions() {
        assert_eq!(kernel_version("6.1.0-18-cloud-amd64"), Some((6, 1)));
        assert_eq!(kernel_version("5.11-rc2"), Some((5, 11)));
        assert_eq!(kernel_version("mine"), None);
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

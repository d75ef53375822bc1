//! What stands between the profiler and the kernel: one line for each thing that can.

use std::fs;

use procfs::process::Process;
use rustix::process::{Resource, getrlimit};
use rustix::thread::CapabilitySet;

use super::{Check, Outcome, check};

/// All of it; the first check decides whether the kernel can be profiled.
pub(super) fn checks() -> Vec<Check> {
    vec![
        profile(),
        capabilities(),
        btf(),
        lockdown(read("/sys/kernel/security/lockdown").as_deref()),
        security_modules(read("/sys/kernel/security/lsm").as_deref()),
        sysctls(),
        locked_memory(),
        control_groups(&hierarchies()),
    ]
}

/// Loads and attaches everything once, for no target.
fn profile() -> Check {
    const WHAT: &str = "profile in the kernel";
    match profiler::can_measure(recording::Detail::Times) {
        Ok(()) => check(
            WHAT,
            Outcome::Ok,
            "programs load and attach at detail times",
            None,
        ),
        Err(error) => Check {
            what: WHAT.into(),
            outcome: Outcome::Missing,
            found: error.to_string(),
            remedy: (!rustix::process::geteuid().is_root()).then(|| {
                "run with sudo, or let `whyfast compare` ask sudo for the profiler alone".into()
            }),
        },
    }
}

fn capabilities() -> Check {
    const WHAT: &str = "capabilities";
    let held =
        rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |held| held.effective);
    let absent: Vec<&str> = NEEDED
        .iter()
        .filter(|(capability, _)| !held.contains(*capability))
        .map(|&(_, name)| name)
        .collect();
    if absent.is_empty() {
        return check(WHAT, Outcome::Ok, "all that are needed", None);
    }
    let can_attach = NEEDED[..2].iter().all(|(needed, _)| held.contains(*needed));
    // Without the others, one's own processes can be profiled.
    let outcome = if can_attach {
        Outcome::Warn
    } else {
        Outcome::Missing
    };
    let remedy = "run as root, or: sudo setcap \
                  cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep $(command -v whyfast)";
    let found = format!("missing {}", absent.join(", "));
    check(WHAT, outcome, found, Some(remedy))
}

fn btf() -> Check {
    const WHAT: &str = "kernel type information (BTF)";
    let path = "/sys/kernel/btf/vmlinux";
    match fs::metadata(path) {
        Ok(meta) => {
            let found = format!("{:.1} MB", meta.len() as f64 / 1e6);
            check(WHAT, Outcome::Ok, found, None)
        }
        Err(error) => check(
            WHAT,
            Outcome::Missing,
            format!("{path}: {error}"),
            Some(
                "use a kernel built with CONFIG_DEBUG_INFO_BTF (5.4 and newer distribution kernels)",
            ),
        ),
    }
}

/// `none [integrity] confidentiality`; no file where the kernel has no lockdown, or does not show.
fn lockdown(modes: Option<&str>) -> Check {
    let mode = modes
        .and_then(|modes| modes.split('[').nth(1)?.split(']').next())
        .unwrap_or("none");
    if mode == "confidentiality" {
        let found = "confidentiality: calls are counted, but not told apart by kind of descriptor";
        let remedy = "boot with lockdown=integrity to have the kinds of descriptors";
        check("lockdown", Outcome::Warn, found, Some(remedy))
    } else {
        check("lockdown", Outcome::Ok, mode, None)
    }
}

fn security_modules(active: Option<&str>) -> Check {
    let found = active.unwrap_or("not shown (securityfs is not mounted)");
    check("security modules", Outcome::Ok, found, None)
}

/// Neither matters to who has the capabilities; both explain a refusal to who has not.
fn sysctls() -> Check {
    let value = |path| read(path).unwrap_or_else(|| "not there".into());
    let found = format!(
        "kernel.unprivileged_bpf_disabled {}, kernel.perf_event_paranoid {}",
        value("/proc/sys/kernel/unprivileged_bpf_disabled"),
        value("/proc/sys/kernel/perf_event_paranoid"),
    );
    check("settings for unprivileged users", Outcome::Ok, found, None)
}

fn locked_memory() -> Check {
    let limit = getrlimit(Resource::Memlock).current;
    let found = limit.map_or_else(
        || "unlimited".to_owned(),
        |bytes| {
            format!(
                "{} KB; counted for eBPF maps before kernel 5.11 only",
                bytes / 1024
            )
        },
    );
    check("locked memory", Outcome::Ok, found, None)
}

/// Type of each mounted hierarchy, and its name or controllers.
fn hierarchies() -> Vec<String> {
    let infos = Process::myself().and_then(|process| process.mountinfo());
    let infos = infos.map(|infos| infos.0).unwrap_or_default();
    let groups = infos
        .into_iter()
        .filter(|info| info.fs_type.starts_with("cgroup"));
    groups.map(|info| info.fs_type).collect()
}

/// Groups are found by path in each version, so that both work; who reads ids has to know.
fn control_groups(types: &[String]) -> Check {
    const WHAT: &str = "control groups";
    let has = |wanted: &str| types.iter().any(|found| found == wanted);
    match (has("cgroup2"), has("cgroup")) {
        (true, false) => check(WHAT, Outcome::Ok, "version 2", None),
        (true, true) => check(WHAT, Outcome::Ok, "versions 1 and 2 side by side", None),
        (false, true) => check(WHAT, Outcome::Ok, "version 1", None),
        (false, false) => check(
            WHAT,
            Outcome::Warn,
            "none is mounted, so --cgroup and --unit find nothing",
            Some("mount -t cgroup2 none /sys/fs/cgroup"),
        ),
    }
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// To attach, the first two; to find the target, the others.
const NEEDED: [(CapabilitySet, &str); 4] = [
    (CapabilitySet::BPF, "CAP_BPF"),
    (CapabilitySet::PERFMON, "CAP_PERFMON"),
    (CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE"),
    (CapabilitySet::DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// None stands in the way; what confidentiality costs is said, and how to be rid of it.
    #[test]
    fn lockdown_modes() {
        let outcome = |modes| lockdown(modes).outcome;
        assert_eq!(outcome(None), Outcome::Ok);
        assert_eq!(
            outcome(Some("[none] integrity confidentiality")),
            Outcome::Ok
        );
        assert_eq!(
            outcome(Some("none [integrity] confidentiality")),
            Outcome::Ok
        );
        let confidential = lockdown(Some("none integrity [confidentiality]"));
        assert_eq!(confidential.outcome, Outcome::Warn);
        assert!(
            confidential
                .remedy
                .is_some_and(|remedy| remedy.contains("lockdown=integrity"))
        );
    }

    /// Each combination of versions is told.
    #[test]
    fn versions_of_control_groups() {
        let found = |types: &[&str]| {
            let types: Vec<String> = types.iter().map(|&kind| kind.to_owned()).collect();
            control_groups(&types).found
        };
        assert_eq!(found(&["cgroup2"]), "version 2");
        assert_eq!(found(&["cgroup", "cgroup"]), "version 1");
        assert_eq!(
            found(&["cgroup", "cgroup2"]),
            "versions 1 and 2 side by side"
        );
        assert!(found(&[]).starts_with("none"));
    }
}

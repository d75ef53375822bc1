//! Facts about the machine, from files of the kernel below a root that tests can replace.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use recording::{Fact, FactWeight, Host};

use super::{build_id, fact, read, unreadable};
use crate::verbs::render;
use FactWeight::{Hard, Note, Soft};

/// Everything about this machine.
pub(crate) fn machine(host: &Host) -> Vec<Fact> {
    let mut facts = below(Path::new("/"));
    facts.push(match &host.virtualization {
        Some(kind) => Fact::known("machine.virtualization", Hard, kind),
        None => Fact::known("machine.virtualization", Hard, "none seen"),
    });
    facts
}

fn below(root: &Path) -> Vec<Fact> {
    let mut facts = processor(root);
    facts.push(topology(root));
    facts.push(memory(root));
    facts.push(kernel_build(root));
    facts.push(command_line(root));
    facts.extend(FILES.map(|(key, weight, path)| fact(key, weight, &root.join(path))));
    facts.extend(CHOICES.map(|(key, path)| choice(key, &root.join(path))));
    facts.extend(mitigations(root));
    facts.extend(sysctls(root));
    facts.extend(conditions(root));
    facts
}

/// Model, stepping and microcode of the first processor, by the names that its architecture has.
fn processor(root: &Path) -> Vec<Fact> {
    let path = root.join("proc/cpuinfo");
    let text = fs::read_to_string(&path);
    let field = |name: &str| -> Result<String, String> {
        let text = text.as_ref().map_err(|error| unreadable(&path, error))?;
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines
            .find(|(key, _)| key.trim() == name)
            .ok_or_else(|| format!("no {name} in {}", path.display()))?;
        Ok(value.trim().to_owned())
    };
    PROCESSOR
        .map(|(key, names)| {
            let values = names.iter().map(|name| field(name));
            let read: Vec<Result<String, String>> = values.collect();
            // x86 and Arm name different things; one of both is there.
            match read.iter().find_map(|value| value.as_ref().ok()) {
                Some(value) => Fact::known(key, Hard, value),
                None => Fact::unknown(key, Hard, read[0].clone().err().unwrap_or_default()),
            }
        })
        .to_vec()
}

/// Which processors share a core: `0,4 1,5`.
fn topology(root: &Path) -> Fact {
    let folder = root.join("sys/devices/system/cpu");
    let mut cores: BTreeSet<(usize, String)> = BTreeSet::new();
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let siblings = read(&entry.path().join("topology/thread_siblings_list"));
        let Ok(siblings) = siblings else { continue };
        let first = siblings.split([',', '-']).next();
        if let Some(first) = first.and_then(|first| first.parse().ok()) {
            cores.insert((first, siblings));
        }
    }
    if cores.is_empty() {
        let why = format!("{} does not say which CPUs share a core", folder.display());
        return Fact::unknown("cpu.cores", Hard, why);
    }
    let cores: Vec<String> = cores.into_iter().map(|(_, siblings)| siblings).collect();
    Fact::known("cpu.cores", Hard, cores.join(" "))
}

/// Memory in steps of 64 MiB: what the kernel keeps for itself differs a little from start to start.
fn memory(root: &Path) -> Fact {
    let path = root.join("proc/meminfo");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return Fact::unknown("memory.mib", Hard, unreadable(&path, &error)),
    };
    match crate::machine::memory_bytes(&text) {
        Some(bytes) => {
            let steps = (bytes + MEMORY_STEP / 2) / MEMORY_STEP;
            Fact::known(
                "memory.mib",
                Hard,
                (steps * (MEMORY_STEP >> 20)).to_string(),
            )
        }
        None => Fact::unknown(
            "memory.mib",
            Hard,
            format!("no MemTotal in {}", path.display()),
        ),
    }
}

fn kernel_build(root: &Path) -> Fact {
    let path = root.join("sys/kernel/notes");
    let id = fs::read(&path)
        .map_err(|error| unreadable(&path, &error))
        .and_then(|notes| {
            build_id::of_notes(&notes).ok_or_else(|| format!("no build id in {}", path.display()))
        });
    match id {
        Ok(id) => Fact::known("kernel.build_id", Hard, id),
        Err(why) => Fact::unknown("kernel.build_id", Hard, why),
    }
}

/// What the kernel was started with; values that look like secrets are hashed.
fn command_line(root: &Path) -> Fact {
    match read(&root.join("proc/cmdline")) {
        Ok(line) => Fact::known("kernel.command_line", Hard, render::assignments(&line)),
        Err(why) => Fact::unknown("kernel.command_line", Hard, why),
    }
}

/// One of several words, the chosen one in brackets: `always [madvise] never`.
fn choice(key: &str, path: &Path) -> Fact {
    match read(path) {
        Err(why) => Fact::unknown(key, Hard, why),
        Ok(text) => {
            let chosen = text
                .split_once('[')
                .and_then(|(_, rest)| rest.split_once(']'));
            Fact::known(key, Hard, chosen.map_or(text.as_str(), |(word, _)| word))
        }
    }
}

fn mitigations(root: &Path) -> Vec<Fact> {
    let folder = root.join("sys/devices/system/cpu/vulnerabilities");
    let names = names(&folder);
    if names.is_empty() {
        let why = format!("there is no {} here", folder.display());
        return vec![Fact::unknown("mitigation", Hard, why)];
    }
    names
        .into_iter()
        .map(|name| fact(&format!("mitigation.{name}"), Hard, &folder.join(&name)))
        .collect()
}

fn sysctls(root: &Path) -> Vec<Fact> {
    let mut facts = Vec::new();
    for (folder, prefix) in SYSCTLS {
        let path = root.join("proc/sys").join(folder);
        let topic = folder.replace('/', ".");
        for name in names(&path) {
            let file = path.join(&name);
            // What can only be written is an order, and no setting.
            let readable = file
                .metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o444 != 0);
            if readable && name.starts_with(prefix) && !NO_SETTINGS.contains(&name.as_str()) {
                facts.push(fact(&format!("sysctl.{topic}.{name}"), Hard, &file));
            }
        }
    }
    let kernel = root.join("proc/sys/kernel");
    facts.extend(
        KERNEL_SYSCTLS.map(|name| fact(&format!("sysctl.kernel.{name}"), Hard, &kernel.join(name))),
    );
    facts
}

/// What changes from minute to minute.
fn conditions(root: &Path) -> Vec<Fact> {
    let first = |key: &str, path: &str| match read(&root.join(path)) {
        Ok(text) => {
            let word = text.split(' ').next().unwrap_or_default();
            Fact::known(key, Soft, word)
        }
        Err(why) => Fact::unknown(key, Soft, why),
    };
    let container = ["run/.containerenv", ".dockerenv"]
        .iter()
        .find(|path| root.join(path).exists());
    vec![
        first("condition.load_average", "proc/loadavg"),
        first("condition.uptime_s", "proc/uptime"),
        Fact::known(
            "condition.container",
            Soft,
            container.map_or("none seen", |path| path.trim_start_matches('.')),
        ),
    ]
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Facts of /proc/cpuinfo, by their names on x86 and on Arm.
const PROCESSOR: [(&str, [&str; 2]); 4] = [
    ("cpu.model", ["model name", "CPU part"]),
    ("cpu.family", ["cpu family", "CPU implementer"]),
    ("cpu.stepping", ["stepping", "CPU revision"]),
    ("cpu.microcode", ["microcode", "CPU variant"]),
];

/// Facts that are the text of a file.
const FILES: [(&str, FactWeight, &str); 20] = [
    ("kernel.release", Hard, "proc/sys/kernel/osrelease"),
    ("kernel.version", Hard, "proc/sys/kernel/version"),
    ("kernel.security_modules", Hard, "sys/kernel/security/lsm"),
    ("kernel.host_name", Note, "proc/sys/kernel/hostname"),
    (
        "clock.source",
        Hard,
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
    ),
    ("cpu.online", Hard, "sys/devices/system/cpu/online"),
    ("cpu.isolated", Hard, "sys/devices/system/cpu/isolated"),
    ("cpu.smt", Hard, "sys/devices/system/cpu/smt/control"),
    (
        "cpu.idle_driver",
        Hard,
        "sys/devices/system/cpu/cpuidle/current_driver",
    ),
    (
        "cpu.frequency_driver",
        Hard,
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
    ),
    (
        "cpu.governor",
        Hard,
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    ),
    (
        "cpu.energy_preference",
        Hard,
        "sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference",
    ),
    (
        "cpu.frequency_limit_khz",
        Hard,
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
    ),
    ("cpu.boost", Hard, "sys/devices/system/cpu/cpufreq/boost"),
    (
        "cpu.no_turbo",
        Hard,
        "sys/devices/system/cpu/intel_pstate/no_turbo",
    ),
    ("memory.numa_nodes", Hard, "sys/devices/system/node/online"),
    ("loopback.mtu", Hard, "sys/class/net/lo/mtu"),
    (
        "loopback.rps_cpus",
        Hard,
        "sys/class/net/lo/queues/rx-0/rps_cpus",
    ),
    (
        "interrupts.default_cpus",
        Hard,
        "proc/irq/default_smp_affinity",
    ),
    (
        "condition.frequency_khz",
        Soft,
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
    ),
];

/// Facts that are one of several words.
const CHOICES: [(&str, &str); 2] = [
    (
        "memory.huge_pages",
        "sys/kernel/mm/transparent_hugepage/enabled",
    ),
    (
        "memory.huge_pages_defrag",
        "sys/kernel/mm/transparent_hugepage/defrag",
    ),
];

/// Folders of settings below /proc/sys, and what the names of those that matter begin with.
const SYSCTLS: [(&str, &str); 4] = [
    ("kernel", "sched"),
    ("net/core", ""),
    ("net/ipv4", "tcp_"),
    ("vm", ""),
];

/// Settings that matter besides.
const KERNEL_SYSCTLS: [&str; 6] = [
    "io_uring_disabled",
    "nmi_watchdog",
    "numa_balancing",
    "perf_event_paranoid",
    "randomize_va_space",
    "timer_migration",
];

/// Secrets, orders and counters among the settings.
const NO_SETTINGS: [&str; 3] = ["drop_caches", "tcp_fastopen_key", "stat_refresh"];

const MEMORY_STEP: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn value(facts: &[Fact], key: &str) -> Option<String> {
        let fact = facts.iter().find(|fact| fact.key == key);
        fact.unwrap_or_else(|| panic!("no fact {key}"))
            .value
            .clone()
    }

    /// Facts are read from where the kernel has them, and say what they are.
    #[test]
    fn facts_are_read() {
        let cpus = "sys/devices/system/cpu";
        let root = tree(&[
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: EPYC 7\nstepping\t: 1\n",
            ),
            ("proc/meminfo", "MemTotal:       24684084 kB\n"),
            ("proc/cmdline", "root=/dev/vda quiet rd.password=hunter2\n"),
            ("proc/sys/net/core/somaxconn", "4096\n"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("proc/sys/net/ipv4/tcp_fastopen_key", "secret\n"),
            ("proc/sys/net/ipv4/ip_forward", "1\n"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never\n",
            ),
            (
                &format!("{cpus}/vulnerabilities/meltdown"),
                "Not affected\n",
            ),
            (
                &format!("{cpus}/cpu1/topology/thread_siblings_list"),
                "1,3\n",
            ),
            (
                &format!("{cpus}/cpu3/topology/thread_siblings_list"),
                "1,3\n",
            ),
            (
                &format!("{cpus}/cpu0/topology/thread_siblings_list"),
                "0,2\n",
            ),
        ]);
        let facts = below(root.path());
        let known = |key: &str| value(&facts, key).unwrap();
        assert_eq!(known("cpu.model"), "EPYC 7");
        assert_eq!(known("cpu.cores"), "0,2 1,3");
        assert_eq!(known("memory.mib"), "24128");
        assert_eq!(known("memory.huge_pages"), "madvise");
        assert_eq!(known("mitigation.meltdown"), "Not affected");
        assert_eq!(known("sysctl.net.core.somaxconn"), "4096");
        assert_eq!(known("sysctl.net.ipv4.tcp_rmem"), "4096 131072 6291456");
        let text = format!("{facts:?}");
        for absent in ["secret", "hunter2", "ip_forward"] {
            assert!(!text.contains(absent), "{absent}");
        }
        assert!(known("kernel.command_line").starts_with("root=/dev/vda quiet"));
    }

    /// What is not there has no value, and says where it was looked for.
    #[test]
    fn absent_facts_say_why() {
        let root = tree(&[]);
        for fact in below(root.path()) {
            let known = fact.key == "condition.container";
            assert_eq!(fact.value.is_some(), known, "{fact:?}");
            assert_eq!(fact.why.is_none(), known, "{fact:?}");
        }
    }

    /// No fact is named twice.
    #[test]
    fn keys_are_unique() {
        let facts = machine(&crate::machine::host());
        let keys: BTreeSet<&str> = facts.iter().map(|fact| fact.key.as_str()).collect();
        assert_eq!(keys.len(), facts.len());
    }
}

//! Facts about a server: its programs and libraries, its settings, and what its processes are allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use procfs::process::{MMPermissions, MMapPath, Process};
use recording::{Arm, Fact, FactWeight, Hop, ServerFingerprint, hex};
use sha2::{Digest as _, Sha256};

use super::{build_id, fact, read, unreadable};
use crate::guard;
use FactWeight::{Hard, Note, Soft};

/// The facts of an arm whose processes run.
pub(crate) fn server(arm: &Arm, pids: &[i32]) -> ServerFingerprint {
    let mut facts = vec![match &arm.version {
        Some(version) => Fact::known("program.version", Hard, version),
        None => Fact::unknown("program.version", Hard, "it does not say"),
    }];
    facts.extend(
        arm.binary_sha256
            .iter()
            .map(|sha256| Fact::known("program.sha256", Hard, sha256)),
    );
    let settings = arm.settings.iter();
    facts.extend(
        settings
            .map(|setting| Fact::known(format!("setting.{}", setting.key), Hard, &setting.value)),
    );
    facts.extend(arm.config.iter().map(|file| {
        let sha256 = hex(&Sha256::digest(file.text.as_bytes()));
        Fact::known(format!("config.{}.sha256", file.name), Hard, sha256)
    }));
    facts.extend(
        arm.build
            .iter()
            .map(|part| Fact::known(format!("build.{}", part.key), Soft, &part.value)),
    );
    facts.extend(arm.hops.iter().flat_map(hop));
    facts.extend(processes(pids));
    ServerFingerprint {
        arm: arm.name.clone(),
        facts,
    }
}

/// The facts of one program of a chain.
fn hop(hop: &Hop) -> Vec<Fact> {
    let key = |what: &str| format!("hop.{}.{what}", hop.name);
    let mut facts = vec![match &hop.version {
        Some(version) => Fact::known(key("version"), Hard, version),
        None => Fact::unknown(key("version"), Hard, "it does not say"),
    }];
    let sha256 = hop.binary_sha256.iter();
    facts.extend(sha256.map(|sha256| Fact::known(key("sha256"), Hard, sha256)));
    facts.extend(hop.config.iter().map(|file| {
        let sha256 = hex(&Sha256::digest(file.text.as_bytes()));
        Fact::known(key(&format!("config.{}.sha256", file.name)), Hard, sha256)
    }));
    let build = hop.build.iter();
    facts.extend(
        build.map(|part| Fact::known(key(&format!("build.{}", part.key)), Soft, &part.value)),
    );
    facts
}

/// The facts of running processes. Limits are those of the youngest, which serves where there is one
/// process that only looks after others.
pub(crate) fn processes(pids: &[i32]) -> Vec<Fact> {
    let Some(youngest) = pids.iter().max() else {
        return vec![Fact::unknown(
            "process",
            Hard,
            "no process of the server can be seen",
        )];
    };
    let mut facts = programs(pids);
    facts.extend(libraries(pids));
    let folder = PathBuf::from(format!("/proc/{youngest}"));
    facts.extend(limits(&folder));
    facts.extend(status(&folder));
    facts.push(scheduling(*youngest));
    facts.extend(control_group(&folder));
    facts.push(environment(&folder));
    facts.push(Fact::known("process.count", Soft, pids.len().to_string()));
    facts
}

/// The programs that run, by name.
fn programs(pids: &[i32]) -> Vec<Fact> {
    let mut facts: BTreeMap<String, Fact> = BTreeMap::new();
    for pid in pids {
        let link = PathBuf::from(format!("/proc/{pid}/exe"));
        let path = match fs::read_link(&link) {
            Ok(path) => path,
            Err(error) => {
                let why = unreadable(&link, &error);
                facts
                    .entry("program".to_owned())
                    .or_insert_with(|| Fact::unknown("program", Hard, why));
                continue;
            }
        };
        // A program that was replaced since it was started is read as what runs.
        let key = format!("program.{}", file_name(&path));
        facts
            .entry(key.clone())
            .or_insert_with(|| identified(&key, &link, &path));
    }
    facts.into_values().collect()
}

/// The shared libraries that are mapped to be executed, by name.
fn libraries(pids: &[i32]) -> Vec<Fact> {
    let mut mapped: BTreeMap<String, (PathBuf, PathBuf)> = BTreeMap::new();
    let mut seen = false;
    for &pid in pids {
        let maps = Process::new(pid).and_then(|process| process.maps());
        for map in maps.into_iter().flatten() {
            seen = true;
            let MMapPath::Path(path) = map.pathname else {
                continue;
            };
            let name = file_name(&path);
            if map.perms.contains(MMPermissions::EXECUTE) && is_library(&name) {
                let inside = format!("/proc/{pid}/root{}", path.display());
                mapped
                    .entry(name)
                    .or_insert_with(|| (PathBuf::from(inside), path));
            }
        }
    }
    if !seen {
        let why = "the memory of its processes may be looked at by root alone";
        return vec![Fact::unknown("library", Hard, why)];
    }
    if mapped.is_empty() {
        return vec![Fact::known("library", Hard, "none: linked statically")];
    }
    mapped
        .iter()
        .map(|(name, (inside, path))| identified(&format!("library.{name}"), inside, path))
        .collect()
}

/// A file by its build id, or by the hash of its bytes where it has none.
fn identified(key: &str, inside: &Path, path: &Path) -> Fact {
    match build_id::of_file(inside) {
        Ok(Some(id)) => return Fact::known(key, Hard, format!("build id {id}")),
        Ok(None) => {}
        Err(error) if error.kind() == std::io::ErrorKind::Other => {}
        Err(error) => return Fact::unknown(key, Hard, unreadable(path, &error)),
    }
    match fs::read(inside) {
        Ok(bytes) => Fact::known(key, Hard, format!("sha256 {}", hex(&Sha256::digest(bytes)))),
        Err(error) => Fact::unknown(key, Hard, unreadable(path, &error)),
    }
}

/// `libc.so.6`, `libssl.so`; a file that was deleted has a word behind its name.
fn is_library(name: &str) -> bool {
    name.split('.').skip(1).any(|part| part == "so")
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    let name = name.to_string_lossy();
    name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned()
}

/// Resource limits, soft and hard.
fn limits(folder: &Path) -> Vec<Fact> {
    let path = folder.join("limits");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return vec![Fact::unknown("limit", Hard, unreadable(&path, &error))],
    };
    limits_of(&text)
}

fn limits_of(text: &str) -> Vec<Fact> {
    text.lines()
        .filter_map(|line| {
            let rest = line.strip_prefix("Max ")?;
            // Names have blanks inside; columns are further apart.
            let (name, values) = rest.split_once("  ")?;
            let mut values = values.split_whitespace();
            let (soft, hard) = (values.next()?, values.next()?);
            let name = name.replace(' ', "_");
            Some(Fact::known(
                format!("limit.{name}"),
                Hard,
                format!("{soft}/{hard}"),
            ))
        })
        .collect()
}

/// CPUs, filters on calls and the user.
fn status(folder: &Path) -> Vec<Fact> {
    let path = folder.join("status");
    let text = fs::read_to_string(&path);
    STATUS
        .map(|(key, weight, name)| {
            let value = text.as_ref().map(|text| {
                let mut lines = text.lines().filter_map(|line| line.split_once(':'));
                lines.find(|(field, _)| *field == name)
            });
            match value {
                Ok(Some((_, value))) => {
                    let words: Vec<&str> = value.split_whitespace().collect();
                    Fact::known(key, weight, words.join(" "))
                }
                Ok(None) => Fact::unknown(key, weight, format!("no {name} in {}", path.display())),
                Err(error) => Fact::unknown(key, weight, unreadable(&path, error)),
            }
        })
        .to_vec()
}

fn scheduling(pid: i32) -> Fact {
    let stat = Process::new(pid).and_then(|process| process.stat());
    match stat {
        Ok(stat) => {
            let policy = stat
                .policy
                .map_or("?".to_owned(), |policy| policy.to_string());
            let value = format!("policy {policy}, nice {}", stat.nice);
            Fact::known("process.scheduling", Hard, value)
        }
        Err(error) => Fact::unknown("process.scheduling", Hard, error.to_string()),
    }
}

/// The limits of the control group that the kernel enforces.
fn control_group(folder: &Path) -> Vec<Fact> {
    let groups = match read(&folder.join("cgroup")) {
        Ok(groups) => groups,
        Err(why) => return vec![Fact::unknown("control_group", Note, why)],
    };
    let mut facts = vec![Fact::known("control_group", Note, &groups)];
    let unified = groups
        .split(' ')
        .find_map(|group| group.strip_prefix("0::"));
    let Some(group) = unified else {
        facts.push(Fact::unknown(
            "control_group.cpu_limit",
            Hard,
            "only groups of version 2 are looked at",
        ));
        return facts;
    };
    let home = Path::new("/sys/fs/cgroup").join(group.trim_start_matches('/'));
    for (key, file) in [
        ("control_group.cpu_limit", "cpu.max"),
        ("control_group.memory_limit", "memory.max"),
    ] {
        facts.push(fact(key, Hard, &home.join(file)));
    }
    facts
}

/// The names of the environment's variables, without what we put in ourselves.
fn environment(folder: &Path) -> Fact {
    let path = folder.join("environ");
    match fs::read(&path) {
        Err(error) => Fact::unknown("environment", Hard, unreadable(&path, &error)),
        Ok(bytes) => Fact::known("environment", Hard, variables(&bytes)),
    }
}

fn variables(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let names: BTreeSet<&str> = text
        .split('\0')
        .filter_map(|variable| variable.split_once('='))
        .map(|(name, _)| name)
        .filter(|name| *name != guard::MARK)
        .collect();
    names.into_iter().collect::<Vec<_>>().join(" ")
}

/// Facts of /proc/PID/status.
const STATUS: [(&str, FactWeight, &str); 4] = [
    ("process.cpus", Hard, "Cpus_allowed_list"),
    ("process.seccomp", Hard, "Seccomp"),
    ("process.threads", Soft, "Threads"),
    ("process.users", Note, "Uid"),
];

#[cfg(test)]
mod tests {
    use recording::ArmKind;

    use super::*;
    use crate::verbs::render::blank_arm;

    /// Limits keep their names, soft before hard (the text is that of Linux 6.18).
    #[test]
    fn limits_are_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max cpu time              unlimited            unlimited            seconds   \n\
                    Max open files            1024                 524288               files     \n\
                    Max nice priority         0                    0                    \n";
        let facts = limits_of(text);
        let read: Vec<(&str, &str)> = facts
            .iter()
            .map(|fact| (fact.key.as_str(), fact.value.as_deref().unwrap()))
            .collect();
        assert_eq!(
            read,
            [
                ("limit.cpu_time", "unlimited/unlimited"),
                ("limit.open_files", "1024/524288"),
                ("limit.nice_priority", "0/0"),
            ]
        );
    }

    /// Names of variables are kept, values and our own mark are not.
    #[test]
    fn values_of_the_environment_are_not_kept() {
        let environment = format!("PATH=/bin\0TOKEN=secret\0{}=1\0", guard::MARK);
        assert_eq!(variables(environment.as_bytes()), "PATH TOKEN");
    }

    /// This very process has a program and what it is allowed, each named once.
    #[test]
    fn own_process_has_facts() {
        let arm = blank_arm("own", "own", ArmKind::Command);
        let pid = i32::try_from(std::process::id()).unwrap();
        let server = server(&arm, &[pid]);
        for key in ["process.cpus", "limit.open_files", "process.scheduling"] {
            assert!(server.value(key).is_some(), "{key}");
        }
        let program = server
            .facts
            .iter()
            .find(|f| f.key.starts_with("program.whyfast"));
        assert!(
            program.is_some_and(|fact| fact.value.is_some()),
            "{server:?}"
        );
        let keys: BTreeSet<&str> = server.facts.iter().map(|fact| fact.key.as_str()).collect();
        assert_eq!(keys.len(), server.facts.len());
    }

    /// Without processes that is said, and what is known of the arm stays.
    #[test]
    fn no_process_is_said() {
        let mut arm = blank_arm("a", "a", ArmKind::Command);
        arm.version = Some("1.0".to_owned());
        let server = server(&arm, &[]);
        assert_eq!(server.value("program.version"), Some("1.0"));
        let missing = server.facts.iter().find(|fact| fact.key == "process");
        assert!(missing.is_some_and(|fact| fact.value.is_none()));
    }
}

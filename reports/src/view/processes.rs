//! The processes of a profile: how many, of which target, and the first of them by name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use recording::{Profile, ProfiledProcess};

use super::{Line, name};
use crate::figures::counted;
use crate::layout::WRITES;

/// One line, however many there are; the recording has all of them.
pub(super) fn line(profile: &Profile) -> Line {
    let processes = &profile.processes;
    let threads: u64 = processes
        .iter()
        .filter_map(|process| process.threads)
        .map(u64::from)
        .sum();
    let ended = processes.iter().filter(|process| process.ended).count();
    let follow = if profile.follow {
        "children followed"
    } else {
        "children not followed"
    };
    let mut text = format!(
        "{}, {}, {follow}",
        match processes.len() {
            1 => "1 process".to_owned(),
            count => format!("{count} processes"),
        },
        counted(usize::try_from(threads).unwrap_or(usize::MAX), "thread")
    );
    if ended > 0 {
        write!(text, ", {ended} ended").expect(WRITES);
    }
    if !processes.is_empty() {
        write!(text, ": {}", listed(processes)).expect(WRITES);
    }
    Line::new("target", text)
}

/// The oldest, as far as ids tell, those that ended last; grouped by what they have in common.
fn listed(processes: &[ProfiledProcess]) -> String {
    let mut shown: Vec<&ProfiledProcess> = processes.iter().collect();
    shown.sort_by_key(|process| (process.ended, process.pid));
    let others = shown.len().saturating_sub(PROCESSES);
    shown.truncate(PROCESSES);
    let targets: BTreeSet<&Option<String>> =
        processes.iter().map(|process| &process.target).collect();
    let mut groups: BTreeMap<[String; 3], Vec<String>> = BTreeMap::new();
    for process in shown {
        let or_else = |text: &Option<String>, other: &str| {
            text.as_ref().map_or(other.to_owned(), |text| name(text))
        };
        let target = if targets.len() > 1 {
            or_else(&process.target, "target unknown") + ": "
        } else {
            String::new()
        };
        let comm = or_else(&process.comm, "(gone)");
        let container = or_else(&process.container, "");
        let id = match process.ns_pid {
            Some(inside) => format!("{} ({inside} inside)", process.pid),
            None => process.pid.to_string(),
        };
        groups
            .entry([target, comm, container])
            .or_default()
            .push(id);
    }
    let mut parts: Vec<String> = groups
        .into_iter()
        .map(|([target, comm, container], ids)| {
            let place = if container.is_empty() {
                String::new()
            } else {
                format!(" in control group {container}")
            };
            format!("{target}{comm} {}{place}", ids.join(" "))
        })
        .collect();
    if others > 0 {
        parts.push(format!("and {}", counted(others, "other")));
    }
    parts.join("; ")
}

/// Processes that are listed; more would push what follows off the screen.
const PROCESSES: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32) -> ProfiledProcess {
        ProfiledProcess {
            pid,
            comm: Some("worker".into()),
            threads: Some(1),
            container: None,
            ended: false,
            target: Some("port 80".into()),
            ns_pid: None,
            parent: None,
        }
    }

    /// Of thousands of processes a few are listed, those that still run first, whatever their names.
    #[test]
    fn thousands_fit_on_a_line() {
        let mut processes: Vec<ProfiledProcess> = (1..=5000).map(process).collect();
        for process in &mut processes {
            process.comm = Some(format!("\u{1b}[2Jworker-{}", process.pid));
        }
        processes[0].ended = true;
        let text = listed(&processes);
        assert!(text.len() < 1000, "{text}");
        assert!(text.ends_with("; and 4988 others"), "{text}");
        assert!(
            text.contains("worker-2 2;") && !text.contains("worker-1 1;"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    /// Targets are named where there are several, ids of containers where there are any.
    #[test]
    fn targets_and_containers() {
        let mut processes: Vec<ProfiledProcess> = (1..=3).map(process).collect();
        assert_eq!(listed(&processes), "worker 1 2 3");
        processes[1].ns_pid = Some(7);
        processes[2].target = Some("comm worker".into());
        assert_eq!(
            listed(&processes),
            "comm worker: worker 3; port 80: worker 1 2 (7 inside)"
        );
    }
}

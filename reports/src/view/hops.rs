//! Chains: their programs, what each hop costs per request, and the files of their configuration.

use recording::{Arm, ConfigFile, Recording};

use super::environment::version_number;
use super::{Line, PerRequest, Table, name, or_absent};
use crate::clean::clean_to;
use crate::figures::{bytes, micros, per_request};
use crate::hops::{ChainCost, Cost, chains};

/// The cost of every chain; `None` where no arm is one.
pub(crate) fn by_hop(recording: &Recording) -> Option<PerRequest> {
    let chains = chains(recording);
    if chains.is_empty() {
        return None;
    }
    let exact = |chain: &ChainCost| crate::join::join_arm(recording, &chain.arm).exact;
    let header = [
        "arm",
        "hop",
        "program",
        "CPU us/req",
        "syscalls/req",
        "bytes/req",
    ];
    let mut notes: Vec<Line> = Vec::new();
    for chain in &chains {
        let arm = clean_to(&chain.arm, ARM);
        let missing = chain.not_measured.iter();
        notes.extend(missing.map(|why| Line::new("missing", format!("{arm}: {why}"))));
    }
    notes.push(Line::new("note", NOTE));
    Some(PerRequest {
        heading: "PER REQUEST, BY HOP  the sum over the processes of each",
        table: Table {
            header: header.map(str::to_owned).into(),
            rows: chains
                .iter()
                .flat_map(|chain| rows(chain, exact(chain)))
                .collect(),
            left: vec![1, 2],
            optional: vec![2],
        },
        notes,
    })
}

fn rows(chain: &ChainCost, exact: bool) -> Vec<Vec<String>> {
    let row = |arm: &str, hop: &str, program: &str, cost: Cost| {
        vec![
            arm.to_owned(),
            hop.to_owned(),
            program.to_owned(),
            or_absent(cost.cpu_ns, micros),
            or_absent(cost.calls, |calls| per_request(calls, exact)),
            or_absent(cost.bytes, bytes),
        ]
    };
    let arm = clean_to(&chain.arm, ARM);
    let hops = chain.hops.iter().enumerate();
    let mut rows: Vec<Vec<String>> = hops
        .map(|(index, hop)| {
            let arm = if index == 0 { arm.as_str() } else { "" };
            let program = clean_to(&hop.program, ARM);
            row(arm, &name(&hop.hop), &program, hop.cost)
        })
        .collect();
    rows.push(row("", "all hops", "", chain.sum));
    rows.push(row("", "in no hop", "", chain.rest()));
    rows.push(row("", "all", "", chain.whole));
    rows
}

/// A chain with the versions of its programs.
pub(super) fn programs(arm: &Arm) -> String {
    let hops = arm.hops.iter().map(|hop| {
        let version = hop.version.as_deref().map_or("?", version_number);
        format!("{} {}", name(&hop.program), name(version))
    });
    let hops: Vec<String> = hops.collect();
    format!("{} ({})", clean_to(&arm.name, ARM), hops.join(" to "))
}

/// The configuration files of an arm, with the hop before the name where it is a chain.
pub(crate) fn files(arm: &Arm) -> Vec<(String, &ConfigFile)> {
    let own = arm.config.iter().map(|file| (file.name.clone(), file));
    let hops = arm.hops.iter().flat_map(|hop| {
        let files = hop.config.iter();
        files.map(|file| (format!("{}/{}", hop.name, file.name), file))
    });
    own.chain(hops).collect()
}

/// Characters of the name of an arm or a program.
const ARM: usize = 24;

const NOTE: &str = "CPU by the clocks of the processes, without probes; calls and bytes with probes. In no hop: \
                    processes that came and went, and what happened while the counters were copied";

//! The fingerprint in a report: the facts that matter most on one line, all of them as tables.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use recording::{Fact, FactWeight, Fingerprint, Recording};

use super::{ABSENT, Table, name};
use crate::clean::clean_to;
use crate::figures::counted;
use crate::layout::WRITES;

/// What a reader asks first, in one line; `None` where there is no fingerprint.
pub(crate) fn summary(recording: &Recording) -> Option<String> {
    let fingerprint = recording.fingerprint.as_ref()?;
    let said = |key: &str, words: &str| {
        let value = fingerprint.machine_value(key)?;
        Some(format!("{words} {}", name(value)))
    };
    let mut parts: Vec<String> = [
        said("cpu.governor", "governor"),
        said("cpu.smt", "SMT"),
        said("memory.huge_pages", "THP"),
        said("clock.source", "clock"),
    ]
    .into_iter()
    .flatten()
    .collect();
    parts.extend(mitigations(fingerprint));
    parts.push(format!("fingerprint {}", short(&fingerprint.hash)));
    Some(parts.join(", "))
}

/// How many mitigations of processor faults are at work, and what is left open.
fn mitigations(fingerprint: &Fingerprint) -> Option<String> {
    let all = || {
        let facts = fingerprint.machine.iter();
        facts.filter_map(|fact| Some((fact.key.strip_prefix("mitigation.")?, fact.value.as_ref()?)))
    };
    all().next()?;
    let active = all().filter(|(_, value)| value.starts_with("Mitigation"));
    let mut text = counted(active.count(), "mitigation");
    let open = all().filter(|(_, value)| value.starts_with("Vulnerable"));
    match open.count() {
        0 => {}
        open => write!(text, ", {} open", counted(open, "fault")).expect(WRITES),
    }
    Some(text)
}

fn short(hash: &str) -> String {
    clean_to(hash.get(..SHORT).unwrap_or(hash), SHORT)
}

/// Every fact about the machine.
pub(crate) fn machine_table(fingerprint: &Fingerprint) -> Table {
    let header = ["fact", "value", "weight"];
    Table {
        header: header.map(str::to_owned).to_vec(),
        rows: fingerprint
            .machine
            .iter()
            .map(|fact| vec![name(&fact.key), value(Some(fact)), weight(fact.weight)])
            .collect(),
        left: vec![1, 2],
        ..Table::default()
    }
}

/// Every fact about the servers, arm beside arm.
pub(crate) fn server_table(fingerprint: &Fingerprint) -> Table {
    let servers = &fingerprint.servers;
    let keys: BTreeSet<&str> = servers
        .iter()
        .flat_map(|server| &server.facts)
        .map(|fact| fact.key.as_str())
        .collect();
    let mut header = vec!["fact".to_owned()];
    header.extend(servers.iter().map(|server| name(&server.arm)));
    let rows = keys.into_iter().map(|key| {
        let mut row = vec![clean_to(key, KEY)];
        row.extend(servers.iter().map(|server| {
            let fact = server.facts.iter().find(|fact| fact.key == key);
            value(fact)
        }));
        row
    });
    Table {
        left: (1..header.len()).collect(),
        rows: rows.collect(),
        header,
        ..Table::default()
    }
}

fn value(fact: Option<&Fact>) -> String {
    let Some(fact) = fact else {
        return ABSENT.to_owned();
    };
    match (&fact.value, &fact.why) {
        (Some(value), _) => clean_to(value, VALUE),
        (None, Some(why)) => clean_to(&format!("not known: {why}"), VALUE),
        (None, None) => "not known".to_owned(),
    }
}

fn weight(weight: FactWeight) -> String {
    match weight {
        FactWeight::Hard => "hard",
        FactWeight::Soft => "soft",
        FactWeight::Note => "note",
    }
    .to_owned()
}

/// Digits of a hash that tell fingerprints apart for people.
const SHORT: usize = 12;
/// Characters of a key; those of libraries have their names in them.
const KEY: usize = 60;
/// Characters of a value; the recording has all of it.
const VALUE: usize = 120;

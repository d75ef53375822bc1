//! The fingerprint in a report: the facts that matter most on one line, all of them as tables.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use recording::{Fact, FactWeight, Fingerprint, Recording};

use super::{ABSENT, Table, name};
use crate::clean::clean_to;
use crate::figures::counted;
use crate::fingerprint::Difference;
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

/// Differences in words, `fact (first, second)` of each; empty where there are none.
pub(crate) fn listed(differences: &[Difference]) -> String {
    let side = |value: &Option<String>| {
        let value = value.as_deref().map(|value| clean_to(value, LISTED_VALUE));
        value.unwrap_or_else(|| "not known".to_owned())
    };
    let words = differences.iter().take(LISTED).map(|difference| {
        let (a, b) = (side(&difference.a), side(&difference.b));
        let key = clean_to(&difference.key, KEY);
        match &difference.arm {
            Some(arm) => format!("{key} of {} ({a}, {b})", name(arm)),
            None => format!("{key} ({a}, {b})"),
        }
    });
    let mut words: Vec<String> = words.collect();
    let more = differences.len().saturating_sub(LISTED);
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words.join(", ")
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
/// Differences that are named in one line, and characters of a value there.
const LISTED: usize = 12;
const LISTED_VALUE: usize = 40;
/// Characters of a value; the recording has all of it.
const VALUE: usize = 120;

//! Two fingerprints against each other: which facts differ, and how much that matters.

use std::collections::BTreeMap;

use recording::{Fact, FactWeight, Fingerprint};

/// A fact that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The arm that it is about; `None` for the machine.
    pub arm: Option<String>,
    /// Its name.
    pub key: String,
    /// How much it matters that it is equal.
    pub weight: FactWeight,
    /// On the first side; `None` where it is not known there.
    pub a: Option<String>,
    /// On the second side.
    pub b: Option<String>,
}

impl Difference {
    /// Whether both sides are known, so that they are known to differ.
    pub fn is_certain(&self) -> bool {
        self.a.is_some() && self.b.is_some()
    }
}

/// What differs between two measurements: of the machine, and of each server that both have by name. A
/// fact that only one side knows is listed; one that neither knows is not. Hard facts come first.
pub fn differences(a: &Fingerprint, b: &Fingerprint) -> Vec<Difference> {
    let mut found = between(None, &a.machine, &b.machine);
    for server in &a.servers {
        if let Some(other) = b.server(&server.arm) {
            found.extend(between(Some(&server.arm), &server.facts, &other.facts));
        }
    }
    found.sort_by_key(|difference| difference.weight);
    found
}

/// Whether times that were measured on both machines may be compared: no hard fact about the machine is
/// known to differ.
pub fn same_machine(a: &Fingerprint, b: &Fingerprint) -> bool {
    let decides =
        |difference: &Difference| difference.weight == FactWeight::Hard && difference.is_certain();
    !between(None, &a.machine, &b.machine).iter().any(decides)
}

fn between(arm: Option<&str>, a: &[Fact], b: &[Fact]) -> Vec<Difference> {
    let mut keys: BTreeMap<&str, (Option<&Fact>, Option<&Fact>)> = BTreeMap::new();
    for fact in a {
        keys.entry(&fact.key).or_default().0 = Some(fact);
    }
    for fact in b {
        keys.entry(&fact.key).or_default().1 = Some(fact);
    }
    let value = |fact: Option<&Fact>| fact.and_then(|fact| fact.value.clone());
    keys.into_iter()
        .filter(|(_, (a, b))| value(*a) != value(*b))
        .filter_map(|(key, (a, b))| {
            Some(Difference {
                arm: arm.map(str::to_owned),
                key: key.to_owned(),
                // Where versions weigh a fact differently, the heavier weight counts.
                weight: a.iter().chain(&b).map(|fact| fact.weight).min()?,
                a: value(a),
                b: value(b),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use recording::ServerFingerprint;

    use super::*;
    use FactWeight::{Hard, Note, Soft};

    fn fingerprint(machine: Vec<Fact>, servers: &[(&str, Vec<Fact>)]) -> Fingerprint {
        let servers = servers.iter().map(|(arm, facts)| ServerFingerprint {
            arm: (*arm).to_owned(),
            facts: facts.clone(),
        });
        Fingerprint::new(machine, servers.collect())
    }

    /// What differs, what only one side knows and what is gone are listed, hard facts first; what both
    /// sides lack, and servers that only one side has, are not.
    #[test]
    fn differences_are_listed() {
        let a = fingerprint(
            vec![
                Fact::known("load", Soft, "0.1"),
                Fact::known("kernel", Hard, "6.1"),
                Fact::known("same", Hard, "x"),
                Fact::unknown("governor", Hard, "none"),
                Fact::unknown("boost", Hard, "none"),
            ],
            &[
                ("nginx", vec![Fact::known("version", Hard, "1.22")]),
                ("h2o", Vec::new()),
            ],
        );
        let b = fingerprint(
            vec![
                Fact::known("kernel", Hard, "6.12"),
                Fact::known("same", Hard, "x"),
                Fact::known("load", Soft, "0.2"),
                Fact::known("governor", Hard, "powersave"),
                Fact::unknown("boost", Hard, "another reason"),
            ],
            &[("nginx", vec![Fact::known("version", Hard, "1.26")])],
        );
        let found = differences(&a, &b);
        let listed: Vec<(Option<&str>, &str, bool)> = found
            .iter()
            .map(|d| (d.arm.as_deref(), d.key.as_str(), d.is_certain()))
            .collect();
        assert_eq!(
            listed,
            [
                (None, "governor", false),
                (None, "kernel", true),
                (Some("nginx"), "version", true),
                (None, "load", true),
            ]
        );
        assert!(!same_machine(&a, &b));
    }

    /// Soft facts, notes and what one side does not know do not make it another machine.
    #[test]
    fn only_known_hard_facts_make_another_machine() {
        let a = fingerprint(
            vec![
                Fact::known("load", Soft, "0.1"),
                Fact::known("name", Note, "a"),
                Fact::unknown("build", Hard, "needs root"),
            ],
            &[],
        );
        let b = fingerprint(vec![Fact::known("build", Hard, "1f")], &[]);
        assert_eq!(differences(&a, &b).len(), 3);
        assert!(same_machine(&a, &b));
    }

    proptest! {
        /// A fingerprint has no difference to itself, and swapping two swaps the sides.
        #[test]
        fn differences_are_symmetric(
            a in proptest::collection::btree_map("[a-d]", proptest::option::of("[xy]"), 0..4),
            b in proptest::collection::btree_map("[a-d]", proptest::option::of("[xy]"), 0..4),
        ) {
            let of = |facts: &BTreeMap<String, Option<String>>| {
                let facts = facts.iter().map(|(key, value)| match value {
                    Some(value) => Fact::known(key, Hard, value),
                    None => Fact::unknown(key, Hard, "not there"),
                });
                fingerprint(facts.collect(), &[])
            };
            let (a, b) = (of(&a), of(&b));
            prop_assert!(differences(&a, &a).is_empty());
            let swapped: Vec<Difference> = differences(&b, &a)
                .into_iter()
                .map(|d| Difference { a: d.b, b: d.a, ..d })
                .collect();
            prop_assert_eq!(differences(&a, &b), swapped);
        }
    }
}

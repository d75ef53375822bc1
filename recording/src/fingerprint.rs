//! The fingerprint of a measurement: what a result depends on besides the code of the servers. It owns
//! the facts and their hash; reading them is not done here.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::hex;

/// What the machine and the servers were when they were measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fingerprint {
    /// SHA-256 over the hard facts of the machine, hexadecimal: under another hash there is no
    /// comparable baseline. Servers are not in it, since they are what is compared.
    pub hash: String,
    /// Facts about the machine.
    pub machine: Vec<Fact>,
    /// Facts about the servers, in the order of the arms.
    pub servers: Vec<ServerFingerprint>,
}

/// What a server was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerFingerprint {
    /// Name of the arm.
    pub arm: String,
    /// Its program, libraries, configuration and limits.
    pub facts: Vec<Fact>,
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    /// Its name, topic first: `cpu.model`, `sysctl.net.core.somaxconn`, `library.libc.so.6`. A unit
    /// ends it where there is one.
    pub key: String,
    /// How much it matters that it is equal.
    pub weight: FactWeight,
    /// Its value; `null` where it could not be read.
    pub value: Option<String>,
    /// Why there is no value; absent where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How much it matters that a fact is the same in two measurements.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FactWeight {
    /// Where it differs, times cannot be compared.
    Hard,
    /// Where it differs, read a small difference with doubt.
    Soft,
    /// For the record.
    Note,
}

impl Fingerprint {
    /// The fingerprint of these facts, with its hash.
    pub fn new(machine: Vec<Fact>, servers: Vec<ServerFingerprint>) -> Self {
        Self {
            hash: hash(&machine),
            machine,
            servers,
        }
    }

    /// The value of a fact about the machine; `None` where it is not known.
    pub fn machine_value(&self, key: &str) -> Option<&str> {
        value(&self.machine, key)
    }

    /// The facts of an arm.
    pub fn server(&self, arm: &str) -> Option<&ServerFingerprint> {
        self.servers.iter().find(|server| server.arm == arm)
    }
}

impl ServerFingerprint {
    /// The value of a fact; `None` where it is not known.
    pub fn value(&self, key: &str) -> Option<&str> {
        value(&self.facts, key)
    }
}

impl Fact {
    /// A fact that was read.
    pub fn known(key: impl Into<String>, weight: FactWeight, value: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            weight,
            value: Some(value.into()),
            why: None,
        }
    }

    /// A fact that could not be read, and why.
    pub fn unknown(key: impl Into<String>, weight: FactWeight, why: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            weight,
            value: None,
            why: Some(why.into()),
        }
    }
}

fn value<'a>(facts: &'a [Fact], key: &str) -> Option<&'a str> {
    let fact = facts.iter().find(|fact| fact.key == key)?;
    fact.value.as_deref()
}

/// The hash does not depend on the order of the facts. Lengths keep a value from looking like another
/// fact.
fn hash(machine: &[Fact]) -> String {
    let mut hard: Vec<&Fact> = machine
        .iter()
        .filter(|fact| fact.weight == FactWeight::Hard)
        .collect();
    hard.sort_by(|a, b| a.key.cmp(&b.key));
    let mut text = String::new();
    for fact in hard {
        let value = match &fact.value {
            Some(value) => format!("{} {value}", value.len()),
            None => "not known".to_owned(),
        };
        writeln!(text, "{} {} {value}", fact.key.len(), fact.key).expect("a string can grow");
    }
    hex(&Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn facts() -> Vec<Fact> {
        vec![
            Fact::known("cpu.model", FactWeight::Hard, "A"),
            Fact::unknown("cpu.governor", FactWeight::Hard, "no cpufreq here"),
            Fact::known("load.average", FactWeight::Soft, "0.10"),
        ]
    }

    /// The hash is that of the hard facts alone, in any order, and servers are not in it.
    #[test]
    fn hash_is_of_the_hard_facts() {
        let original = Fingerprint::new(facts(), Vec::new());
        let mut turned = facts();
        turned.reverse();
        turned[0].value = Some("9.99".to_owned());
        let server = ServerFingerprint {
            arm: "a".to_owned(),
            facts: facts(),
        };
        assert_eq!(Fingerprint::new(turned, vec![server]).hash, original.hash);
        let mut known = facts();
        known[1] = Fact::known("cpu.governor", FactWeight::Hard, "performance");
        assert_ne!(Fingerprint::new(known, Vec::new()).hash, original.hash);
    }

    /// The hash of no facts is the published SHA-256 of nothing (FIPS 180-4 examples).
    #[test]
    fn hash_of_nothing_is_the_published_one() {
        assert_eq!(
            Fingerprint::new(Vec::new(), Vec::new()).hash,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    proptest! {
        /// Two machines with different values have different hashes, whatever is in the values.
        #[test]
        fn different_values_have_different_hashes(
            a in "[ a-z0-9\n.]{0,12}", b in "[ a-z0-9\n.]{0,12}", c in "[ a-z0-9\n.]{0,12}",
            d in "[ a-z0-9\n.]{0,12}",
        ) {
            let hash = |x: &str, y: &str| {
                let facts = vec![
                    Fact::known("x", FactWeight::Hard, x),
                    Fact::known("y", FactWeight::Hard, y),
                ];
                Fingerprint::new(facts, Vec::new()).hash
            };
            prop_assert_eq!(hash(&a, &b) == hash(&c, &d), (&a, &b) == (&c, &d));
        }
    }
}

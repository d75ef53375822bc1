//! Gates that are known to refuse a scenario, and why that is right.

use recording::{Gate, GateStatus};

/// A refusal that is no failure.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The scenario; `None` for all.
    scenario: Option<&'static str>,
    gate: &'static str,
    why: &'static str,
    how: How,
}

/// What is done about a known refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// It stands, in checks alone, whose rounds are too short to mean something.
    InChecks,
    /// It stands.
    Stand,
}

/// Why a gate may refuse here; `None` where nothing is known, and it has to be looked at.
pub(super) fn why(scenario: &str, gate: &Gate, check: bool) -> Option<String> {
    let known = KNOWN.iter().find(|known| {
        known.gate == gate.id
            && known.scenario.is_none_or(|name| name == scenario)
            && (check || known.how != How::InChecks)
    });
    match known {
        Some(known) => Some(known.why.to_owned()),
        // As published: what is to be changed is then what the publication did.
        None => (gate.status == GateStatus::Allowed).then(|| gate.fix.clone()),
    }
}

const fn known(scenario: &'static str, gate: &'static str, how: How, why: &'static str) -> Known {
    Known {
        scenario: Some(scenario),
        gate,
        why,
        how,
    }
}

const fn of_checks(gate: &'static str, why: &'static str) -> Known {
    Known {
        scenario: None,
        gate,
        why,
        how: How::InChecks,
    }
}

const KNOWN: &[Known] = &[
    of_checks(
        "G6",
        "a client without optimisation is slow, and is the limit",
    ),
    of_checks("G7", "windows are too short for a law of means"),
    of_checks("G9", "other work of a build machine"),
    of_checks("G11", "probes without optimisation in a short window"),
    of_checks("G13", "tests of the same machine may trace"),
    known(
        "tls-new-connections",
        "G6",
        How::Stand,
        "one connection at a time: the time of a handshake is the client's as much as the server's",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(id: &str, status: GateStatus) -> Gate {
        Gate {
            id: id.to_owned(),
            title: String::new(),
            status,
            value: String::new(),
            limit: String::new(),
            fix: "as published: what it did".to_owned(),
        }
    }

    /// What is allowed says why by itself; what refuses has to be known, of the scenario, or in a check.
    #[test]
    fn refusals_need_a_reason() {
        let as_published = gate("G2", GateStatus::Allowed);
        assert!(
            why("static-1b", &as_published, false)
                .unwrap()
                .contains("what it did")
        );
        let refused = |id| gate(id, GateStatus::Refuse);
        assert_eq!(why("cache-hello", &refused("G1"), true), None);
        assert_eq!(why("static-1b", &refused("G9"), false), None);
        assert!(why("static-1b", &refused("G9"), true).is_some());
        assert!(why("tls-new-connections", &refused("G6"), false).is_some());
        assert_eq!(why("static-1b", &refused("G6"), false), None);
    }
}

//! The checks that can refuse a comparison: what was measured, the limit, and what to change.
//!
//! A gate that cannot be evaluated is `not_measured`, which is never the same as ok. Parity of the
//! arms is in `parity` and `protocol`, the health of the measurement in `health`, `saturation`,
//! `accounting`, `machine` and `control`.

mod accounting;
mod control;
mod health;
mod machine;
mod parity;
mod protocol;
mod saturation;

use recording::{Gate, GateStatus, Recording, Unfair};

use crate::join::ArmFigures;

pub(crate) use control::half_width;
pub(crate) use machine::{foreign_time, machine_busy, pinned_apart};
pub(crate) use parity::{differing_settings, header_differences, settings};
pub(crate) use saturation::{
    Saturation, ceiling_share, client_busy, cpu_count, saturation, server_busy,
};

/// Every gate, in the order of its number. A gate that would refuse and whose id is in `allowed`
/// gets the status `allowed` instead; and so does one that the scenario repeats a publication in,
/// with what that did instead of what to change.
pub fn evaluate(recording: &Recording, figures: &[ArmFigures], allowed: &[String]) -> Vec<Gate> {
    let mut gates = vec![
        parity::response_equality(recording),
        protocol::tls(recording),
        protocol::protocol(recording),
        parity::keep_alive(recording),
        health::errors(recording),
        saturation::client_saturation(recording),
        accounting::littles_law(recording),
        accounting::server_count(recording),
        machine::foreign_cpu(recording),
        control::a_a_control(recording),
        health::probe_cost(recording),
        health::lost_events(figures),
        machine::tracers(recording),
        parity::tuning(recording),
    ];
    gates.extend(parity::one_kernel(recording));
    let scenario = recording.scenario.as_ref();
    let unfair = scenario.map_or(&[][..], |scenario| &scenario.unfair);
    for gate in &mut gates {
        if gate.status != GateStatus::Refuse {
            continue;
        }
        let mut published = unfair.iter();
        let published = published.find(|unfair| unfair.gate.as_deref() == Some(&gate.id));
        if let Some(Unfair { what, .. }) = published {
            gate.status = GateStatus::Allowed;
            gate.fix = format!("as published: {what}");
        } else if allowed.iter().any(|id| id.eq_ignore_ascii_case(&gate.id)) {
            gate.status = GateStatus::Allowed;
        }
    }
    gates
}

/// Lost events as a share of all events above which counts per request are not shown.
pub const LOST_SHARE_LIMIT: f64 = 1e-5;

/// Failed requests as a share of all finished ones above which a comparison is refused.
pub const ERROR_SHARE_LIMIT: f64 = 1e-4;

/// Share of its CPUs from which a server is limited by them, whatever the client does.
pub const SERVER_SATURATED: f64 = 0.97;

/// Share of one CPU from which a client thread may be the limiter.
pub const CLIENT_SATURATED: f64 = 0.9;

/// Share below which neither side of a closed loop is busy, so that something else is the limiter.
pub const NEITHER_BUSY: f64 = 0.8;

/// What a gate found.
struct Finding {
    status: GateStatus,
    value: String,
    fix: String,
}

impl Finding {
    fn ok(value: String) -> Self {
        Self {
            status: GateStatus::Ok,
            value,
            fix: String::new(),
        }
    }

    fn warn(value: String, fix: &str) -> Self {
        Self {
            status: GateStatus::Warn,
            value,
            fix: fix.to_owned(),
        }
    }

    fn refuse(value: String, fix: String) -> Self {
        Self {
            status: GateStatus::Refuse,
            value,
            fix,
        }
    }

    fn not_measured(why: &str, fix: &str) -> Self {
        Self {
            status: GateStatus::NotMeasured,
            value: why.to_owned(),
            fix: fix.to_owned(),
        }
    }

    fn gate(self, id: &str, title: &str, limit: &str) -> Gate {
        Gate {
            id: id.to_owned(),
            title: title.to_owned(),
            status: self.status,
            value: self.value,
            limit: limit.to_owned(),
            fix: self.fix,
        }
    }
}

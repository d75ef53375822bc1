//! How much of a ratio counts can explain, and whether the trace was part of what it measured.

use recording::StatementKind::{Bound, Follows, Suspicion};
use recording::{ExaminedServer, Statement};

use super::calls::{OPENS, STATS, Shape};
use super::{grouped, percent, time};
use crate::autopsy::{refusing, statement};

/// All rules over a pair.
pub(super) fn rules(a: &ExaminedServer, b: &ExaminedServer) -> Vec<Statement> {
    let (Some(a), Some(b)) = (Traced::of(a), Traced::of(b)) else {
        return Vec::new();
    };
    let (fast, slow) = if a.rate_rps >= b.rate_rps {
        (a, b)
    } else {
        (b, a)
    };
    let mut found = Vec::new();
    found.extend(explained(&fast, &slow));
    found.extend(in_time(&fast, &slow));
    found.extend(contamination(&fast, &slow));
    found
}

/// A server of which both a rate and a table of calls are known.
struct Traced<'a> {
    server: &'a ExaminedServer,
    rate_rps: f64,
    duration_s: Option<f64>,
    shape: Shape<'a>,
    calls_per_response: f64,
}

impl<'a> Traced<'a> {
    fn of(server: &'a ExaminedServer) -> Option<Self> {
        let load = server.loads.iter().find(|load| load.rate_rps > 0.0)?;
        let shape = Shape::first(server)?;
        Some(Self {
            server,
            rate_rps: load.rate_rps,
            duration_s: load.duration_s,
            shape,
            calls_per_response: shape.all_calls() as f64 / shape.responses as f64,
        })
    }

    fn each_s(&self) -> f64 {
        1.0 / self.rate_rps
    }
}

fn explained(fast: &Traced<'_>, slow: &Traced<'_>) -> Option<Statement> {
    let rates = (fast.rate_rps / slow.rate_rps).ln();
    let counts = (slow.calls_per_response / fast.calls_per_response).ln();
    // Of servers that are equally fast nothing is to be explained.
    (rates > 0.05).then(|| {
        let share = (counts / rates).max(0.0);
        let text = if counts > 0.0 {
            format!(
                "counts explain at most {} of the ratio: ln({:.0}/{:.0}) = {rates:.3}, and ln({:.3}/{:.3} calls for each \
                 response) = {counts:.3} at equal cost of a call; for the rest each call of {} would have to cost \
                 {:.1} times one of {}",
                percent(share.min(1.0)),
                fast.rate_rps,
                slow.rate_rps,
                slow.calls_per_response,
                fast.calls_per_response,
                slow.server.name,
                (rates - counts).exp(),
                fast.server.name
            )
        } else {
            format!(
                "counts explain nothing of the ratio: {} makes {:.3} calls for each response and {} {:.3}",
                slow.server.name, slow.calls_per_response, fast.server.name, fast.calls_per_response
            )
        };
        statement("counts-explain", Bound, &[fast.server, slow.server], text)
    })
}

fn in_time(fast: &Traced<'_>, slow: &Traced<'_>) -> Option<Statement> {
    let gap_s = slow.each_s() - fast.each_s();
    let extra = slow.shape.opens_files() && !fast.shape.opens_files();
    let opened = slow.shape.per_response(&OPENS)
        + slow.shape.per_response(&STATS)
        + 2.0 * slow.shape.per_response(&OPENS);
    (extra && gap_s > 0.0).then(|| {
        let each_s = gap_s / opened;
        let judged = if each_s > WARM_CALL_S {
            format!(
                "; calls on cached files cost about a microsecond, so that {} is slower because it opens the file \
                 each time is not supported",
                slow.server.name
            )
        } else {
            String::new()
        };
        let text = format!(
            "{} and {} for each response, {} apart: the {opened:.0} file calls would have to cost {} each{judged}",
            time(fast.each_s()),
            time(slow.each_s()),
            time(gap_s),
            time(each_s)
        );
        statement("file-calls-cost", Bound, &[fast.server, slow.server], text)
    })
}

/// A trace that saw as many responses as the whole run had is likely to have been on during it.
fn contamination(fast: &Traced<'_>, slow: &Traced<'_>) -> Vec<Statement> {
    let mut found = Vec::new();
    for (traced, other) in [(slow, fast), (fast, slow)] {
        let traced_s = traced.shape.responses as f64 / traced.rate_rps;
        let Some(duration_s) = traced.duration_s else {
            continue;
        };
        if (traced_s / duration_s - 1.0).abs() > COINCIDENCE {
            let text = format!(
                "{} responses at {:.0}/s are {}: the trace covers a part of a run, and not the window of the rate",
                grouped(traced.shape.responses),
                traced.rate_rps,
                time(traced_s)
            );
            found.push(statement("other-window", Follows, &[traced.server], text));
            continue;
        }
        let gap_s = traced.each_s() - other.each_s();
        let cost_s = gap_s / traced.calls_per_response;
        let parity = if gap_s > 0.0 && cost_s < PTRACE_WORST_S {
            let taxed_s =
                other.shape.responses as f64 * (other.each_s() + cost_s * other.calls_per_response);
            format!(
                "; at {} for each traced call, which ptrace is known to cost, the whole gap of {} would be the \
                 tracer and both equally fast, and the {} traced responses of {} would take {}",
                time(cost_s),
                time(gap_s),
                grouped(other.shape.responses),
                other.server.name,
                time(taxed_s)
            )
        } else {
            String::new()
        };
        let text = format!(
            "{} traced responses at {:.0}/s are {}, the length of the run ({}): either the trace slowed \
             the server and lasted longer, or the rate itself was measured under it{parity}",
            grouped(traced.shape.responses),
            traced.rate_rps,
            time(traced_s),
            time(duration_s)
        );
        let suspicion = statement("contamination", Suspicion, &[traced.server], text);
        found.push(refusing(suspicion, "tracing contamination suspected"));
    }
    found
}

/// A call on a cached file costs less.
const WARM_CALL_S: f64 = 5e-6;
/// Gregg's measurement of strace in 2014: 45.86 s more for 1,024,000 calls.
const PTRACE_WORST_S: f64 = 45.86 / 1_024_000.0;
/// How near the lengths have to be.
const COINCIDENCE: f64 = 0.05;

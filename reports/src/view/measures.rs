//! What a load says beyond its account: schedule, phases, connections over time, classes, the search
//! for a rate, and who limited it.

use std::fmt::Write as _;

use recording::{
    ClassResult, LatencyHistogram, LimitedBy, Load, LoadMeasures, ScheduleKept, Search, Trial,
};

use super::load::latency;
use super::{Line, name, sentence};
use crate::figures::{grouped, percent, rate, span};
use crate::layout::{Tone, WRITES};

/// Where the latency of a load begins.
pub(super) fn latency_begins(load: &Load) -> &'static str {
    let schedule = load
        .measures
        .as_ref()
        .and_then(|measures| measures.schedule.as_ref());
    match schedule {
        Some(_) => "from when a request was due to its last byte read",
        None => "first byte written to last byte read",
    }
}

/// What there is to say; nothing in recordings of versions that did not measure it.
pub(super) fn lines(load: &Load) -> Vec<Line> {
    let Some(measures) = &load.measures else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    lines.extend(latency(
        "service",
        measures.phases.service.as_ref(),
        "first byte written to last byte read",
    ));
    lines.extend(measures.schedule.as_ref().map(schedule));
    lines.extend(phases(measures));
    lines.extend(measures.search.iter().flat_map(search));
    lines.extend(measures.classes.iter().map(class));
    lines.extend(alive(load, measures));
    lines.extend(unfinished(load, measures));
    lines.extend(client(load, measures));
    lines.push(limiter(measures));
    lines
}

fn schedule(kept: &ScheduleKept) -> Line {
    let mut text = format!(
        "{} of {} req/s asked ({}); {} due, {} dropped",
        rate(kept.achieved_rps),
        rate(kept.asked_rps),
        percent(kept.share()),
        grouped(kept.due),
        grouped(kept.dropped)
    );
    if let Some(lag) = quantiles(kept.lag.as_ref()) {
        write!(text, "; written late by {lag}").expect(WRITES);
    }
    let is_kept = kept.share() >= KEPT_SHARE && kept.dropped == 0;
    Line {
        label: "schedule",
        text,
        tone: (!is_kept).then_some(Tone::Caution),
    }
}

/// Median, 99th percentile and largest value.
fn quantiles(stored: Option<&LatencyHistogram>) -> Option<String> {
    let histogram = stored?.to_hdr().ok()?;
    let at = |quantile| span(histogram.value_at_quantile(quantile) as f64);
    Some(format!(
        "p50 {}, p99 {}, max {}",
        at(0.5),
        at(0.99),
        at(1.0)
    ))
}

fn phases(measures: &LoadMeasures) -> Option<Line> {
    let phases = &measures.phases;
    let parts: Vec<String> = [
        ("first byte", &phases.first_byte),
        ("receive", &phases.receive),
    ]
    .into_iter()
    .filter_map(|(what, stored)| Some(format!("{what} {}", quantiles(stored.as_ref())?)))
    .collect();
    (!parts.is_empty()).then(|| Line::new("phases", parts.join("; ")))
}

fn search(search: &Search) -> Vec<Line> {
    let limit = sentence(&search.limit);
    let found = match search.highest_rps {
        Some(highest) => Line::toned(
            "highest",
            format!("{} req/s kept {limit}", rate(highest)),
            Tone::Good,
        ),
        None => Line::toned("highest", format!("no rate kept {limit}"), Tone::Bad),
    };
    let trials = search.trials.iter().map(trial);
    std::iter::once(found).chain(trials).collect()
}

fn trial(trial: &Trial) -> Line {
    let figure = trial
        .figure_ns
        .map_or_else(|| "-".to_owned(), |ns| span(ns as f64));
    let verdict = match &trial.why {
        None => "kept".to_owned(),
        Some(why) => sentence(why),
    };
    Line::new(
        "trial",
        format!("{} req/s: {figure}, {verdict}", rate(trial.rate_rps)),
    )
}

fn class(class: &ClassResult) -> Line {
    let ledger = &class.ledger;
    let failed = ledger.failed_total();
    let mut text = format!(
        "{}: {} sent, {} ok, {} failed",
        name(&class.name),
        grouped(ledger.sent),
        grouped(ledger.ok),
        grouped(failed)
    );
    if let Some(latency) = quantiles(class.latency.as_ref()) {
        write!(text, "; {latency}").expect(WRITES);
    }
    Line {
        label: "class",
        text,
        tone: (failed > 0).then_some(Tone::Bad),
    }
}

/// Connections over time, and how evenly they answered.
fn alive(load: &Load, measures: &LoadMeasures) -> Option<Line> {
    let live = measures.live_connections?;
    let mut text = format!(
        "{live:.2} of {} connections on average",
        load.connections.asked
    );
    if let Some(spread) = measures.responses_per_connection {
        write!(
            text,
            "; responses per connection {} to {}, mean {:.1}",
            rate(spread.min),
            rate(spread.max),
            spread.mean
        )
        .expect(WRITES);
    }
    if measures.connects_delayed > 0 {
        write!(
            text,
            "; {} waited for the connection rate",
            grouped(measures.connects_delayed)
        )
        .expect(WRITES);
    }
    let is_short = live < ALIVE_SHARE * f64::from(load.connections.asked);
    Some(Line {
        label: "alive",
        text,
        tone: is_short.then_some(Tone::Caution),
    })
}

fn unfinished(load: &Load, measures: &LoadMeasures) -> Option<Line> {
    let left = &measures.unfinished;
    let ages = quantiles(left.age.as_ref())?;
    Some(Line::new(
        "pending",
        format!(
            "{} when the window closed, aged {ages}; {} answered later, {} failed, {} given up",
            grouped(load.ledger.unfinished),
            grouped(left.drained_ok),
            grouped(left.drained_failed),
            grouped(left.aborted)
        ),
    ))
}

/// What kept the client from sending in time.
fn client(load: &Load, measures: &LoadMeasures) -> Option<Line> {
    let mut parts = Vec::new();
    if let Some(lag) = quantiles(measures.loop_lag.as_ref()) {
        parts.push(format!("a turn of its loop took {lag}"));
    }
    if let Some(queued_ns) = measures.run_queue_ns {
        let window_ns = load.window.length_ns().max(1) as f64;
        parts.push(format!(
            "its threads waited for a CPU for {} ({} of the window)",
            span(queued_ns as f64),
            percent(queued_ns as f64 / window_ns)
        ));
    }
    if measures.hashed_bodies > 0 {
        parts.push(format!("{} bodies hashed", grouped(measures.hashed_bodies)));
    }
    (!parts.is_empty()).then(|| Line::new("loop", parts.join("; ")))
}

fn limiter(measures: &LoadMeasures) -> Line {
    let who = match measures.limiter.who {
        LimitedBy::Client => "the client",
        LimitedBy::Connections => "the number of connections",
        LimitedBy::Rate => "the asked rate",
        LimitedBy::Server => "the server",
        LimitedBy::Unknown => "unknown",
    };
    let text = format!("{who}: {}", sentence(&measures.limiter.why));
    let is_ours = measures.limiter.who == LimitedBy::Client;
    Line {
        label: "limiter",
        text,
        tone: is_ours.then_some(Tone::Caution),
    }
}

/// Less than this is worth a look.
const KEPT_SHARE: f64 = 0.98;
const ALIVE_SHARE: f64 = 0.95;

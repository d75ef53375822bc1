//! Every round in figures, with the boxes that leave one out, and the recording to take away.

use maud::{Markup, html};
use recording::{Probes, Recording, Round, RoundRole};

use crate::figures::{counted, micros, percent, rate, rounded, span};
use crate::metrics::{Metric, is_good};
use crate::view::{self, ABSENT, or_absent};

/// The table of rounds.
pub(super) fn rounds(recording: &Recording) -> Markup {
    let header = [
        "use",
        "pair",
        "arm",
        "role",
        "req/s",
        "CPU µs/req",
        "p50",
        "p99",
        "failed requests",
        "client busy",
        "why not used",
    ];
    let hidden = recording.rounds.len().saturating_sub(ROWS);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Rounds" {
            table #rounds-table {
                caption { "Rounds, in the order in which they ran" }
                thead {
                    tr {
                        @for (column, title) in header.iter().enumerate() {
                            th scope="col" class=(if TEXT.contains(&column) { "text" } else { "figure" }) { (title) }
                        }
                    }
                }
                tbody { @for round in recording.rounds.iter().take(ROWS) { (row(round)) } }
            }
        }
        @if hidden > 0 { p.small { (counted(hidden, "round")) " more in the recording" } }
    }
}

/// The recording, to be saved.
pub(super) fn raw(recording: &Recording) -> Markup {
    html! {
        p {
            "The recording itself, all that was measured, is inside this page (see its end for what a large one leaves out): "
            (counted(recording.rounds.len(), "round")) ", schema " (view::name(&recording.schema))
            ". Every figure above is computed from it, and "
            code { "whyfast report" } " computes it again."
        }
        p {
            button #save type="button" hidden { "Save the recording (JSON)" }
            noscript { "Saving it takes JavaScript, or a shell:" }
        }
        pre tabindex="0" {
            "grep -o '<script id=\"recording\"[^<]*' report.html | sed 's/.*>//' | base64 -d | gunzip > recording.json"
        }
        @if !recording.command.is_empty() {
            p { "It was made by:" }
            pre tabindex="0" { (crate::clean::clean(&recording.command.join(" "))) }
        }
    }
}

fn row(round: &Round) -> Markup {
    let figure = |metric: Metric, print: fn(f64) -> String| or_absent(metric.of(round), print);
    let load = round.load.as_ref();
    let failed = or_absent(load, |load| rounded(load.ledger.failed_total() as f64));
    let client = or_absent(load, |load| percent(load.busiest_thread_share));
    let reason = round.failed.as_ref().or(round.excluded.as_ref());
    let label = format!("use round {}", round.order + 1);
    html! {
        tr data-round=(round.order) {
            td.text {
                input type="checkbox" aria-label=(label) value=(round.order) checked[is_good(round)] disabled
                    data-good[is_good(round)];
            }
            td.figure { (round.pair + 1) }
            th scope="row" { @if round.arm.is_empty() { (ABSENT) } @else { (view::name(&round.arm)) } }
            td.text { (purpose(round)) }
            td.figure { (figure(Metric::Throughput, rate)) }
            td.figure { (figure(Metric::ServerCpu, micros)) }
            td.figure { (figure(Metric::LatencyP50, span)) }
            td.figure { (figure(Metric::LatencyP99, span)) }
            td.figure { (failed) }
            td.figure { (client) }
            td.text { (reason.map_or_else(String::new, |why| view::sentence(why))) }
        }
    }
}

fn purpose(round: &Round) -> String {
    let probes = match round.probes {
        Probes::On => ", probed",
        Probes::Off => "",
    };
    let role = match round.role {
        RoundRole::Main => "main".to_owned(),
        RoundRole::Aa => "A/A control".to_owned(),
        RoundRole::EqualRate { rate_rps } => format!("{} req/s", rounded(rate_rps)),
        RoundRole::MoreConnections { connections } => counted(connections as usize, "connection"),
        RoundRole::NullServer => "client alone".to_owned(),
    };
    format!("{role}{probes}")
}

/// Columns with text.
const TEXT: [usize; 4] = [0, 2, 3, 10];
/// Rounds with a row.
const ROWS: usize = 1000;

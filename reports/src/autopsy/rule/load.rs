//! Runs of load generators: errors, requests in flight, and what the client itself did.

use recording::StatementKind::{Follows, Suspicion};
use recording::{ExaminedServer, ForeignLoad, Statement};

use super::calls::{OPENS, Shape};
use super::{add_few, grouped, percent, rounded, time};
use crate::autopsy::{refusing, statement};

/// All rules over the runs of one server.
pub(super) fn rules(server: &ExaminedServer) -> Vec<Statement> {
    let mut found: Vec<Statement> = runs(server).into_iter().collect();
    found.extend(failed_opens(server));
    let rules = [
        arithmetic,
        errors,
        beyond_the_limit,
        in_flight,
        one_at_a_time,
        spread,
        spinning,
    ];
    for rule in rules {
        add_few(
            &mut found,
            server.loads.iter().filter_map(|load| rule(server, load)),
        );
    }
    found
}

fn runs(server: &ExaminedServer) -> Option<Statement> {
    let conditions = crate::autopsy::servers::by_condition(server);
    let (condition, rates) = conditions.iter().max_by_key(|(_, rates)| rates.len())?;
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let text = match rates.len() {
        1 => {
            return Some(statement(
                "one-run",
                Follows,
                &[server],
                format!(
                    "one run of each load: {}; no interval can be given",
                    rates_of(&conditions)
                ),
            ));
        }
        runs => {
            let (low, high) = rates
                .iter()
                .fold((f64::MAX, 0.0_f64), |(low, high), &rate| {
                    (low.min(rate), high.max(rate))
                });
            format!(
                "{runs} runs ({condition}): {mean:.1} responses/s on average, {low:.1} to {high:.1}"
            )
        }
    };
    Some(statement("runs", Follows, &[server], text))
}

fn rates_of(
    conditions: &std::collections::BTreeMap<crate::autopsy::servers::Condition, Vec<f64>>,
) -> String {
    let each: Vec<String> = conditions
        .values()
        .filter_map(|rates| Some(format!("{:.1}", rates.first()?)))
        .collect();
    format!("{} responses/s", each.join(", "))
}

/// Opens that failed beside reads that failed, with no status that says so.
fn failed_opens(server: &ExaminedServer) -> Option<Statement> {
    let shape = Shape::first(server).filter(Shape::opens_files)?;
    let failed = shape.sum(&OPENS).errors;
    let read_errors = server
        .loads
        .iter()
        .filter_map(|load| load.failures.get("read"))
        .sum::<u64>();
    let statuses = server
        .loads
        .iter()
        .any(|load| load.failures.contains_key("status"));
    let failing = failed as f64 / shape.responses as f64;
    (failing > ERRORS_ALLOWED).then(|| {
        let beside = if read_errors > 0 && !statuses {
            format!(
                " beside {} read errors of the client and no status other than 2xx and 3xx: probably dropped \
                 connections, not error responses",
                grouped(read_errors)
            )
        } else {
            String::new()
        };
        let text = format!("{} of {} opens failed ({}){beside}", grouped(failed), grouped(shape.sum(&OPENS).calls), percent(failing));
        let statement = statement("failed-opens", Suspicion, &[server], text);
        refusing(statement, &format!("error rate {}", percent(failing)))
    })
}

/// Responses over the duration are the rate, but for rounding.
fn arithmetic(server: &ExaminedServer, load: &ForeignLoad) -> Option<Statement> {
    let expected = load.responses? as f64 / load.duration_s.filter(|duration| *duration > 0.0)?;
    let off = expected / load.rate_rps - 1.0;
    (off.abs() > ROUNDING).then(|| {
        let text = format!(
            "line {}: {} responses in {} are {expected:.1} per second, and {:.1} is printed",
            load.line,
            grouped(load.responses.unwrap_or_default()),
            time(load.duration_s.unwrap_or_default()),
            load.rate_rps
        );
        let statement = statement("rate", Suspicion, &[server], text);
        refusing(statement, "printed rates do not follow from the counts")
    })
}

fn errors(server: &ExaminedServer, load: &ForeignLoad) -> Option<Statement> {
    let failed: u64 = load.failures.values().sum();
    let share = failed as f64 / (load.responses? as f64).max(1.0);
    (share > ERRORS_ALLOWED).then(|| {
        let each: Vec<String> = load.failures.iter().map(|(word, n)| format!("{word} {}", grouped(*n))).collect();
        let text = format!(
            "line {}: {} beside {} responses ({}); errors are no throughput, and more than {} forbids a comparison (G5)",
            load.line,
            each.join(", "),
            grouped(load.responses.unwrap_or_default()),
            percent(share),
            percent(ERRORS_ALLOWED)
        );
        let statement = statement("errors", Follows, &[server], text);
        refusing(statement, &format!("{} of {} failed", percent(share), server.name))
    })
}

/// wrk counts a response above its limit as a timeout and as a request, and keeps its latency.
fn beyond_the_limit(server: &ExaminedServer, load: &ForeignLoad) -> Option<Statement> {
    let timeouts = load.failures.get("timeout").copied().unwrap_or(0);
    let max_s = load.latency_max_s?;
    (load.tool == "wrk" && timeouts > 0 && max_s > WRK_TIMEOUT_S).then(|| {
        let text = format!(
            "line {}: a largest latency of {} above the limit of 2 s, with {} timeouts: this wrk records replies \
             that came too late, so what it counts are not requests that were served in time",
            load.line,
            time(max_s),
            grouped(timeouts)
        );
        statement("late-replies", Follows, &[server], text)
    })
}

/// Little's law: what is in flight is the rate times the latency.
fn in_flight(server: &ExaminedServer, load: &ForeignLoad) -> Option<Statement> {
    // Where a new connection is opened for each few requests, its time is not in the latency.
    let kept = load.requests_per_connection.is_none();
    let asked = load.connections? * load.streams.unwrap_or(1);
    let latency_s = load.latency_mean_s?;
    let in_flight = load.rate_rps * latency_s;
    (kept && asked > 1 && in_flight < 0.8 * asked as f64).then(|| {
        let shape = Shape::first(server);
        let select = shape.is_some_and(|shape| shape.poller() == Some("select"));
        let near = (in_flight / SELECT_DESCRIPTORS - 1.0).abs() < 0.15;
        let starved = if select && near {
            ", which is near select's 1,024 descriptors: fits a poller that cannot see the rest, not proven"
        } else {
            ""
        };
        let text = format!(
            "line {}: {:.0} responses/s × {} = {} in flight, of {} that the client keeps open (G7){starved}",
            load.line,
            load.rate_rps,
            time(latency_s),
            rounded(in_flight),
            grouped(asked)
        );
        statement("little", Follows, &[server], text)
    })
}

fn one_at_a_time(server: &ExaminedServer, load: &ForeignLoad) -> Option<Statement> {
    let each_s = 1.0 / load.rate_rps;
    (load.connections == Some(1) && load.requests_per_connection == Some(1)).then(|| {
        let connect = load.connect_mean_s.map_or(String::new(), |connect_s| {
            format!(", of which {} ({}) are to connect, handshake included", time(connect_s), percent(connect_s / each_s))
        });
        let text = format!(
            "line {}: one connection at a time with one request: {:.1}/s is the reciprocal of {}{connect}; it says \
             nothing about how much the server can do",
            load.line,
            load.rate_rps,
            time(each_s)
        );
        statement("one-at-a-time", Follows, &[server], text)
    })
}

/// Connections that were served very differently.
fn spread(server: &ExaminedServer, load: &ForeignLoad) -> Option<Statement> {
    let rates = load.connection_rate.filter(|rates| rates.min > 0.0)?;
    let factor = rates.max / rates.min;
    (factor > UNEQUAL).then(|| {
        let sum = load.connections.map_or(String::new(), |connections| {
            format!(
                "; {} connections times that mean are {:.0}/s, and {:.0}/s were served: those that were served \
                 first were done long before the last",
                grouped(connections),
                rates.mean * connections as f64,
                load.rate_rps
            )
        });
        let text = format!(
            "line {}: connections got {:.0} to {:.0} responses/s (mean {:.0}, deviation {:.0}){sum}",
            load.line, rates.min, rates.max, rates.mean, rates.sd
        );
        statement("unequal-connections", Follows, &[server], text)
    })
}

fn spinning(server: &ExaminedServer, load: &ForeignLoad) -> Option<Statement> {
    let share = load.client_cpu?;
    (share > 0.9).then(|| {
        let why = if load.tool == "httperf" {
            ": httperf waits by spinning, so that says nothing about who limited the run"
        } else {
            ": the client may have limited the run"
        };
        let text = format!(
            "line {}: the client used {} of a CPU{why}",
            load.line,
            percent(share)
        );
        statement("client-cpu", Follows, &[server], text)
    })
}

/// Share of errors that a comparison may have.
const ERRORS_ALLOWED: f64 = 0.0001;
/// Printed durations have few digits.
const ROUNDING: f64 = 0.02;
/// wrk's limit where none is given.
const WRK_TIMEOUT_S: f64 = 2.0;
/// `FD_SETSIZE`.
const SELECT_DESCRIPTORS: f64 = 1024.0;
/// Between the fastest connection and the slowest.
const UNEQUAL: f64 = 3.0;

//! What a run shows beyond its account: phases, how the schedule was kept, who limited the run.

use hdrhistogram::Histogram;
use recording::{
    ClassResult, HttpVersion, LatencyHistogram, LimitedBy, Limiter, LoadMeasures, Phases,
    ScheduleKept, Spread, Unfinished, Warning, Window,
};

use crate::config::Config;
use crate::observed::Observed;
use crate::outcome::Outcome;
use crate::stages::Stages;
use crate::tally::{self, Tally};
use crate::timeline::Bins;
use crate::worker::Left;

/// Puts the measures of a run together.
pub(crate) fn of(
    config: &Config,
    outcome: &Outcome,
    tally: &Tally,
    busiest_thread_share: f64,
) -> LoadMeasures {
    let window = outcome.window;
    let all = || outcome.legs.iter().map(|leg| &leg.observed);
    let schedule = schedule(config, outcome, tally);
    let responses: Vec<f64> = all().flat_map(|seen| seen.responses.clone()).collect();
    let run_queue: Option<Vec<u64>> = all().map(|seen| seen.run_queue_ns).collect();
    let run_queue_ns = run_queue.filter(|each| !each.is_empty());
    let open_ns: u128 = all().map(|seen| seen.open_ns).sum();
    let live = (window.length_ns() > 0).then(|| open_ns as f64 / window.length_ns() as f64);
    let seen = Seen {
        busiest_thread_share,
        queued_share: run_queue_ns.as_ref().map(|each| {
            let most_ns = each.iter().copied().max().unwrap_or(0);
            most_ns as f64 / window.length_ns().max(1) as f64
        }),
        connections: config.connections,
    };
    LoadMeasures {
        phases: phases(outcome, tally, service(config, tally)),
        limiter: limiter(&seen, schedule.as_ref(), service(config, tally)),
        schedule,
        live_connections: live,
        responses_per_connection: Spread::of(&responses),
        thread_rate_rps: thread_rates(&outcome.left, window),
        loop_lag: LatencyHistogram::from_hdr(&sum(all().map(|seen| &seen.loop_lag))),
        run_queue_ns: run_queue_ns.map(|each| each.iter().sum()),
        unfinished: unfinished(outcome, tally),
        classes: classes(config, tally),
        hashed_bodies: tally.hashed_bodies,
        header_field_bytes: (config.http == HttpVersion::Http1).then_some(tally.header_field_bytes),
        connects_delayed: all().map(|seen| seen.connects_delayed).sum(),
        opening_received_bytes: Some(
            outcome
                .left
                .iter()
                .map(|left| left.opening_received_bytes)
                .sum(),
        ),
        search: None,
    }
}

/// What the reader has to know before believing a latency.
pub(crate) fn warnings(measures: &LoadMeasures, window: Window) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(schedule) = &measures.schedule
        && schedule.share() < KEPT_SHARE
    {
        warnings.push(Warning {
            code: "rate_not_reached".to_owned(),
            text: format!(
                "achieved {:.1} % of the asked rate ({:.1} of {:.1} requests/s, {} of {} due ones never sent): {}",
                schedule.share() * 100.0,
                schedule.achieved_rps,
                schedule.asked_rps,
                schedule.dropped,
                schedule.due,
                measures.limiter.why
            ),
        });
    }
    let queued = measures
        .run_queue_ns
        .map(|queued_ns| queued_ns as f64 / window.length_ns().max(1) as f64);
    if let Some(queued) = queued.filter(|&share| share > CLIENT_QUEUED_SHARE) {
        warnings.push(Warning {
            code: "client_waited_for_cpu".to_owned(),
            text: format!(
                "client threads were ready to run and had no CPU for {:.0} % of the window in all, which is in the \
                 latencies: give them CPUs of their own (`taskset`)",
                queued * 100.0
            ),
        });
    }
    warnings
}

/// The time of requests from their first write.
fn service<'a>(config: &Config, tally: &'a Tally) -> &'a Histogram<u64> {
    if config.shape.is_open_loop() {
        &tally.service
    } else {
        &tally.latency
    }
}

#[expect(
    single_use_lifetimes,
    reason = "an anonymous lifetime in impl Trait is unstable"
)]
fn sum<'a>(parts: impl Iterator<Item = &'a Histogram<u64>>) -> Histogram<u64> {
    let mut sum = LatencyHistogram::recorder();
    for part in parts {
        tally::add(&mut sum, part);
    }
    sum
}

fn phases(outcome: &Outcome, tally: &Tally, service: &Histogram<u64>) -> Phases {
    // What came in one read took as long to its first byte as to its last one.
    let mut first_byte = service.clone();
    first_byte
        .subtract(&tally.split.service)
        .expect("what came in several reads is a part of all");
    let at_once = first_byte.len();
    tally::add(&mut first_byte, &tally.split.first_byte);
    let mut receive = tally.split.receive.clone();
    receive
        .record_n(0, at_once)
        .expect("a resizing histogram takes every value");
    let run = |part: fn(&Observed) -> &Histogram<u64>| {
        let parts = outcome.legs.iter().map(|leg| part(&leg.observed));
        LatencyHistogram::from_hdr(&sum(parts))
    };
    Phases {
        resolve_ns: outcome.resolve_ns,
        connect: run(|seen| &seen.connect),
        tls: None,
        open: run(|seen| &seen.open_time),
        first_byte: LatencyHistogram::from_hdr(&first_byte),
        receive: LatencyHistogram::from_hdr(&receive),
        service: LatencyHistogram::from_hdr(&tally.service),
        connection_first_byte: run(|seen| &seen.connection_first_byte),
        connection_life: run(|seen| &seen.life),
    }
}

fn schedule(config: &Config, outcome: &Outcome, tally: &Tally) -> Option<ScheduleKept> {
    if !config.shape.is_open_loop() {
        return None;
    }
    let length_ns = outcome.window.length_ns();
    let seconds = outcome.window.seconds();
    let asked = Stages::new(&config.shape.rates).sum(length_ns);
    let per_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
    let count = |part: fn(&Observed) -> u64| -> u64 {
        outcome.legs.iter().map(|leg| part(&leg.observed)).sum()
    };
    Some(ScheduleKept {
        due: count(|seen| seen.due),
        dropped: count(|seen| seen.dropped),
        lag: LatencyHistogram::from_hdr(&tally.lag),
        asked_rps: per_second(asked),
        achieved_rps: per_second(tally.ledger.sent as f64),
    })
}

fn unfinished(outcome: &Outcome, tally: &Tally) -> Unfinished {
    let ages = sum(outcome.legs.iter().map(|leg| &leg.observed.ages));
    let drained = outcome.drained;
    Unfinished {
        age: LatencyHistogram::from_hdr(&ages),
        drained_ok: drained.ok,
        drained_failed: drained.failed,
        aborted: tally
            .ledger
            .unfinished
            .saturating_sub(drained.ok + drained.failed),
    }
}

fn classes(config: &Config, tally: &Tally) -> Vec<ClassResult> {
    let specs = config.requests.iter().zip(&tally.classes);
    let results = specs.map(|(spec, class)| ClassResult {
        name: spec.name.clone(),
        weight: spec.weight,
        ledger: class.ledger.clone(),
        latency: LatencyHistogram::from_hdr(&class.latency),
    });
    results.collect()
}

/// Completions per second of each thread in each whole tenth of a second.
fn thread_rates(threads: &[Left], window: Window) -> Option<Spread> {
    let mut rates = Vec::new();
    for bins in threads.iter().filter_map(|left| left.bins.as_ref()) {
        let Some(timeline) = Bins::merge(vec![bins.clone()]) else {
            continue;
        };
        if timeline.bin_ns > RATE_NS {
            // A run of hours has no finer figures.
            return None;
        }
        let mut at_ns = window.start_ns;
        while at_ns + RATE_NS <= window.end_ns {
            let tenth = Window {
                start_ns: at_ns,
                end_ns: at_ns + RATE_NS,
            };
            rates.push(timeline.completed_in(tenth) / tenth.seconds());
            at_ns += RATE_NS;
        }
    }
    Spread::of(&rates)
}

/// What tells who limited a run.
struct Seen {
    busiest_thread_share: f64,
    /// Time in the run queue of the thread that waited most, as a share of the window.
    queued_share: Option<f64>,
    connections: u32,
}

fn limiter(seen: &Seen, schedule: Option<&ScheduleKept>, service: &Histogram<u64>) -> Limiter {
    let busy = seen.busiest_thread_share * 100.0;
    if service.is_empty() {
        let why = "no request was ok".to_owned();
        return Limiter {
            who: LimitedBy::Unknown,
            why,
        };
    }
    if let Some(kept) = schedule.filter(|schedule| schedule.share() >= KEPT_SHARE) {
        let why = format!("{:.1} % of the asked rate was sent", kept.share() * 100.0);
        return Limiter {
            who: LimitedBy::Rate,
            why,
        };
    }
    if seen.busiest_thread_share > CLIENT_BUSY_SHARE {
        let why =
            format!("a client thread was busy for {busy:.0} % of the window: give it more threads");
        return Limiter {
            who: LimitedBy::Client,
            why,
        };
    }
    if let Some(queued) = seen
        .queued_share
        .filter(|&share| share > CLIENT_QUEUED_SHARE)
    {
        let why = format!(
            "a client thread waited for a CPU for {:.0} % of the window: give it CPUs of its own",
            queued * 100.0
        );
        return Limiter {
            who: LimitedBy::Client,
            why,
        };
    }
    waiting(seen, schedule.is_some(), service)
}

/// The client had time left, so its requests waited for responses.
fn waiting(seen: &Seen, is_open_loop: bool, service: &Histogram<u64>) -> Limiter {
    let busy = seen.busiest_thread_share * 100.0;
    let (fastest, middle) = (service.min(), service.value_at_quantile(0.5));
    let connections = seen.connections;
    let queues = middle as f64 > fastest as f64 * QUEUEING_RATIO;
    if is_open_loop && !queues {
        let why = format!(
            "all of {connections} connections were busy, and responses took about as long as the fastest one: \
             more connections can give more"
        );
        return Limiter {
            who: LimitedBy::Connections,
            why,
        };
    }
    let why = format!(
        "{connections} connections waited for responses while the client was busy for {busy:.0} % of the window"
    );
    Limiter {
        who: LimitedBy::Server,
        why,
    }
}

/// From this share on a rate counts as kept; less is more than the jitter of a short run.
const KEPT_SHARE: f64 = 0.98;
/// Above this share of its window a thread has hardly waited for anybody.
const CLIENT_BUSY_SHARE: f64 = 0.9;
/// Above this share of its window the wait for a CPU shows in every latency.
const CLIENT_QUEUED_SHARE: f64 = 0.2;
/// Where the median is so many times the fastest response, responses wait for each other.
const QUEUEING_RATIO: f64 = 3.0;
/// As often as wrk takes its rate.
const RATE_NS: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(busy: f64, queued: Option<f64>) -> Seen {
        Seen {
            busiest_thread_share: busy,
            queued_share: queued,
            connections: 4,
        }
    }

    fn kept(sent: u64) -> ScheduleKept {
        ScheduleKept {
            due: 100,
            dropped: 100 - sent,
            lag: None,
            asked_rps: 100.0,
            achieved_rps: sent as f64,
        }
    }

    fn times(values_ms: &[u64]) -> Histogram<u64> {
        let mut histogram = LatencyHistogram::recorder();
        for value in values_ms {
            tally::record(&mut histogram, value * 1_000_000);
        }
        histogram
    }

    /// Waits for a CPU are said, however well the rate was kept.
    #[test]
    fn waits_for_a_cpu_are_said() {
        let window = Window {
            start_ns: 0,
            end_ns: 1_000_000_000,
        };
        let said = |run_queue_ns| {
            let measures = LoadMeasures {
                phases: Phases::default(),
                schedule: Some(kept(100)),
                live_connections: None,
                responses_per_connection: None,
                thread_rate_rps: None,
                loop_lag: None,
                run_queue_ns,
                limiter: limiter(&seen(0.1, None), Some(&kept(100)), &times(&[1])),
                unfinished: Unfinished::default(),
                classes: Vec::new(),
                hashed_bodies: 0,
                header_field_bytes: None,
                connects_delayed: 0,
                opening_received_bytes: None,
                search: None,
            };
            let warnings = warnings(&measures, window);
            warnings
                .into_iter()
                .map(|warning| warning.code)
                .collect::<Vec<_>>()
        };
        assert_eq!(said(Some(500_000_000)), ["client_waited_for_cpu"]);
        assert_eq!(said(Some(10_000_000)), [""; 0]);
        assert_eq!(said(None), [""; 0]);
    }

    /// Who limits a run, by what was seen.
    #[test]
    fn limiter_is_named() {
        let (even, queueing) = (times(&[10, 10, 11]), times(&[1, 10, 11]));
        let check = |seen: Seen, schedule: Option<ScheduleKept>, service, wanted| {
            let found = limiter(&seen, schedule.as_ref(), service);
            assert_eq!(found.who, wanted, "{}", found.why);
        };
        check(seen(0.1, None), Some(kept(99)), &even, LimitedBy::Rate);
        check(seen(0.95, None), Some(kept(99)), &even, LimitedBy::Rate);
        check(seen(0.95, None), Some(kept(50)), &even, LimitedBy::Client);
        check(seen(0.95, None), None, &queueing, LimitedBy::Client);
        check(seen(0.5, Some(0.4)), None, &queueing, LimitedBy::Client);
        check(seen(0.5, Some(0.01)), None, &queueing, LimitedBy::Server);
        check(
            seen(0.1, None),
            Some(kept(50)),
            &even,
            LimitedBy::Connections,
        );
        check(
            seen(0.1, None),
            Some(kept(50)),
            &queueing,
            LimitedBy::Server,
        );
        check(seen(0.1, None), None, &times(&[]), LimitedBy::Unknown);
    }
}

//! Recordings as comma-separated values (RFC 4180): the slices of a load, the rounds of a comparison, the
//! system calls of every profiled round, the slices of a profile as they are taken ([`series`]). What was not
//! measured is empty.

pub mod series;

use std::fmt::Write as _;

use recording::{LatencyHistogram, Load, Probes, Recording, Round, RoundRole};

use crate::clean::clean;
use crate::layout::WRITES;
use crate::metrics::Metric;
use crate::view::load as view;

/// The slices of a load, then its window, under one header.
///
/// Times are in seconds since the start of the window, latencies in nanoseconds.
pub fn load(recording: &Recording) -> String {
    let mut text = String::from(
        "row,from_s,to_s,ok,failed,requests_per_s,p50_ns,p90_ns,p99_ns,p999_ns,max_ns\n",
    );
    let Some(load) = view::load(recording) else {
        return text;
    };
    let start_ns = load.window.start_ns;
    for slice in &load.slices {
        let quantiles = [slice.p50_ns, None, slice.p99_ns, None, slice.max_ns];
        let at_ns = |ns: u64| ns.saturating_sub(start_ns);
        let times = (at_ns(slice.window.start_ns), at_ns(slice.window.end_ns));
        line(
            &mut text,
            "slice",
            times,
            (slice.ok, slice.failed),
            quantiles,
        );
    }
    let counts = (load.ledger.ok, load.ledger.failed_total());
    let times = (0, load.window.length_ns());
    line(&mut text, "window", times, counts, quantiles(load));
    text
}

/// One line per round, failed ones and those that are left out included.
pub fn rounds(recording: &Recording) -> String {
    let mut text = String::from(
        "order,arm,pair,probes,role,failed,excluded,window_s,ok,failed_requests,requests_per_s,\
         server_cpu_us_per_request,p50_ns,p90_ns,p99_ns,p999_ns,max_ns,profiled_requests,calls,lost\n",
    );
    for round in &recording.rounds {
        let load = round.load.as_ref();
        let profile = round.profile.as_ref();
        let calls = profile.map(|profile| {
            let counts = profile.calls.iter().map(|row| row.count);
            counts.fold(0, u64::saturating_add)
        });
        let mut fields = round_fields(round);
        fields.extend([
            word(&role(round.role)),
            word(round.failed.as_deref().unwrap_or_default()),
            word(round.excluded.as_deref().unwrap_or_default()),
            number(round.window.map(|window| window.seconds())),
            number(load.map(|load| load.ledger.ok)),
            number(load.map(|load| load.ledger.failed_total())),
            number(Metric::Throughput.of(round)),
            number(Metric::ServerCpu.of(round).map(|ns| ns / 1e3)),
        ]);
        fields.extend(load.map_or([None; 5], quantiles).map(number));
        fields.extend([
            number(round.requests_under_probes()),
            number(calls),
            number(profile.map(|profile| profile.lost.total())),
        ]);
        text.extend([&fields.join(","), "\n"]);
    }
    text
}

/// One line per system call of every profiled round.
pub fn syscalls(recording: &Recording) -> String {
    let mut text = String::from(
        "order,arm,pair,probes,abi,call,on,family,count,errors,error_names,bytes,inside_ns,on_cpu_ns,\
         off_cpu_ns,requests,per_request\n",
    );
    let profiled = recording
        .rounds
        .iter()
        .filter_map(|round| Some((round, round.profile.as_ref()?)));
    for (round, profile) in profiled {
        let requests = round
            .requests_under_probes()
            .filter(|requests| *requests > 0.0);
        for row in &profile.calls {
            let names: Vec<&str> = row.errors.keys().map(String::as_str).collect();
            let mut fields = round_fields(round);
            fields.extend([
                word(&format!("{:?}", row.abi).to_lowercase()),
                word(&row.name),
                word(row.on.map_or("", recording::CallObject::word)),
                word(&format!("{:?}", row.family).to_lowercase()),
                row.count.to_string(),
                row.error_count().to_string(),
                word(&names.join(" ")),
                number(row.bytes),
                number(row.time.as_ref().map(|time| time.ns_total)),
                number(row.split.map(|split| split.on_cpu_ns)),
                number(row.split.map(|split| split.off_cpu_ns)),
                number(requests),
                number(requests.map(|requests| row.count as f64 / requests)),
            ]);
            text.extend([&fields.join(","), "\n"]);
        }
    }
    text
}

/// What says which round it is.
fn round_fields(round: &Round) -> Vec<String> {
    let probes = match round.probes {
        Probes::On => "on",
        Probes::Off => "off",
    };
    vec![
        round.order.to_string(),
        word(&round.arm),
        round.pair.to_string(),
        probes.to_owned(),
    ]
}

fn role(role: RoundRole) -> String {
    match role {
        RoundRole::Main => "main".to_owned(),
        RoundRole::Aa => "aa".to_owned(),
        RoundRole::EqualRate { rate_rps } => format!("equal_rate {rate_rps}"),
        RoundRole::MoreConnections { connections } => format!("more_connections {connections}"),
        RoundRole::NullServer => "null_server".to_owned(),
    }
}

/// A field of text: quoted where it has to be, and never a formula for a spreadsheet.
fn word(text: &str) -> String {
    let cleaned = clean(text);
    let formula = cleaned.starts_with(['=', '+', '-', '@']);
    let plain = if formula {
        format!("'{cleaned}")
    } else {
        cleaned
    };
    if plain.contains([',', '"']) {
        format!("\"{}\"", plain.replace('"', "\"\""))
    } else {
        plain
    }
}

fn number<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn quantiles(load: &Load) -> [Option<u64>; 5] {
    let histogram = load
        .latency
        .as_ref()
        .and_then(|latency| LatencyHistogram::to_hdr(latency).ok());
    [0.5, 0.9, 0.99, 0.999, 1.0]
        .map(|quantile| Some(histogram.as_ref()?.value_at_quantile(quantile)))
}

fn line(
    text: &mut String,
    row: &str,
    (from_ns, to_ns): (u64, u64),
    (ok, failed): (u64, u64),
    quantiles: [Option<u64>; 5],
) {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let length_s = seconds(to_ns.saturating_sub(from_ns));
    let rate = if length_s > 0.0 {
        format!("{:.3}", ok as f64 / length_s)
    } else {
        String::new()
    };
    write!(
        text,
        "{row},{:.6},{:.6},{ok},{failed},{rate}",
        seconds(from_ns),
        seconds(to_ns)
    )
    .expect(WRITES);
    for quantile in quantiles {
        let value = quantile.map_or_else(String::new, |ns| ns.to_string());
        write!(text, ",{value}").expect(WRITES);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field cannot begin another one, nor a formula.
    #[test]
    fn fields_stay_what_they_are() {
        assert_eq!(word("nginx"), "nginx");
        assert_eq!(word("sendfile,open=1"), "\"sendfile,open=1\"");
        assert_eq!(word("a \"b\""), "\"a \"\"b\"\"\"");
        assert_eq!(word("=1+1"), "'=1+1");
        assert_eq!(word("two\nlines"), "two\\nlines");
        assert_eq!(number(None::<u64>), "");
    }
}

//! A load as h2load prints it (nghttp2 1.37 to 1.68, one layout).

use std::fmt::Write as _;

use recording::{FailureClass, HttpVersion, Load, Recording, Spread};

use super::{Summary, failures, measures, received_bytes, responses, service, share, statuses};
use crate::clean;
use crate::layout::WRITES;
use crate::view::load as view;

/// A load in the layout and by the definitions of h2load; empty where nothing was measured.
///
/// Requests that whyfast sent again count once. A connection that the server closed between two
/// requests is opened again, where h2load gives up its client.
pub fn h2load(recording: &Recording) -> String {
    let Some(load) = view::load(recording) else {
        return String::new();
    };
    let mut text = String::from("starting benchmark...\n");
    begin(&mut text, load);
    text.push('\n');
    totals(&mut text, load);
    table(&mut text, load);
    text
}

/// What is printed while it runs.
fn begin(text: &mut String, load: &Load) {
    let plan = &load.plan;
    let threads = u64::from(plan.threads.max(1));
    let mut line = |line: String| writeln!(text, "{line}").expect(WRITES);
    let clients = |thread| share(u64::from(plan.connections), threads, thread);
    for thread in 0..threads {
        let what = match (plan.requests, plan.duration_ns) {
            (Some(requests), _) => format!("{} total requests", share(requests, threads, thread)),
            (None, duration_ns) => format!(
                "Timing-based test with {}s of warm-up time and {}s of main duration for measurements.",
                plan.warmup_ns / NS_PER_S,
                duration_ns.unwrap_or_else(|| load.window.length_ns()) / NS_PER_S
            ),
        };
        line(format!(
            "spawning thread #{thread}: {} total client(s). {what}",
            clients(thread)
        ));
    }
    if let Some(requests) = plan.requests {
        negotiated(load).into_iter().for_each(&mut line);
        steps(share(requests, threads, 0), |percent| {
            line(format!("progress: {percent}% done"));
        });
        return;
    }
    for thread in 0..threads {
        line(format!("Warm-up started for thread #{thread}."));
    }
    steps(clients(0), |percent| {
        line(format!("progress: {percent}% of clients started"));
    });
    negotiated(load).into_iter().for_each(&mut line);
    for thread in 0..threads {
        line(format!("Warm-up phase is over for thread #{thread}."));
        line(format!(
            "Main benchmark duration is started for thread #{thread}."
        ));
    }
    for thread in 0..threads {
        line(format!(
            "Main benchmark duration is over for thread #{thread}. Stopping all clients."
        ));
        line(format!("Stopped all clients for thread #{thread}"));
    }
}

/// The tenths of a share, as h2load reports them.
fn steps(share: u64, mut report: impl FnMut(u64)) {
    let step = (share / 10).max(1);
    let mut done = step;
    while done <= share {
        report(done * 100 / share);
        done += step;
    }
}

fn protocol(load: &Load) -> &'static str {
    match load.plan.http {
        HttpVersion::Http1 => "http/1.1",
        HttpVersion::Http2 if load.tls.is_some() => "h2",
        HttpVersion::Http2 | HttpVersion::Http2Upgrade => "h2c",
    }
}

/// What the first handshake agreed on, and the protocol.
fn negotiated(load: &Load) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(kind) = load.tls.as_ref().and_then(|tls| tls.negotiated.first()) {
        lines.push(format!("TLS Protocol: {}", clean(&kind.version)));
        lines.push(format!("Cipher: {}", clean(&cipher(&kind.cipher))));
        if let Some(group) = &kind.group {
            lines.push(format!("Server Temp Key: {}", temp_key(group)));
        }
    }
    lines.push(format!("Application protocol: {}", protocol(load)));
    lines
}

/// A cipher suite as OpenSSL names it: those of TLS 1.3 as IANA does, older ones in its own way.
fn cipher(iana: &str) -> String {
    let Some((exchange, rest)) = iana
        .strip_prefix("TLS_")
        .and_then(|suite| suite.split_once("_WITH_"))
    else {
        return iana.to_owned();
    };
    let rest = rest
        .replace("AES_", "AES")
        .replace("POLY1305_SHA256", "POLY1305");
    format!("{exchange}-{rest}").replace('_', "-")
}

/// A group as OpenSSL describes its keys.
fn temp_key(group: &str) -> String {
    match group {
        "X25519" => "X25519 253 bits".to_owned(),
        "secp256r1" | "P-256" => "ECDH P-256 256 bits".to_owned(),
        "secp384r1" | "P-384" => "ECDH P-384 384 bits".to_owned(),
        other => clean(other),
    }
}

fn totals(text: &mut String, load: &Load) {
    let plan = &load.plan;
    let window_s = load.window.seconds();
    let divisor = match (plan.requests, plan.duration_ns) {
        (None, Some(duration_ns)) if load.ended_early.is_none() => duration_ns as f64 / 1e9,
        _ => window_s,
    };
    let per_second = |value: u64| {
        if divisor > 0.0 {
            value as f64 / divisor
        } else {
            0.0
        }
    };
    let whole_s = match plan.requests {
        Some(_) => window_s,
        None => window_s + plan.warmup_ns as f64 / 1e9,
    };
    let received = received_bytes(load) + opening_bytes(load);
    let complete = responses(load);
    writeln!(
        text,
        "finished in {}, {} req/s, {}B/s",
        span(whole_s),
        decimals(per_second(complete)),
        size(truncated(per_second(received)))
    )
    .expect(WRITES);
    requests(text, load);
    writeln!(
        text,
        "status codes: {} 2xx, {} 3xx, {} 4xx, {} 5xx",
        statuses(load, 200..300),
        statuses(load, 300..400),
        statuses(load, 400..500),
        statuses(load, 500..600)
    )
    .expect(WRITES);
    let (headers, savings) = headers(load);
    let sized = |bytes: u64| format!("{}B ({bytes})", size(bytes));
    writeln!(
        text,
        "traffic: {} total, {} headers (space savings {}%), {} data",
        sized(received),
        sized(headers),
        decimals(savings),
        sized(load.traffic.body_bytes)
    )
    .expect(WRITES);
}

/// Bytes that h2load counts and that came before our window: without a warm-up and by count, its own
/// begins with the first connection.
fn opening_bytes(load: &Load) -> u64 {
    let plan = &load.plan;
    let is_whole = plan.requests.is_some() && plan.warmup_ns == 0 && plan.warmup_requests == 0;
    let opening = measures(load).and_then(|measures| measures.opening_received_bytes);
    opening.filter(|_| is_whole).unwrap_or(0)
}

/// Bytes of header lines, and what their compression saved, in percent.
fn headers(load: &Load) -> (u64, f64) {
    match &load.http2 {
        Some(http2) if http2.header_decoded_bytes > 0 => {
            let left = http2.header_bytes as f64 / http2.header_decoded_bytes as f64;
            (http2.header_bytes, 100.0 * (1.0 - left))
        }
        _ => {
            let fields = measures(load).and_then(|measures| measures.header_field_bytes);
            (fields.unwrap_or(load.traffic.head_bytes), 0.0)
        }
    }
}

fn requests(text: &mut String, load: &Load) {
    let ledger = &load.ledger;
    let timeout = failures(load, &[FailureClass::Timeout]);
    let succeeded = statuses(load, 200..400);
    let errored =
        ledger.failed_total() - failures(load, &[FailureClass::Status, FailureClass::Content]);
    let done = responses(load) + errored;
    let total = load.plan.requests.unwrap_or(done);
    writeln!(
        text,
        "requests: {total} total, {} started, {done} done, {succeeded} succeeded, {} failed, \
         {errored} errored, {timeout} timeout",
        ledger.sent + ledger.carried_in,
        total.saturating_sub(succeeded)
    )
    .expect(WRITES);
}

fn table(text: &mut String, load: &Load) {
    text.push_str("                     min         max         mean         sd        +/- sd\n");
    let phases = measures(load).map(|measures| &measures.phases);
    let connect = phases
        .and_then(|phases| phases.open.as_ref().or(phases.connect.as_ref()))
        .or(load.connect_time.as_ref());
    let first_byte = phases.and_then(|phases| phases.connection_first_byte.as_ref());
    for (label, summary) in [
        ("time for request:", Summary::of(service(load))),
        ("time for connect:", Summary::of(connect)),
        ("time to 1st byte:", Summary::of(first_byte)),
    ] {
        let ns = |ns: f64| span(ns / 1e9);
        row(
            text,
            label,
            [summary.min, summary.max, summary.mean, summary.sd].map(ns),
            summary.within,
        );
    }
    let seconds = load.window.seconds();
    let rates = measures(load)
        .and_then(|measures| measures.responses_per_connection)
        .filter(|_| seconds > 0.0)
        .map_or(ZERO, |spread| Spread {
            min: spread.min / seconds,
            max: spread.max / seconds,
            mean: spread.mean / seconds,
            sd: spread.sd / seconds,
            ..spread
        });
    row(
        text,
        "req/s           :",
        [rates.min, rates.max, rates.mean, rates.sd].map(decimals),
        rates.within_sd * 100.0,
    );
}

fn row(text: &mut String, label: &str, figures: [String; 4], within: f64) {
    let [min, max, mean, sd] = figures;
    writeln!(
        text,
        "{label} {min:>10}  {max:>10}  {mean:>10}  {sd:>10}{:>9}%",
        decimals(within)
    )
    .expect(WRITES);
}

/// Seconds, milliseconds with two decimals, or whole microseconds, cut off.
fn span(seconds: f64) -> String {
    let micros = truncated(seconds * 1e6 + 1e-6);
    if micros >= 1_000_000 {
        format!("{}s", decimals(micros as f64 / 1e6))
    } else if micros >= 1_000 {
        format!("{}ms", decimals(micros as f64 / 1e3))
    } else {
        format!("{micros}us")
    }
}

/// A size without its `B`: K, M and G are powers of 1024.
fn size(bytes: u64) -> String {
    let scaled = |unit: u64, letter| format!("{}{letter}", decimals(bytes as f64 / unit as f64));
    match bytes {
        0..1024 => bytes.to_string(),
        1024..1_048_576 => scaled(1024, 'K'),
        1_048_576..1_073_741_824 => scaled(1_048_576, 'M'),
        _ => scaled(1_073_741_824, 'G'),
    }
}

/// Two decimals, halves rounded up.
fn decimals(value: f64) -> String {
    format!("{:.2}", (value * 100.0).round() / 100.0)
}

/// The whole part of a figure that is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the whole part is what is asked for"
)]
fn truncated(value: f64) -> u64 {
    value as u64
}

const NS_PER_S: u64 = 1_000_000_000;
/// What h2load prints where nothing was measured.
const ZERO: Spread = Spread {
    count: 0,
    min: 0.0,
    max: 0.0,
    mean: 0.0,
    sd: 0.0,
    within_sd: 0.0,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Cipher suites have the names that OpenSSL prints.
    #[test]
    fn ciphers_are_named_as_by_openssl() {
        for (iana, wanted) in [
            ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
            (
                "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
                "ECDHE-ECDSA-AES128-GCM-SHA256",
            ),
            (
                "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
                "ECDHE-RSA-CHACHA20-POLY1305",
            ),
        ] {
            assert_eq!(cipher(iana), wanted);
        }
    }

    /// Times change their unit at the same values as h2load's, and microseconds are cut off.
    #[test]
    fn times_and_sizes() {
        for (seconds, wanted) in [
            (0.0, "0us"),
            (0.000_237_9, "237us"),
            (0.000_999, "999us"),
            (0.001, "1.00ms"),
            (0.055_33, "55.33ms"),
            (2.0, "2.00s"),
        ] {
            assert_eq!(span(seconds), wanted);
        }
        for (bytes, wanted) in [
            (1000, "1000"),
            (1024, "1.00K"),
            (20_000, "19.53K"),
            (86_327_700, "82.33M"),
            (3 << 30, "3.00G"),
        ] {
            assert_eq!(size(bytes), wanted);
        }
    }
}

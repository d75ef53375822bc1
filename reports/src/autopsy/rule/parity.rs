//! What differs between two servers besides the servers.

use std::collections::BTreeSet;

use recording::StatementKind::{Follows, Suspicion};
use recording::{ExaminedServer, ForeignLoad, Statement};

use super::calls::Shape;
use super::{percent, time};
use crate::autopsy::{refusing, statement};

/// All rules over a pair.
pub(super) fn rules(a: &ExaminedServer, b: &ExaminedServer) -> Vec<Statement> {
    let rules = [
        ciphers,
        unknown_ciphers,
        heads,
        bodies,
        file_caches,
        pollers,
        connects,
        keep_alives,
    ];
    rules.iter().filter_map(|rule| rule(a, b)).collect()
}

fn ciphers(a: &ExaminedServer, b: &ExaminedServer) -> Option<Statement> {
    let of = |server: &ExaminedServer| -> BTreeSet<String> {
        let named = server.loads.iter().filter_map(|load| {
            Some(format!(
                "{} {}",
                load.tls_version.as_deref()?,
                load.cipher.as_deref()?
            ))
        });
        named.collect()
    };
    let (in_a, in_b) = (of(a), of(b));
    (!in_a.is_empty() && !in_b.is_empty() && in_a != in_b).then(|| {
        let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" and ");
        let text = format!(
            "{}: {}; {}: {}: the ciphers differ (G2)",
            a.name,
            list(&in_a),
            b.name,
            list(&in_b)
        );
        refusing(
            statement("ciphers", Follows, &[a, b], text),
            "ciphers differ",
        )
    })
}

fn unknown_ciphers(a: &ExaminedServer, b: &ExaminedServer) -> Option<Statement> {
    let unknown = |server: &ExaminedServer| {
        server.loads.iter().any(|load| {
            let is_tls = load
                .url
                .as_deref()
                .is_some_and(|url| url.starts_with("https:"))
                || load
                    .command
                    .as_deref()
                    .is_some_and(|command| command.contains("--ssl"));
            is_tls && load.cipher.is_none()
        })
    };
    (unknown(a) || unknown(b)).then(|| {
        let text = "the runs are over TLS and the output does not say which version, cipher and key: whether they \
                    are equal is unknown (G2)";
        statement("unknown-ciphers", Suspicion, &[a, b], text.to_owned())
    })
}

fn heads(a: &ExaminedServer, b: &ExaminedServer) -> Option<Statement> {
    let (in_a, in_b) = (
        per_response(a, |load| load.head_bytes)?,
        per_response(b, |load| load.head_bytes)?,
    );
    (in_a - in_b).abs().gt(&1.0).then(|| {
        let expanded = |server: &ExaminedServer, bytes: f64| {
            let savings = mean(server.loads.iter().filter_map(|load| load.head_savings))?;
            (savings > 0.0 && savings < 1.0).then(|| {
                format!(
                    "{:.0} before compression, of which {} was saved",
                    bytes / (1.0 - savings),
                    percent(savings)
                )
            })
        };
        let detail = |server: &ExaminedServer, bytes| {
            expanded(server, bytes).map_or(String::new(), |text| format!(" ({text})"))
        };
        let text = format!(
            "header bytes for each response: {in_a:.1} from {}{}, {in_b:.1} from {}{}",
            a.name,
            detail(a, in_a),
            b.name,
            detail(b, in_b)
        );
        let statement = statement("header-bytes", Follows, &[a, b], text);
        let differ = (in_a - in_b).abs() > HEAD_BYTES_ALLOWED;
        if differ {
            refusing(statement, "header bytes differ")
        } else {
            statement
        }
    })
}

fn bodies(a: &ExaminedServer, b: &ExaminedServer) -> Option<Statement> {
    let (in_a, in_b) = (
        per_response(a, |load| load.body_bytes)?,
        per_response(b, |load| load.body_bytes)?,
    );
    let off = (in_a / in_b - 1.0).abs();
    // Also where one of them is nothing at all.
    (!off.is_finite() || off > BODY_BYTES_ALLOWED).then(|| {
        let text = format!(
            "body bytes for each response: {in_a:.1} from {}, {in_b:.1} from {} (G1)",
            a.name, b.name
        );
        refusing(
            statement("body-bytes", Follows, &[a, b], text),
            "body bytes differ",
        )
    })
}

fn file_caches(a: &ExaminedServer, b: &ExaminedServer) -> Option<Statement> {
    let shape = |server: &ExaminedServer| {
        let shape = Shape::first(server)?;
        Some((shape.caches_files(), shape.opens_files()))
    };
    let ((a_caches, a_opens), (b_caches, b_opens)) = (shape(a)?, shape(b)?);
    let (caches, opens) = match (a_caches && b_opens, b_caches && a_opens) {
        (true, _) => (a, b),
        (_, true) => (b, a),
        _ => return None,
    };
    let text = format!(
        "{} caches open files and {} opens them for each response (G14)",
        caches.name, opens.name
    );
    Some(refusing(
        statement("file-cache-parity", Follows, &[caches, opens], text),
        "file cache on one side only",
    ))
}

fn pollers(a: &ExaminedServer, b: &ExaminedServer) -> Option<Statement> {
    let poller = |server: &ExaminedServer| Shape::first(server)?.poller();
    let (in_a, in_b) = (poller(a)?, poller(b)?);
    (in_a != in_b).then(|| {
        let old = |server: &ExaminedServer, poller| {
            let is_h2o = server.name.to_ascii_lowercase().contains("h2o");
            is_h2o && poller == "select"
        };
        let version = if old(a, in_a) || old(b, in_b) {
            "; h2o has used epoll on Linux since 1.4.0 (2015), so this was an old or a special build, or the table \
             is cut"
        } else {
            ""
        };
        let text = format!("{} waits in {in_a}, {} in {in_b}: the builds differ{version}", a.name, b.name);
        refusing(statement("poller", Follows, &[a, b], text), "poller differs")
    })
}

fn connects(a: &ExaminedServer, b: &ExaminedServer) -> Option<Statement> {
    let of =
        |server: &ExaminedServer| mean(server.loads.iter().filter_map(|load| load.connect_mean_s));
    let (in_a, in_b) = (of(a)?, of(b)?);
    let factor = (in_a / in_b).max(in_b / in_a);
    (factor > 1.25).then(|| {
        let text = format!(
            "connections took {} to open at {} and {} at {} ({factor:.1} times): part of the difference is the \
             handshake, not the requests",
            time(in_a),
            a.name,
            time(in_b),
            b.name
        );
        statement("connect-times", Follows, &[a, b], text)
    })
}

fn keep_alives(a: &ExaminedServer, b: &ExaminedServer) -> Option<Statement> {
    let of = |server: &ExaminedServer| {
        let shape = Shape::first(server)?;
        let accepted = shape.accepted();
        (accepted > 0).then(|| shape.responses as f64 / accepted as f64)
    };
    let (in_a, in_b) = (of(a)?, of(b)?);
    let off = (in_a / in_b - 1.0).abs();
    (off > 0.05 && in_a.min(in_b) < 1000.0).then(|| {
        let text = format!(
            "{in_a:.0} responses for each accepted connection at {}, {in_b:.0} at {}: similar at best, not equal (G4)",
            a.name, b.name
        );
        statement("keep-alive-parity", Follows, &[a, b], text)
    })
}

/// Bytes for each response, over all runs.
fn per_response(
    server: &ExaminedServer,
    bytes: impl Fn(&ForeignLoad) -> Option<u64>,
) -> Option<f64> {
    mean(server.loads.iter().filter_map(|load| {
        let responses = load.responses.filter(|responses| *responses > 0)?;
        Some(bytes(load)? as f64 / responses as f64)
    }))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Of the header block.
const HEAD_BYTES_ALLOWED: f64 = 64.0;
/// Share of the body.
const BODY_BYTES_ALLOWED: f64 = 0.01;

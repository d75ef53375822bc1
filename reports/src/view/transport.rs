//! What a load says of the protocols under it: versions of HTTP, TLS, HTTP/2.

use std::fmt::Write as _;

use recording::{Http2Report, HttpVersion, Load, LoadPlan, TlsNegotiated, TlsReport};

use super::load::latency;
use super::{Line, name};
use crate::figures::{bytes, counted, grouped, percent, span};
use crate::layout::{Tone, WRITES};

/// Version of HTTP and depth, where they are not the plain ones.
pub(super) fn depth(plan: &LoadPlan) -> String {
    let unit = match plan.http {
        HttpVersion::Http1 if plan.depth == 1 => return String::new(),
        HttpVersion::Http1 => "pipelined request",
        HttpVersion::Http2 | HttpVersion::Http2Upgrade => "stream",
    };
    let depth = counted(plan.depth as usize, unit);
    format!(" with {depth} of {} each", plan.http.name())
}

/// What there is to say.
pub(super) fn lines(load: &Load) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Some(tls) = &load.tls {
        lines.push(sessions(load, tls));
        lines.push(handshakes(tls));
        lines.extend(latency(
            "handshake",
            tls.handshake_time.as_ref(),
            "per connection, after connecting; whole run",
        ));
    }
    if let Some(http2) = &load.http2 {
        lines.push(streams(load, http2));
        lines.push(headers(http2));
    }
    lines
}

fn sessions(load: &Load, tls: &TlsReport) -> Line {
    let mut kinds: Vec<String> = tls.negotiated.iter().map(session).collect();
    if kinds.is_empty() {
        kinds.push("nothing negotiated".to_owned());
    }
    let mut text = kinds.join("; ");
    if load.plan.tls.as_ref().is_some_and(|plan| !plan.verified) {
        text.push_str("; certificate not verified");
    }
    Line::new("TLS", text)
}

fn session(kind: &TlsNegotiated) -> String {
    let group = kind.group.as_deref().unwrap_or("no key exchange");
    let alpn = kind.alpn.as_deref().unwrap_or("none");
    format!(
        "{} x {} {}, {}, {} key, ALPN {}",
        grouped(kind.count),
        name(&kind.version),
        name(&kind.cipher),
        name(group),
        name(&kind.certificate_key),
        name(alpn)
    )
}

fn handshakes(tls: &TlsReport) -> Line {
    let mut text = format!(
        "{} full, {} resumed",
        grouped(tls.full_handshakes),
        grouped(tls.resumed_handshakes)
    );
    if tls.retried_handshakes > 0 {
        write!(
            text,
            ", {} of them in two rounds",
            grouped(tls.retried_handshakes)
        )
        .expect(WRITES);
    }
    if let Some(taken) = tls.early_data_handshakes {
        let refused = tls.early_data_refused.unwrap_or(0);
        let (taken, refused) = (grouped(taken), grouped(refused));
        write!(text, "; {taken} with 0-RTT, {refused} refused it").expect(WRITES);
    }
    write!(
        text,
        "; {} sent and {} received in clear",
        bytes(tls.clear_sent_bytes as f64),
        bytes(tls.clear_received_bytes as f64)
    )
    .expect(WRITES);
    if tls.failed_handshakes == 0 {
        return Line::new("handshakes", text);
    }
    write!(text, "; {} FAILED", grouped(tls.failed_handshakes)).expect(WRITES);
    Line::toned("handshakes", text, Tone::Bad)
}

fn streams(load: &Load, http2: &Http2Report) -> Line {
    let mut text = format!(
        "{} in flight at most, {} asked, ",
        grouped(u64::from(http2.streams_max)),
        grouped(u64::from(load.plan.depth))
    );
    match http2.stream_limit {
        Some(limit) => write!(text, "server allows {}", grouped(u64::from(limit))),
        None => write!(text, "server sets no limit"),
    }
    .expect(WRITES);
    let told = [
        (http2.refused_retries, "sent again after a refusal"),
        (http2.goaway_retries, "sent again after GOAWAY"),
        (http2.goaways, "GOAWAY"),
        (http2.resets, "reset"),
        (http2.settings_changes, "changes of settings"),
        (http2.pings, "pings"),
    ];
    for (count, what) in told.into_iter().filter(|(count, _)| *count > 0) {
        write!(text, "; {} {what}", grouped(count)).expect(WRITES);
    }
    let stalled = [
        (http2.connection_stalled_ns, "connection"),
        (http2.stream_stalled_ns, "stream"),
    ];
    for (ns, what) in stalled.into_iter().filter(|(ns, _)| *ns > 0) {
        write!(
            text,
            "; stalled on the {what} window for {}",
            span(ns as f64)
        )
        .expect(WRITES);
    }
    Line::new("HTTP/2", text)
}

fn headers(http2: &Http2Report) -> Line {
    let saved = if http2.header_decoded_bytes > 0 {
        1.0 - http2.header_bytes as f64 / http2.header_decoded_bytes as f64
    } else {
        0.0
    };
    Line::new(
        "headers",
        format!(
            "{} received for {} of fields, {} saved by HPACK",
            bytes(http2.header_bytes as f64),
            bytes(http2.header_decoded_bytes as f64),
            percent(saved)
        ),
    )
}

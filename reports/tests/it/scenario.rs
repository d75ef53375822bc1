//! What a comparison ran, in every view: protocol, encryption, streams, requests.

use recording::{Protocol, Recording, ScenarioTls};
use reports::{Footer, Style, analyse, markdown, text};

use crate::fixture::{comparison, h2o, nginx};

fn published_page() -> Recording {
    let mut recording = comparison(&[nginx(), h2o()], 8);
    let scenario = recording.scenario.as_mut().unwrap();
    "h2-tls13-page".clone_into(&mut scenario.name);
    scenario.protocol = Protocol::Http2;
    scenario.as_published = true;
    scenario.streams = Some(4);
    scenario.requests_per_connection = Some(100);
    scenario.request_headers = vec![("Accept-Encoding".to_owned(), "gzip".to_owned())];
    scenario.requests = Some(25_000);
    scenario.warmup_requests = Some(1000);
    (scenario.duration_ns, scenario.warmup_ns) = (None, 0);
    scenario.tls = Some(ScenarioTls {
        key: "rsa-2048".to_owned(),
        version: Some("1.3".to_owned()),
        resumption: false,
        ciphers: vec!["TLS_AES_128_GCM_SHA256".to_owned()],
        groups: Vec::new(),
    });
    analyse(&mut recording);
    recording
}

/// Text, Markdown and HTML say how the client spoke and how long a round was.
#[test]
fn every_view_says_what_was_run() {
    let recording = published_page();
    let footer = Footer::default();
    // Lines of a terminal are folded, and Markdown escapes.
    let words = |text: String| {
        let plain = text.replace('\\', "");
        plain.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (format, text) in [
        (
            "text",
            text::compare(&recording, &Style::default(), &footer),
        ),
        ("markdown", markdown::compare(&recording, &footer)),
        ("html", reports::html::compare(&recording, &footer)),
    ] {
        let text = words(text);
        for wanted in [
            "h2-tls13-page as published HTTP/2 over TLS 1.3 (rsa-2048, TLS_AES_128_GCM_SHA256) 100 requests \
             per connection 64 connections 4 streams on each Accept-Encoding: gzip",
            "windows of 25000 requests, warm-up of 1000 requests",
        ] {
            assert!(
                text.contains(wanted),
                "{wanted} is missing in {format}:\n{text}"
            );
        }
    }
}

/// A connection for each request is said in words, and so are sessions that are resumed.
#[test]
fn new_connections_are_named() {
    let mut recording = published_page();
    let scenario = recording.scenario.as_mut().unwrap();
    scenario.protocol = Protocol::Http1;
    scenario.requests_per_connection = Some(1);
    let tls = scenario.tls.as_mut().unwrap();
    (tls.version, tls.resumption) = (None, true);
    let text = markdown::compare(&recording, &Footer::default()).replace('\\', "");
    assert!(text.contains(
        "HTTP/1.1 over TLS (rsa-2048, TLS_AES_128_GCM_SHA256, resumed sessions)  a new connection for each \
         request  64 connections  4 pipelined on each"
    ), "{text}");
}

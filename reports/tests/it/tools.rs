//! Loads in the layouts of other tools: one grammar per tool, which takes the committed output of
//! the real tool and ours.

use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use recording::{
    FailureClass, Http2Report, HttpVersion, LatencyHistogram, LoadMeasures, Phases, Recording,
    Spread, Timeline, TlsNegotiated, TlsReport,
};
use reports::tools;
use reports::{csv, hdr};

use crate::fixture::{blank_measures, load_recording};

/// How often a line may stand in an output.
#[derive(Clone, Copy, PartialEq)]
enum Times {
    Once,
    Maybe,
    Many,
}
use Times::{Many, Maybe, Once};

/// Lines of a tool in order; `{}` is one word.
type Grammar = &'static [(Times, &'static str)];

const H2LOAD: Grammar = &[
    (Once, "starting benchmark..."),
    (Many, "spawning thread #{}: {} total client(s). {rest}"),
    (Many, "Warm-up started for thread #{}."),
    (Many, "progress: {}% of clients started"),
    (Maybe, "TLS Protocol: {}"),
    (Maybe, "Cipher: {}"),
    (Maybe, "Server Temp Key: {rest}"),
    (Once, "Application protocol: {}"),
    (Many, "progress: {}% done"),
    (Many, "{rest} thread #{rest}"),
    (Once, ""),
    (Once, "finished in {}, {} req/s, {}B/s"),
    (
        Once,
        "requests: {} total, {} started, {} done, {} succeeded, {} failed, {} errored, {} timeout",
    ),
    (Once, "status codes: {} 2xx, {} 3xx, {} 4xx, {} 5xx"),
    (
        Once,
        "traffic: {}B ({}) total, {}B ({}) headers (space savings {}%), {}B ({}) data",
    ),
    (
        Once,
        "                     min         max         mean         sd        +/- sd",
    ),
    (Once, "time for request: {} {} {} {} {}%"),
    (Once, "time for connect: {} {} {} {} {}%"),
    (Once, "time to 1st byte: {} {} {} {} {}%"),
    (Once, "req/s           : {} {} {} {} {}%"),
];

const WRK: Grammar = &[
    (Once, "Running {} test @ {}"),
    (Once, "  {} threads and {} connections"),
    (Once, "  Thread Stats   Avg      Stdev     Max   +/- Stdev"),
    (Once, "    Latency   {} {} {} {}%"),
    (Once, "    Req/Sec   {} {} {} {}%"),
    (Maybe, "  Latency Distribution"),
    (Maybe, "     50% {}"),
    (Maybe, "     75% {}"),
    (Maybe, "     90% {}"),
    (Maybe, "     99% {}"),
    (Once, "  {} requests in {}, {}B read"),
    (
        Maybe,
        "  Socket errors: connect {}, read {}, write {}, timeout {}",
    ),
    (Maybe, "  Non-2xx or 3xx responses: {}"),
    (Once, "Requests/sec: {}"),
    (Once, "Transfer/sec: {}B"),
];

const HTTPERF: Grammar = &[
    (Maybe, "httperf: warning: {rest}"),
    (Once, "{rest}"),
    (Once, "Maximum connect burst length: {}"),
    (Once, ""),
    (
        Once,
        "Total: connections {} requests {} replies {} test-duration {} s",
    ),
    (Once, ""),
    (
        Once,
        "Connection rate: {} conn/s ({} ms/conn, <={} concurrent connections)",
    ),
    (
        Once,
        "Connection time [ms]: min {} avg {} max {} median {} stddev {}",
    ),
    (Once, "Connection time [ms]: connect {}"),
    (Once, "Connection length [replies/conn]: {}"),
    (Once, ""),
    (Once, "Request rate: {} req/s ({} ms/req)"),
    (Once, "Request size [B]: {}"),
    (Once, ""),
    (
        Once,
        "Reply rate [replies/s]: min {} avg {} max {} stddev {} ({} samples)",
    ),
    (Once, "Reply time [ms]: response {} transfer {}"),
    (
        Once,
        "Reply size [B]: header {} content {} footer {} (total {})",
    ),
    (Once, "Reply status: 1xx={} 2xx={} 3xx={} 4xx={} 5xx={}"),
    (Once, ""),
    (
        Once,
        "CPU time [s]: user {} system {} (user {}% system {}% total {}%)",
    ),
    (Once, "Net I/O: {} KB/s ({}*10^6 bps)"),
    (Once, ""),
    (
        Once,
        "Errors: total {} client-timo {} socket-timo {} connrefused {} connreset {}",
    ),
    (
        Once,
        "Errors: fd-unavail {} addrunavail {} ftab-full {} other {}",
    ),
];

/// The words of a line at the places of a pattern; runs of spaces in front of a word are one space.
fn scan<'a>(pattern: &str, mut line: &'a str) -> Option<Vec<&'a str>> {
    let mut words = Vec::new();
    let mut rest = pattern;
    while let Some(at) = rest.find('{') {
        let literal = &rest[..at];
        line = line.strip_prefix(literal)?.trim_start_matches(' ');
        let end = rest[at..].find('}')? + at;
        let is_rest = &rest[at + 1..end] == "rest";
        rest = &rest[end + 1..];
        let stop = rest.find('{').map_or(rest, |next| &rest[..next]);
        let length = if stop.is_empty() {
            line.len()
        } else {
            line.find(stop)?
        };
        let word = &line[..length];
        if !is_rest && (word.is_empty() || word.contains(' ')) {
            return None;
        }
        words.push(word);
        line = &line[length..];
    }
    (line == rest).then_some(words)
}

/// The words of every line by its pattern; an error names the first line that does not fit.
fn parse(grammar: Grammar, text: &str) -> Result<Vec<(&'static str, Vec<&str>)>, String> {
    let mut parsed = Vec::new();
    let mut lines = text.lines().peekable();
    for &(times, pattern) in grammar {
        let mut found = 0;
        while let Some(words) = lines.peek().and_then(|line| scan(pattern, line)) {
            parsed.push((pattern, words));
            lines.next();
            found += 1;
            if times != Many {
                break;
            }
        }
        if found == 0 && times == Once {
            return Err(format!("{pattern:?} does not fit {:?}", lines.peek()));
        }
    }
    match lines.next() {
        None => Ok(parsed),
        Some(line) => Err(format!("{line:?} is left over")),
    }
}

/// The words of the line that begins with `start`.
fn words<'a>(parsed: &[(&'static str, Vec<&'a str>)], start: &str) -> Vec<&'a str> {
    let found = parsed
        .iter()
        .find(|(pattern, _)| pattern.starts_with(start));
    found.map(|(_, words)| words.clone()).unwrap()
}

/// Where the columns of a table end.
fn column_ends(line: &str) -> Vec<usize> {
    let bytes = line.as_bytes();
    (0..bytes.len())
        .filter(|&at| bytes[at] != b' ' && bytes.get(at + 1).is_none_or(|&next| next == b' '))
        .collect()
}

fn histogram(values_ns: &[u64]) -> Option<LatencyHistogram> {
    let mut recorder = LatencyHistogram::recorder();
    for &value in values_ns {
        recorder.record(value).unwrap();
    }
    LatencyHistogram::from_hdr(&recorder)
}

/// A recorded load with everything that the tools print.
pub(crate) fn measured() -> Recording {
    let mut recording = load_recording();
    let command = ["whyfast", "load", "http://127.0.0.1:8080/file"];
    recording.command = command.map(str::to_owned).to_vec();
    let load = recording.rounds[0].load.as_mut().unwrap();
    load.timeline = Timeline {
        start_ns: load.window.start_ns,
        bin_ns: 1_000_000,
        completed: vec![69; 2000],
    };
    load.measures = Some(Box::new(LoadMeasures {
        phases: Phases {
            connect: histogram(&[76_000, 531_000, 267_000]),
            first_byte: histogram(&[800_000, 900_000]),
            receive: histogram(&[100_000, 100_000]),
            connection_first_byte: histogram(&[315_000, 825_000]),
            connection_life: histogram(&[2_000_400_000; 64]),
            ..Phases::default()
        },
        live_connections: Some(64.0),
        responses_per_connection: Spread::of(&[2168.0, 2169.5, 2170.0]),
        thread_rate_rps: Spread::of(&[69_000.0, 69_400.0, 69_800.0]),
        header_field_bytes: Some(138_800 * 187),
        opening_received_bytes: Some(0),
        ..blank_measures()
    }));
    recording
}

/// One grammar takes what the real h2load printed and what we print, columns included.
#[test]
fn h2load_layout() {
    let ours = tools::h2load(&measured());
    let real = [
        include_str!("../fixtures/tools/h2load-1.52-n.txt"),
        include_str!("../fixtures/tools/h2load-1.52-D.txt"),
        include_str!("../fixtures/tools/h2load-1.52-404.txt"),
        include_str!("../fixtures/tools/h2load-1.52-h2.txt"),
    ];
    for text in real.into_iter().chain([ours.as_str()]) {
        parse(H2LOAD, text).unwrap();
    }
    let rows = |text: &str| -> Vec<Vec<usize>> {
        let rows = text.lines().rev().take(5);
        rows.map(column_ends).collect()
    };
    for (theirs, ours) in rows(real[0]).iter().zip(rows(&ours)) {
        assert_eq!(theirs.last(), ours.last());
        assert_eq!(theirs[theirs.len() - 4..], ours[ours.len() - 4..]);
    }
    let parsed = parse(H2LOAD, &ours).unwrap();
    assert_eq!(words(&parsed, "finished"), ["2.50s", "69400.00", "15.82M"]);
    assert_eq!(
        words(&parsed, "requests"),
        ["138800", "138864", "138800", "138800", "0", "0", "0"]
    );
    assert_eq!(
        words(&parsed, "traffic"),
        [
            "31.64M", "33173200", "24.75M", "25955600", "0.00", "135.55K", "138800"
        ]
    );
    assert_eq!(
        words(&parsed, "time for connect"),
        ["75us", "531us", "291us", "228us", "66.67"]
    );
    assert_eq!(words(&parsed, "req/s")[..2], ["1084.00", "1085.00"]);
}

/// Over TLS and HTTP/2 the sessions are named as OpenSSL names them, headers are those on the wire,
/// and bytes are counted after decryption.
#[test]
fn h2load_over_tls() {
    let mut recording = measured();
    let load = recording.rounds[0].load.as_mut().unwrap();
    load.plan.http = HttpVersion::Http2;
    load.tls = Some(TlsReport {
        full_handshakes: 64,
        resumed_handshakes: 0,
        retried_handshakes: 0,
        failed_handshakes: 0,
        early_data_handshakes: None,
        early_data_refused: None,
        handshake_time: None,
        negotiated: vec![TlsNegotiated {
            version: "TLSv1.3".to_owned(),
            cipher: "TLS_AES_128_GCM_SHA256".to_owned(),
            group: Some("X25519".to_owned()),
            certificate_key: "ECDSA P-256".to_owned(),
            alpn: Some("h2".to_owned()),
            count: 64,
        }],
        clear_sent_bytes: 1,
        clear_received_bytes: 20_000,
    });
    load.http2 = Some(Http2Report {
        header_bytes: 107_000,
        header_decoded_bytes: 177_000,
        ..Http2Report::default()
    });
    let text = tools::h2load(&recording);
    let parsed = parse(H2LOAD, &text).unwrap();
    assert_eq!(words(&parsed, "Server Temp Key"), ["X25519 253 bits"]);
    assert_eq!(words(&parsed, "Application protocol"), ["h2"]);
    assert_eq!(
        words(&parsed, "traffic")[..5],
        ["19.53K", "20000", "104.49K", "107000", "39.55"]
    );
}

/// A bad status is failed, a broken connection is errored as well.
#[test]
fn h2load_failures() {
    let mut recording = measured();
    let load = recording.rounds[0].load.as_mut().unwrap();
    load.ledger.ok -= 30;
    load.ledger.fail(FailureClass::Status, "check", 20);
    load.ledger.fail(FailureClass::Reset, "body", 10);
    load.statuses = [(200, 138_770), (500, 20)].into();
    let text = tools::h2load(&recording);
    let parsed = parse(H2LOAD, &text).unwrap();
    assert_eq!(
        words(&parsed, "requests")[2..],
        ["138800", "138770", "30", "10", "0"]
    );
    assert_eq!(words(&parsed, "status"), ["138770", "0", "0", "20"]);
}

/// One grammar takes what the real wrk printed and what we print.
#[test]
fn wrk_layout() {
    let ours = tools::wrk(&measured());
    for text in [
        include_str!("../fixtures/tools/wrk-4.1-latency.txt"),
        include_str!("../fixtures/tools/wrk-4.1-404.txt"),
        ours.as_str(),
    ] {
        parse(WRK, text).unwrap();
    }
    insta::assert_snapshot!(ours, @r"
    Running 2s test @ http://127.0.0.1:8080/file
      1 threads and 64 connections
      Thread Stats   Avg      Stdev     Max   +/- Stdev
        Latency     0.96ms  340.60us   3.02ms   81.27%
        Req/Sec    69.40k   400.00    69.80k   100.00%
      Latency Distribution
         50%    0.91ms
         75%    1.09ms
         90%    1.25ms
         99%    2.43ms
      138800 requests in 2.00s, 31.64MB read
    Requests/sec:  69400.00
    Transfer/sec:     15.82MB
    ");
}

/// Failures stand where wrk puts them, and a status above 399 is one of them.
#[test]
fn wrk_failures() {
    let mut recording = measured();
    let load = recording.rounds[0].load.as_mut().unwrap();
    load.ledger.fail(FailureClass::Status, "check", 20);
    load.ledger.fail(FailureClass::Refused, "connect", 1);
    load.ledger.fail(FailureClass::Closed, "first_byte", 2);
    load.ledger.fail(FailureClass::Reset, "write", 3);
    load.ledger.fail(FailureClass::Timeout, "body", 4);
    load.statuses.insert(500, 20);
    let text = tools::wrk(&recording);
    let parsed = parse(WRK, &text).unwrap();
    assert_eq!(words(&parsed, "  Socket errors"), ["1", "2", "3", "4"]);
    assert_eq!(words(&parsed, "  Non-2xx"), ["20"]);
}

/// One grammar takes what the real httperf printed and what we print.
#[test]
fn httperf_layout() {
    let ours = tools::httperf(&measured());
    for text in [
        include_str!("../fixtures/tools/httperf-0.9.0.txt"),
        include_str!("../fixtures/tools/httperf-0.9.0-rate.txt"),
        ours.as_str(),
    ] {
        parse(HTTPERF, text).unwrap();
    }
    insta::assert_snapshot!(ours, @r"
    whyfast load http://127.0.0.1:8080/file
    Maximum connect burst length: 64

    Total: connections 64 requests 138800 replies 138800 test-duration 2.000 s

    Connection rate: 32.0 conn/s (31.2 ms/conn, <=64 concurrent connections)
    Connection time [ms]: min 1999.6 avg 2000.2 max 2000.7 median 2000.5 stddev 0.0
    Connection time [ms]: connect 0.3
    Connection length [replies/conn]: 2168.750

    Request rate: 69400.0 req/s (0.0 ms/req)
    Request size [B]: 94.0

    Reply rate [replies/s]: min 0.0 avg 0.0 max 0.0 stddev 0.0 (0 samples)
    Reply time [ms]: response 0.8 transfer 0.1
    Reply size [B]: header 238.0 content 1.0 footer 0.0 (total 239.0)
    Reply status: 1xx=0 2xx=138800 3xx=0 4xx=0 5xx=0

    CPU time [s]: user 0.57 system 0.93 (user 28.5% system 46.5% total 75.0%)
    Net I/O: 22568.6 KB/s (184.9*10^6 bps)

    Errors: total 0 client-timo 0 socket-timo 0 connrefused 0 connreset 0
    Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0
    ");
}

/// The grammars have teeth: a changed word, a lost line and a line too many are refused.
#[test]
fn grammars_refuse_other_text() {
    let text = include_str!("../fixtures/tools/h2load-1.52-n.txt");
    for (from, to) in [
        ("succeeded", "successful"),
        ("status codes: 1000 2xx, 0 3xx, 0 4xx, 0 5xx\n", ""),
        ("time for request", "extra\ntime for request"),
    ] {
        assert!(parse(H2LOAD, &text.replace(from, to)).is_err(), "{from}");
    }
}

/// The log reads back as what was recorded, with a tag for each further distribution.
#[test]
fn hdr_log_reads_back() {
    let recording = measured();
    let text = hdr::log(&recording);
    let mut decoder = Deserializer::new();
    let mut seen = Vec::new();
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        if let LogEntry::Interval(interval) = entry.unwrap() {
            let bytes = base64::Engine::decode(
                &base64::engine::general_purpose::STANDARD,
                interval.encoded_histogram(),
            );
            let histogram: hdrhistogram::Histogram<u64> = decoder
                .deserialize(&mut std::io::Cursor::new(bytes.unwrap()))
                .unwrap();
            let tag = interval.tag().map_or("", |tag| tag.as_str());
            seen.push((tag.to_owned(), histogram));
        }
    }
    let tags: Vec<&str> = seen.iter().map(|(tag, _)| tag.as_str()).collect();
    assert_eq!(tags, ["", "connect", "first_byte", "receive"]);
    let load = recording.rounds[0].load.as_ref().unwrap();
    let latency = load.latency.as_ref().unwrap().to_hdr().unwrap();
    assert_eq!(seen[0].1, latency);
}

/// The percentile distribution ends at 1 with every value counted.
#[test]
fn percentile_distribution_is_complete() {
    let text = hdr::percentiles(&measured());
    let last = text.lines().rev().find(|line| !line.starts_with('#'));
    let words: Vec<&str> = last.unwrap().split_whitespace().collect();
    assert_eq!(words[1..], ["1.000000000000", "2000"]);
    assert!(text.contains("#[Max     =        3.0"), "{text}");
    let lines = text.lines().filter(|line| !line.starts_with('#')).skip(2);
    let values: Vec<f64> = lines
        .map(|line| line.split_whitespace().next().unwrap().parse().unwrap())
        .collect();
    assert!(values.is_sorted() && values.len() > 20);
}

/// Every line of the CSV has the fields of its header; the last one is the window.
#[test]
fn csv_has_slices_and_the_window() {
    let text = csv::load(&measured());
    let fields: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(fields, [11; 4]);
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("window,0.000000,2.000000,138800,0,69400.000,"),
        "{last}"
    );
}

//! TLS time per request: of the arms of a comparison, and of a live server whose requests are counted.

use recording::{
    Log2Histogram, Recording, RequestCount, RequestSource, ThreadTime, TimeStats, TlsFunction,
    TlsLibrary, TlsPurpose, TlsTime,
};
use reports::tls::{TlsCost, by_arm, of_profile};
use reports::{Footer, Style};

use crate::fixture;

/// Calls that take 500 ns each on the clock, and of the CPU what is said.
fn function(name: &str, purpose: TlsPurpose, count: u64, each: (u64, u64)) -> TlsFunction {
    let (cpu_ns, calls_ns) = each;
    TlsFunction {
        name: name.to_owned(),
        purpose,
        count,
        time: TimeStats {
            timed: count,
            ns_total: 500 * count,
            ns_min: None,
            ns_max: None,
            histogram: Log2Histogram::default(),
        },
        cpu_ns: Some(cpu_ns * count),
        calls_ns: Some(calls_ns * count),
        handshakes: (purpose == TlsPurpose::Handshake).then_some(count),
    }
}

/// Two handshakes, one read and half a write per request.
fn time(requests: u64) -> TlsTime {
    TlsTime {
        libraries: vec![library(None)],
        functions: vec![
            function(
                "SSL_do_handshake",
                TlsPurpose::Handshake,
                requests,
                (9_000, 1_000),
            ),
            function(
                "SSL_accept",
                TlsPurpose::Handshake,
                requests,
                (3_000, 2_000),
            ),
            function("SSL_read", TlsPurpose::Read, requests, (700, 400)),
            function("SSL_write", TlsPurpose::Write, requests / 2, (900, 500)),
        ],
        lost: 0,
    }
}

fn library(not_probed: Option<&str>) -> TlsLibrary {
    TlsLibrary {
        name: "OpenSSL 3.0.15".to_owned(),
        file: "libssl.so.3".to_owned(),
        pids: vec![7],
        not_probed: not_probed.map(str::to_owned),
    }
}

/// The fixture with the time in TLS of its first arm, and a library of the second that is not seen into.
fn comparison() -> Recording {
    let mut recording = fixture::comparison(&[fixture::nginx(), fixture::h2o()], 4);
    let first = recording.arms[0].name.clone();
    for round in &mut recording.rounds {
        let Some(profile) = &mut round.profile else {
            continue;
        };
        round.profile_requests = Some(1000.0);
        profile.threads = Some(ThreadTime {
            user_ns: 20_000_000,
            ..ThreadTime::default()
        });
        profile.tls_time = Some(if round.arm == first {
            time(1000)
        } else {
            TlsTime {
                libraries: vec![library(Some("it is linked\u{1b}[2J into the program"))],
                functions: Vec::new(),
                lost: 0,
            }
        });
    }
    recording
}

fn near(cost: &TlsCost, purpose: TlsPurpose, figures: [f64; 3]) {
    assert_eq!(cost.purpose, purpose);
    let found = [
        cost.calls,
        cost.library_ns.unwrap(),
        cost.in_calls_ns.unwrap(),
    ];
    for (found, wanted) in found.into_iter().zip(figures) {
        assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
    }
}

/// Functions of one purpose add up; what a call has of the CPU is cut into the library's own and what system
/// calls had, over all rounds with probes.
#[test]
fn costs_of_an_arm() {
    let arms = by_arm(&comparison());
    let [first, second] = &arms[..] else {
        panic!("both arms were asked: {arms:?}")
    };
    let [handshake, read, write] = &first.costs[..] else {
        panic!("three purposes: {first:?}")
    };
    near(handshake, TlsPurpose::Handshake, [2.0, 9_000.0, 3_000.0]);
    near(read, TlsPurpose::Read, [1.0, 300.0, 400.0]);
    near(write, TlsPurpose::Write, [0.5, 200.0, 250.0]);
    assert_eq!(first.library_ns(), Some(9_500.0));
    assert_eq!(first.user_ns, Some(20_000.0));
    assert_eq!(first.not_seen, [""; 0]);
    assert_eq!((second.library_ns(), second.in_calls_ns()), (None, None));
    assert!(second.not_seen[0].contains("it is linked"));
}

/// Where calls were not timed, what the library took is not known; and there is nothing where nobody asked.
#[test]
fn what_was_not_measured() {
    let mut recording = comparison();
    for round in &mut recording.rounds {
        let time = round
            .profile
            .as_mut()
            .and_then(|profile| profile.tls_time.as_mut());
        for function in time.into_iter().flat_map(|time| &mut time.functions) {
            function.calls_ns = None;
        }
    }
    assert_eq!(by_arm(&recording)[0].library_ns(), None);
    let nobody = fixture::comparison(&[fixture::nginx(), fixture::h2o()], 4);
    assert_eq!(by_arm(&nobody), []);
}

/// Every format has the table and the reasons, without escape sequences; none where nobody asked.
#[test]
fn every_format_has_the_table() {
    let style = Style {
        width: 110,
        ..Style::default()
    };
    let footer = Footer::default();
    let formats = |recording: &Recording| {
        [
            reports::text::compare(recording, &style, &footer),
            reports::markdown::compare(recording, &footer),
            reports::html::compare(recording, &footer),
        ]
    };
    for text in formats(&comparison()) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in ["library us/req", "handshake", "is not seen into"] {
            assert!(text.contains(word), "{word} is missing:\n{text}");
        }
        assert!(!text.contains('\u{1b}'));
    }
    let text = &formats(&comparison())[0];
    let row = text
        .lines()
        .find(|line| line.contains(" handshake "))
        .unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        cells[1..],
        ["handshake", "2.000", "9.00", "45%", "3.00"],
        "{row}"
    );
    for text in formats(&fixture::comparison(&[fixture::nginx(), fixture::h2o()], 4)) {
        assert!(!text.contains("library us/req"));
    }
}

/// Of a live server they are divided by the requests that were counted, and by nothing where they were not.
#[test]
fn of_a_live_server() {
    let mut profile = fixture::profile(&fixture::nginx(), 1000.0);
    profile.tls_time = Some(time(1000));
    assert_eq!(of_profile(&profile), None);
    profile.requests = Some(RequestCount {
        source: RequestSource::AccessLog,
        origin: "access.log".to_owned(),
        requests: Some(1000),
        window: None,
        uncertainty: None,
    });
    let costs = of_profile(&profile).unwrap();
    near(&costs[0], TlsPurpose::Handshake, [2.0, 9_000.0, 3_000.0]);
    let recording = fixture::profile_recording(profile);
    let text = reports::text::profile(&recording, &Style::default(), &Footer::default());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = "per request, CPU outside of system calls: handshake 9.00 us, read 0.300 us, write 0.200 us";
    assert!(text.contains(line), "{text}");
}

//! Exact counts: requests one at a time, every system call of the server accounted for.

use std::collections::BTreeMap;

use recording::{Probes, Recording, Round};
use testserver::Style;

use crate::missing;
use crate::strace::{Rows, rows};
use crate::whyfast::recording;

/// Requests of a window.
const REQUESTS: u64 = 10_000;

/// 10,000 requests to each style of the built-in server give exactly the documented calls.
#[test]
fn built_in_server_makes_the_documented_calls() {
    let (recording, output) = recording(&[
        "compare",
        "testserver:sendfile",
        "testserver:open-read",
        "--lock-step",
        "10000",
    ]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for style in Style::ALL {
        let round = round_of(&recording, style.name());
        let wanted: BTreeMap<String, (u64, u64)> = style
            .calls_per_request()
            .iter()
            .map(|call| {
                let per_request = (u64::from(call.per_request), u64::from(call.failing));
                (
                    call.name.to_owned(),
                    (per_request.0 * REQUESTS, per_request.1 * REQUESTS),
                )
            })
            .collect();
        assert_eq!(counts(round), wanted, "{}", style.name());
    }
}

/// nginx and h2o, as in the published comparison, make exactly the calls that strace shows.
#[test]
fn nginx_and_h2o_make_the_known_calls() {
    if missing("nginx_and_h2o_make_the_known_calls", &["nginx", "h2o"]) {
        return;
    }
    let (recording, output) = recording(&["compare", "nginx", "h2o", "--lock-step", "10000"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let check = |arm: &str, wanted: &[(&str, u64)]| {
        let wanted: BTreeMap<String, (u64, u64)> = wanted
            .iter()
            .map(|&(name, per_request)| (name.to_owned(), (per_request * REQUESTS, 0)))
            .collect();
        let counts = counts(round_of(&recording, arm));
        // A timer may fire inside the window; what is not per request is not of the requests.
        let per_request: BTreeMap<_, _> = counts
            .into_iter()
            .filter(|(_, (count, _))| *count >= REQUESTS / 100)
            .collect();
        assert_eq!(per_request, wanted, "{arm}");
    };
    check(
        "nginx",
        &[
            ("epoll_wait", 1),
            ("recvfrom", 1),
            ("sendfile", 1),
            ("setsockopt", 2),
            ("writev", 1),
        ],
    );
    check(
        "h2o",
        &[
            ("close", 1),
            ("epoll_wait", 1),
            ("newfstatat", 1),
            ("openat", 1),
            ("pread64", 1),
            ("read", 1),
            ("writev", 1),
        ],
    );
}

fn round_of<'a>(recording: &'a Recording, arm: &str) -> &'a Round {
    let round = recording
        .rounds
        .iter()
        .find(|round| round.arm == arm)
        .expect("the arm has a round");
    assert_eq!(round.failed, None);
    assert_eq!(round.probes, Probes::On);
    assert_eq!(round.profile_requests, Some(REQUESTS as f64));
    let profile = round.profile.as_ref().expect("the round is profiled");
    assert_eq!(profile.lost.total(), 0);
    round
}

fn counts(round: &Round) -> Rows {
    rows(round.profile.as_ref().expect("the round is profiled"))
}

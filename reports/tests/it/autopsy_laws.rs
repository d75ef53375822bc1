//! Laws of the examination of other tools' output: conclusions follow their figures.

use std::fmt::Write as _;

use proptest::prelude::*;
use reports::autopsy::{Source, examine};

use crate::autopsy::{ALL, examined, said};

/// Runs one after the other, with nothing between them, are as many runs.
#[test]
fn runs_end_where_the_next_begins() {
    for run in [
        include_str!("../fixtures/autopsy/ab-2.3.txt"),
        include_str!("../fixtures/autopsy/hey-0.1.4.txt"),
        include_str!("../fixtures/tools/h2load-1.52-n.txt"),
        include_str!("../fixtures/tools/httperf-0.9.0.txt"),
        include_str!("../fixtures/tools/wrk-4.1-latency.txt"),
    ] {
        let runs = examined(&run.repeat(3));
        assert_eq!(runs.servers[0].loads.len(), 3, "{run}");
    }
}

/// A pair of servers like those of the published comparison, with figures to choose.
#[derive(Clone, Debug)]
struct Figures {
    responses: u64,
    failed_opens: u64,
    timeouts: u64,
    rate: u64,
}

impl Figures {
    fn text(&self) -> String {
        let Self {
            responses,
            failed_opens,
            timeouts,
            rate,
        } = *self;
        let opened = responses - failed_opens;
        let errors = if timeouts > 0 {
            format!("  Socket errors: connect 0, read 0, write 0, timeout {timeouts}\n")
        } else {
            String::new()
        };
        let run = |rate: u64| {
            format!(
                "Running 100s test @ http://h/1\n  {} requests in 100.00s, 1.00MB read\n{errors}Requests/sec: {rate}.00\n",
                rate * 100
            )
        };
        let table = |rows: &[(&str, u64, u64)]| {
            let mut text = "% time seconds usecs/call calls errors syscall\n".to_owned();
            for (name, calls, errors) in rows {
                let errors = if *errors > 0 {
                    errors.to_string()
                } else {
                    String::new()
                };
                writeln!(text, "1.00 0.000001 0 {calls} {errors} {name}").unwrap();
            }
            let calls: u64 = rows.iter().map(|row| row.1).sum();
            text + &format!("100.00 0.000001 {calls} total\n")
        };
        let cached = table(&[
            ("recvfrom", responses, 0),
            ("writev", responses, 0),
            ("sendfile", responses, 0),
            ("setsockopt", 2 * responses, 0),
            ("epoll_wait", responses, 0),
        ]);
        let opening = table(&[
            ("read", responses + opened, 0),
            ("open", responses, failed_opens),
            ("fstat", opened, 0),
            ("close", opened, 0),
            ("writev", responses, 0),
            ("epoll_wait", responses, 0),
        ]);
        format!(
            "nginx\n\n{}{cached}\nh2o\n\n{}{opening}",
            run(rate * 2),
            run(rate)
        )
    }
}

proptest! {
    /// Scaled and changed figures: each conclusion is there if, and only if, its cause is.
    #[test]
    fn conclusions_follow_their_figures(
        responses in 1_000_u64..10_000_000,
        failing in any::<bool>(),
        timing_out in any::<bool>(),
        rate in 100_u64..1_000_000,
    ) {
        // A trace as long as the run would be another conclusion.
        prop_assume!((responses as f64 / rate as f64 / 100.0 - 1.0).abs() > 0.1);
        prop_assume!((responses as f64 / rate as f64 / 200.0 - 1.0).abs() > 0.1);
        let figures = Figures {
            responses,
            failed_opens: if failing { responses / 50 } else { 0 },
            timeouts: if timing_out { rate } else { 0 },
            rate,
        };
        let autopsy = examined(&figures.text());
        let there = |rule: &str| !said(&autopsy, rule, "").is_empty();
        prop_assert_eq!(there("failed-opens"), failing);
        prop_assert_eq!(said(&autopsy, "file-cycle", "h2o").contains("failures"), failing);
        prop_assert!(there("cork") && there("file-cache-parity") && there("counts-explain"));
        prop_assert_eq!(there("errors"), timing_out);
        prop_assert_eq!(there("latency"), timing_out);
        prop_assert!(!there("poller") && !there("contamination") && !there("ciphers"));
    }

    /// Equal ciphers and header bytes are no conclusion.
    #[test]
    fn parity_follows_the_ciphers(equal in any::<bool>(), head_bytes in 1_000_u64..10_000_000) {
        let run = |name: &str, cipher: &str| format!(
            "{name}\n\nstarting benchmark...\nTLS Protocol: TLSv1.3\nCipher: {cipher}\n\nfinished in 1.00s, 1000.00 req/s, 1.00MB/s\n\
             requests: 1000 total, 1000 started, 1000 done, 1000 succeeded, 0 failed, 0 errored, 0 timeout\n\
             traffic: 1.00MB (1000000) total, 1.00KB ({head_bytes}) headers (space savings 0.00%), 1.00MB (900000) data\n"
        );
        let other = if equal { "TLS_AES_128_GCM_SHA256" } else { "TLS_AES_256_GCM_SHA384" };
        let autopsy = examined(&(run("nginx", "TLS_AES_128_GCM_SHA256") + &run("caddy", other)));
        prop_assert_eq!(said(&autopsy, "ciphers", "").is_empty(), equal);
        prop_assert_eq!(autopsy.verdict.contains("ciphers differ"), !equal);
        prop_assert!(said(&autopsy, "header-bytes", "").is_empty());
    }

    /// No text makes it panic, blocks with broken lines included.
    #[test]
    fn any_text_is_examined(lines in prop::collection::vec(prop::sample::select(pieces()), 0..40), noise in "\\PC{0,30}") {
        let text = lines.join("\n") + &noise;
        drop(examine(&[Source { name: "x", text: &text }], &["nginx"]));
    }
}

/// Lines of all fixtures.
fn pieces() -> Vec<&'static str> {
    ALL.iter().flat_map(|text| text.lines()).collect()
}

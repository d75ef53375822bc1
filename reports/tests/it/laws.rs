//! Laws that hold for any recording.

use proptest::prelude::*;
use recording::{Probes, Recording};
use reports::join::join_arm;
use reports::metrics::PROBES_THROUGHPUT;
use reports::{Footer, Style, analyse, markdown, text};

use crate::fixture::{Server, comparison, h2o, load_recording, nginx, profile, profile_recording};

/// A comparison with any speeds, some rounds failed, some halves missing.
fn any_comparison() -> impl Strategy<Value = Recording> {
    let speeds = (1.0_f64..2e5, 1.0_f64..2e5);
    let holes = prop::collection::vec(0_u8..12, 20);
    (speeds, 0_u32..5, holes).prop_map(|((a, b), pairs, holes)| {
        let servers = [Server { rps: a, ..nginx() }, Server { rps: b, ..h2o() }];
        let mut recording = comparison(&servers, pairs);
        for (round, hole) in recording.rounds.iter_mut().zip(holes) {
            match hole {
                0 => round.failed = Some("failed".to_owned()),
                1 => round.load = None,
                2 => round.profile = None,
                3 => round.server_cpu = None,
                4 => round.load.as_mut().unwrap().latency = None,
                _ => {}
            }
        }
        recording
    })
}

/// Text that does its worst in a terminal or on a page.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("\x1b]0;owned\x07\x1b[2J".to_owned()),
        Just("a|b`c`<script>alert(1)</script>@all #1 \u{202e}x".to_owned()),
        "(?s).{0,60}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Analysing twice gives the same, also through a file.
    #[test]
    fn analysis_is_idempotent(mut recording in any_comparison()) {
        analyse(&mut recording);
        let mut again = Recording::parse(recording.to_json().as_bytes()).unwrap();
        prop_assert!(again == recording);
        analyse(&mut again);
        prop_assert!(again == recording);
    }

    /// Swapping the arms inverts every ratio and interval and keeps the word.
    #[test]
    fn swapping_the_arms_inverts(recording in any_comparison()) {
        let mut forth = recording.clone();
        let mut back = recording;
        back.arms.reverse();
        analyse(&mut forth);
        analyse(&mut back);
        for row in forth.comparisons.iter().filter(|row| row.metric != PROBES_THROUGHPUT) {
            let same = |other: &&recording::Comparison| other.metric == row.metric;
            let other = back.comparisons.iter().find(same).unwrap();
            prop_assert!((row.ratio * other.ratio - 1.0).abs() < 1e-9);
            prop_assert_eq!(row.interval.is_some(), other.interval.is_some());
            if let (Some((low, high)), Some((other_low, other_high))) =
                (row.interval, other.interval)
            {
                prop_assert!((low * other_high - 1.0).abs() < 1e-6);
                prop_assert!((high * other_low - 1.0).abs() < 1e-6);
            }
        }
        let word = |recording: &Recording| recording.verdict.as_ref().map(|v| (v.word, v.winner.clone()));
        prop_assert_eq!(word(&forth), word(&back));
        for (there, back) in forth.attributions.iter().zip(&back.attributions) {
            let size = there.a_ns.max(there.b_ns);
            prop_assert!((there.delta_ns + back.delta_ns).abs() <= 1e-9 * size);
            prop_assert!((there.log_ratio + back.log_ratio).abs() <= 1e-9);
        }
    }

    /// Bars add up to the difference whatever was measured, in time and in logarithms.
    #[test]
    fn bars_add_up(mut recording in any_comparison()) {
        analyse(&mut recording);
        for attribution in &recording.attributions {
            prop_assert!(attribution.receipt.sum_error.abs() < 1e-9, "{attribution:?}");
            prop_assert!(attribution.receipt.log_sum_error.abs() < 1e-9, "{attribution:?}");
            let sum: f64 = attribution.bars.iter().filter_map(|bar| bar.delta_ns).sum();
            let size = attribution.a_ns.max(attribution.b_ns);
            prop_assert!((sum - attribution.delta_ns).abs() < 1e-9 * size);
        }
    }

    /// The table of an arm adds up to its rounds: calls, and time.
    #[test]
    fn figures_add_up(recording in any_comparison()) {
        let figures = join_arm(&recording, "nginx");
        let good = || recording.rounds.iter().filter(|round| {
            round.arm == "nginx" && round.probes == Probes::On && round.failed.is_none()
        });
        let counted: u64 = good()
            .filter_map(|round| round.profile.as_ref())
            .flat_map(|profile| &profile.calls)
            .map(|row| row.count)
            .sum();
        let joined: u64 = figures.calls.iter().map(|call| call.count).sum();
        prop_assert_eq!(joined, counted);
        if let (Some(each), Some(requests)) = (figures.syscalls_per_request, figures.requests) {
            prop_assert!((each * requests - counted as f64).abs() <= 1e-6 * counted as f64 + 1e-6);
        }
    }

    /// Nothing that a server, a kernel or a user wrote steers the terminal or the page.
    #[test]
    fn hostile_text_is_harmless(bad in hostile()) {
        let style = Style { width: 80, colour: false };
        let end = Footer { saved: vec![bad.clone()], reproduce: Some(bad.clone()) };
        let mut compare = comparison(&[nginx(), h2o()], 2);
        compare.arms[1].name.clone_from(&bad);
        compare.arms[1].settings[0].key.clone_from(&bad);
        compare.arms[1].config[0].text.clone_from(&bad);
        compare.arms[1].response.as_mut().unwrap().headers[0].1.clone_from(&bad);
        compare.host.cpu_model = Some(bad.clone());
        for round in compare.rounds.iter_mut().filter(|round| round.arm == "h2o") {
            round.arm.clone_from(&bad);
            if let Some(profile) = &mut round.profile {
                profile.calls[0].name.clone_from(&bad);
            }
        }
        compare.rounds[0].failed = Some(bad.clone());
        analyse(&mut compare);
        let mut profile = profile(&nginx(), 10.0);
        profile.processes[0].comm = Some(bad.clone());
        profile.calls[0].name.clone_from(&bad);
        profile.in_flight_at_end[0].name.clone_from(&bad);
        let profile = profile_recording(profile);
        let mut load = load_recording();
        load.rounds[0].load.as_mut().unwrap().url.clone_from(&bad);

        for text in [
            text::compare(&compare, &style, &end),
            text::profile(&profile, &style, &end),
            text::load(&load, &style, &end),
            markdown::compare(&compare, &end),
            markdown::profile(&profile, &end),
            markdown::load(&load, &end),
        ] {
            prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
            let deceptive = ['\u{202e}', '\u{2066}', '\u{200b}'];
            prop_assert!(!text.contains(deceptive));
            prop_assert!(text.chars().count() <= markdown::CHARACTERS_LIMIT);
        }
    }
}

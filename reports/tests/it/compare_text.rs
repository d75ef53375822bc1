//! Sentences and rows of a comparison's text: what they say, and when they are there at all.

use recording::{NotMeasured, Probes, Recording};
use reports::{Footer, Style, analyse, markdown, text};

use crate::fixture::{Server, call, comparison, h2o, nginx, unsteady};

fn rendered(recording: &mut Recording) -> String {
    analyse(recording);
    text::compare(recording, &Style::default(), &Footer::default())
}

/// The one line that contains all of the words.
fn line<'a>(text: &'a str, words: &[&str]) -> &'a str {
    let mut found = text
        .lines()
        .filter(|line| words.iter().all(|word| line.contains(word)));
    let first = found.next();
    assert!(
        first.is_some() && found.next().is_none(),
        "{words:?}: {text}"
    );
    first.unwrap()
}

fn cells(line: &str) -> Vec<f64> {
    line.split_ascii_whitespace()
        .filter_map(|cell| cell.parse().ok())
        .collect()
}

/// Time inside calls and outside adds up to the CPU time, also where the wall clock inside calls is
/// more than the CPU time, so that the rest is negative.
#[test]
fn calls_and_the_rest_add_up_to_the_cpu_time() {
    let asleep = Server {
        cpu_ns: 4_000.0,
        ..h2o()
    };
    for (server, sign) in [(h2o(), 1.0), (asleep, -1.0)] {
        let text = rendered(&mut comparison(&[nginx(), server], 8));
        // Of the sums: number, time and errors per arm, then the difference in time.
        let all = cells(line(&text, &[" all "]));
        let outside = cells(line(&text, &[" outside calls  "]));
        let cpu = cells(line(&text, &[" server CPU   "]));
        let inside = [all[1], all[4], all[6]];
        for (column, inside) in inside.iter().enumerate() {
            let sum = inside + outside[column];
            assert!((sum - cpu[column]).abs() < 0.06, "{text}");
        }
        assert!(outside[1] * sign > 0.0, "{text}");
    }
}

/// Without times there is nothing to subtract, and without CPU time nothing to subtract from.
#[test]
fn the_rest_needs_times_and_cpu_time() {
    let mut counted = comparison(&[nginx(), h2o()], 3);
    for profile in counted.rounds.iter_mut().filter_map(|r| r.profile.as_mut()) {
        profile.detail = recording::Detail::Counts;
    }
    let mut unread = comparison(&[nginx(), h2o()], 3);
    for round in unread.rounds.iter_mut().filter(|r| r.probes == Probes::On) {
        round.server_cpu = None;
    }
    for mut recording in [counted, unread.clone()] {
        let text = rendered(&mut recording);
        assert!(
            text.contains(" all ") && !text.contains("outside calls"),
            "{text}"
        );
    }
    // One arm with CPU time: its column is there, the difference is not.
    for round in unread
        .rounds
        .iter_mut()
        .filter(|round| round.arm == "nginx")
    {
        if let (Some(window), Probes::On) = (round.window, round.probes) {
            round.server_cpu = Some(recording::ServerCpu {
                window,
                total_ns: 2_000_000_000,
                user_ns: None,
                system_ns: None,
                processes: 1,
                by_process: Vec::new(),
                threads: Vec::new(),
            });
        }
    }
    let text = rendered(&mut unread);
    let cpu = line(&text, &[" server CPU   "]);
    assert!(
        cpu.trim_end().ends_with('-') && cells(cpu).len() == 1,
        "{text}"
    );
}

/// Unsteady throughput and steady CPU time: the verdict is open, and one sentence has the CPU time.
#[test]
fn cpu_time_is_told_where_throughput_cannot() {
    let dear = Server {
        name: "dear",
        cpu_ns: 19_500.0,
        ..nginx()
    };
    for servers in [[nginx(), dear.clone()], [dear.clone(), nginx()]] {
        let mut recording = comparison(&servers, 8);
        unsteady(&mut recording, "dear", 1.15);
        let text = rendered(&mut recording);
        assert!(text.contains("inconclusive"), "{text}");
        let sentence = line(&text, &["CPU per request: "]);
        assert!(
            sentence.contains("dear needs 1.38")
                && sentence.contains(" times as much as nginx  [1.3"),
            "{sentence}"
        );
    }
    let steady = rendered(&mut comparison(&[nginx(), dear], 2));
    assert!(!steady.contains("CPU per request: "), "{steady}");
}

/// Two idle sides of a closed loop are no unknown limiter.
#[test]
fn two_idle_sides_are_named() {
    let mut recording = comparison(&[nginx(), h2o()], 8);
    for cpu in recording
        .rounds
        .iter_mut()
        .filter(|round| round.arm == "h2o")
        .filter_map(|round| round.server_cpu.as_mut())
    {
        cpu.total_ns /= 2;
    }
    let text = rendered(&mut recording).replace("\n         ", " ");
    assert!(
        text.contains(
            "h2o: server 48% of 1 CPU, client 58%, neither side busy: other work on the machine, \
             or waits"
        ),
        "{text}"
    );
}

/// Calls of single starts are one line, and still in the sum.
#[test]
fn rare_calls_are_one_line() {
    let mut starting = nginx();
    for name in ["brk", "mmap", "openat"] {
        starting.calls.push(call(name, 0.0003, 0.0, None, 300));
    }
    // As rare, but it takes time.
    starting
        .calls
        .push(call("fsync", 0.0003, 0.0, None, 9_000_000));
    let plain = Server {
        name: "plain",
        ..nginx()
    };
    let mut recording = comparison(&[starting, plain], 8);
    let text = rendered(&mut recording);
    let whole = markdown::compare(&recording, &Footer::default());
    line(&whole, &["**note**: 3 more calls below 0.001 per request"]);
    assert!(!text.contains("mmap") && text.contains(" fsync "), "{text}");
}

/// The end of a long reason is there.
#[test]
fn reasons_are_never_cut() {
    let mut recording = comparison(&[nginx(), h2o()], 3);
    recording.not_measured.push(NotMeasured {
        what: "something with a name that is longer than a table would allow".to_owned(),
        why: format!("{} and the end of it", "because ".repeat(80)),
        remedy: None,
    });
    let text = rendered(&mut recording);
    assert!(
        text.contains("than a table would allow: not measured:"),
        "{text}"
    );
    assert!(text.contains("and the end of it"), "{text}");
}

/// Versions are numbers; hashes are in Markdown only; a template says so and names its workers.
#[test]
fn programs_are_identified() {
    let mut recording = comparison(&[nginx(), h2o()], 3);
    recording.arms[0].version = Some("nginx/1.22.1".to_owned());
    recording.arms[1].version = Some("h2o version 2.2.5".to_owned());
    recording.arms[0].config[0].text = "worker_processes {workers};\n".to_owned();
    recording.arms[1].config[0].text = "events { threads 1; }\n".to_owned();
    let text = rendered(&mut recording);
    assert!(
        text.contains("2023-11-14  nginx 1.22.1, h2o 2.2.5\n"),
        "{text}"
    );
    let page = markdown::compare(&recording, &Footer::default());
    assert!(
        page.contains("nginx 1.22.1 (sha256 abababababab), h2o"),
        "{page}"
    );
    assert!(
        page.contains("<summary>nginx.conf of nginx, template, 1 worker</summary>"),
        "{page}"
    );
    assert!(
        page.contains("<summary>h2o.conf of h2o</summary>"),
        "{page}"
    );
}

/// Names that are too long for a title leave its direction in words.
#[test]
fn the_direction_of_ratios_is_said() {
    let long = Server {
        name: "testserver:writev,cache",
        ..h2o()
    };
    let text = rendered(&mut comparison(&[nginx(), long], 3));
    assert!(text.contains("  first/second "), "{text}");
}

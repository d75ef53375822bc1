//! Gates: each one ok, broken and not measured.

use recording::{
    ArmKind, ConnectionCounts, FailureClass, Gate, GateStatus, LostClass, Probes, Recording,
    ResponseShape, Setting, VerdictWord, exit_code as code,
};
use reports::{Limits, analyse, analyse_allowing, exit_code};

use crate::fixture::{comparison, h2o, lock_step, nginx};

pub(crate) fn gate<'a>(recording: &'a Recording, id: &str) -> &'a Gate {
    recording.gates.iter().find(|gate| gate.id == id).unwrap()
}

pub(crate) fn analysed(change: impl Fn(&mut Recording)) -> Recording {
    let mut recording = comparison(&[nginx(), h2o()], 8);
    change(&mut recording);
    analyse(&mut recording);
    recording
}

/// The usual comparison passes, warns of the file cache, and says what it cannot know.
#[test]
fn usual_comparison_passes() {
    let recording = analysed(|_| {});
    let statuses: Vec<(&str, GateStatus)> = recording
        .gates
        .iter()
        .map(|gate| (gate.id.as_str(), gate.status))
        .collect();
    assert_eq!(
        statuses,
        [
            ("G1", GateStatus::Ok),
            ("G2", GateStatus::Ok),
            ("G3", GateStatus::Ok),
            ("G4", GateStatus::Ok),
            ("G5", GateStatus::Ok),
            ("G6", GateStatus::Ok),
            ("G7", GateStatus::Ok),
            ("G8", GateStatus::NotMeasured),
            ("G9", GateStatus::Ok),
            ("G10", GateStatus::NotMeasured),
            ("G11", GateStatus::Ok),
            ("G12", GateStatus::Ok),
            ("G13", GateStatus::NotMeasured),
            ("G14", GateStatus::Warn),
        ]
    );
    assert_eq!(gate(&recording, "G14").value, "file cache on|off");
    // Headers that differ are listed, Date is not.
    assert!(
        gate(&recording, "G1")
            .value
            .contains("headers differ: Server nginx|h2o")
    );
    assert!(!gate(&recording, "G1").value.contains("Date"));
}

/// Each kind of unequal response refuses, with both values, and nobody wins.
#[test]
fn unequal_responses_refuse() {
    type Break = fn(&mut ResponseShape);
    let breaks: [(&str, Break); 6] = [
        ("status 200|200 404", |shape| {
            shape.statuses.extend([(404, 1)]);
        }),
        ("body sha256 cdcdcdcdcdcd|efefefefefef", |shape| {
            shape.body_sha256 = "ef".repeat(32);
        }),
        ("body length 1|2 B, 50%", |shape| shape.body_bytes = 2),
        ("Content-Encoding none|gzip", |shape| {
            shape.content_encoding = Some("gzip".to_owned());
        }),
        ("framing content-length|chunked", |shape| {
            shape.framing = "chunked".to_owned();
        }),
        ("head 237|302 B", |shape| shape.head_bytes = 302),
    ];
    for (expected, change) in breaks {
        let recording = analysed(|recording| {
            change(recording.arms[1].response.as_mut().unwrap());
        });
        let broken = gate(&recording, "G1");
        assert_eq!(broken.status, GateStatus::Refuse);
        assert!(broken.value.contains(expected), "{}", broken.value);
        assert!(broken.fix.contains("--allow-mismatch G1"));
        let verdict = recording.verdict.as_ref().unwrap();
        assert_eq!(
            (verdict.word, &verdict.winner),
            (VerdictWord::NotComparable, &None)
        );
        assert_eq!(
            exit_code(&recording, &Limits::default()),
            code::NOT_COMPARABLE
        );
    }
}

/// Differences inside the limits pass: 1 % of the body, 64 bytes of the head, header order.
#[test]
fn small_differences_pass() {
    let recording = analysed(|recording| {
        for (arm, bytes) in recording.arms.iter_mut().zip([1000, 1010]) {
            let shape = arm.response.as_mut().unwrap();
            shape.body_bytes = bytes;
            shape.head_bytes = 200 + (bytes - 1000) * 6;
            shape.headers.reverse();
        }
    });
    assert_eq!(gate(&recording, "G1").status, GateStatus::Ok);
}

/// In HTTP/2 a length before the body is no framing: the stream ends it either way.
#[test]
fn streams_frame_bodies_alike() {
    let recording = analysed(|recording| {
        recording.arms[1].response.as_mut().unwrap().framing = "end-stream".to_owned();
    });
    assert_eq!(gate(&recording, "G1").status, GateStatus::Ok);
}

/// An allowed gate gives a verdict, stays in the report, and stays allowed when analysed again.
#[test]
fn allowed_mismatch_is_kept() {
    let mut recording = comparison(&[nginx(), h2o()], 8);
    recording.arms[1].response.as_mut().unwrap().framing = "chunked".to_owned();
    analyse_allowing(&mut recording, &["G1".to_owned()]);
    assert_eq!(gate(&recording, "G1").status, GateStatus::Allowed);
    assert_eq!(
        recording.verdict.as_ref().unwrap().word,
        VerdictWord::Faster
    );
    let first = recording.clone();
    analyse(&mut recording);
    assert_eq!(recording, first);
}

/// Rounds of different kernels refuse, whichever of them the recording names; a run of its own has one
/// kernel and does not list the gate.
#[test]
fn kernels_are_not_mixed() {
    let on = |kernels: [Option<&'static str>; 2]| {
        analysed(move |recording| {
            recording.host.kernel = "6.1.0".to_owned();
            for round in &mut recording.rounds {
                let kernel = kernels[usize::from(round.arm == "h2o")];
                if let Some(profile) = &mut round.profile {
                    profile.kernel = kernel.map(str::to_owned);
                }
            }
        })
    };
    let is_listed = |recording: &Recording| recording.gates.iter().any(|gate| gate.id == "G15");
    assert!(!is_listed(&on([Some("6.1.0"), Some("6.1.0")])));
    assert!(!is_listed(&on([None, None])));
    for kernels in [
        [Some("6.1.0"), Some("6.12.0")],
        [Some("6.12.0"), Some("6.12.0")],
        [None, Some("6.12.0")],
    ] {
        let mixed = on(kernels);
        assert_eq!(gate(&mixed, "G15").status, GateStatus::Refuse);
        assert_eq!(gate(&mixed, "G15").value, "6.1.0; 6.12.0");
        assert_eq!(
            mixed.verdict.as_ref().unwrap().word,
            VerdictWord::NotComparable
        );
    }
}

/// One server that closes every connection refuses; limits that a window cannot tell do not.
#[test]
fn keep_alive_has_to_agree() {
    let close_per = |requests: u64| {
        move |recording: &mut Recording| {
            for round in recording
                .rounds
                .iter_mut()
                .filter(|round| round.arm == "h2o")
            {
                let load = round.load.as_mut().unwrap();
                load.connections = ConnectionCounts {
                    asked: 64,
                    open_at_start: 64,
                    established: load.ledger.ok / requests,
                    closed_by_server: load.ledger.ok / requests,
                    ..ConnectionCounts::default()
                };
            }
        }
    };
    let status = |requests| gate(&analysed(close_per(requests)), "G4").status;
    assert_eq!(status(1), GateStatus::Refuse);
    assert_eq!(status(100), GateStatus::Refuse);
    assert_eq!(status(2000), GateStatus::Ok);
}

/// Failures above a hundredth of a percent refuse, below they pass.
#[test]
fn errors_have_a_limit() {
    let with_failures = |count: u64| {
        analysed(|recording| {
            let ledger = &mut recording.rounds[0].load.as_mut().unwrap().ledger;
            ledger.sent += count;
            ledger.fail(FailureClass::Reset, "body", count);
        })
    };
    assert_eq!(gate(&with_failures(2), "G5").status, GateStatus::Ok);
    let broken = with_failures(2000);
    assert_eq!(gate(&broken, "G5").status, GateStatus::Refuse);
    assert!(gate(&broken, "G5").value.starts_with("nginx 2000 (0.09%)"));
}

/// A busy client beside a server that is not is a warning.
#[test]
fn busy_client_warns() {
    let recording = analysed(|recording| {
        for round in &mut recording.rounds {
            round.load.as_mut().unwrap().busiest_thread_share = 0.95;
            round.server_cpu.as_mut().unwrap().total_ns /= 2;
        }
    });
    assert_eq!(gate(&recording, "G6").status, GateStatus::Warn);
    let pinless = analysed(|recording| recording.scenario.as_mut().unwrap().server_cpus = None);
    assert_eq!(gate(&pinless, "G6").status, GateStatus::NotMeasured);
}

/// Probes that cost more than the limit warn; without probed rounds the cost is not measured.
#[test]
fn probe_cost_has_a_limit() {
    let mut slow = nginx();
    slow.probed = 0.8;
    let mut recording = comparison(&[slow, h2o()], 3);
    analyse(&mut recording);
    assert_eq!(gate(&recording, "G11").status, GateStatus::Warn);
    let off = analysed(|recording| recording.rounds.retain(|round| round.probes == Probes::Off));
    assert_eq!(gate(&off, "G11").status, GateStatus::NotMeasured);
    assert!(gate(&off, "G11").fix.contains("sudo"));
    assert_eq!(gate(&off, "G12").status, GateStatus::NotMeasured);
    assert_eq!(off.verdict.as_ref().unwrap().word, VerdictWord::Faster);
}

/// Lost events hide the counts and nothing else.
#[test]
fn lost_events_warn() {
    let recording = analysed(|recording| {
        for profile in recording
            .rounds
            .iter_mut()
            .filter_map(|round| round.profile.as_mut())
        {
            profile.lost.add(LostClass::UntrackedProcesses, 100);
        }
    });
    assert_eq!(gate(&recording, "G12").status, GateStatus::Warn);
    assert_eq!(
        recording.verdict.as_ref().unwrap().word,
        VerdictWord::Faster
    );
}

/// Settings that one side does not declare are not measured, never equal.
#[test]
fn undeclared_settings_are_not_equal() {
    let recording = analysed(|recording| recording.arms[1].settings.clear());
    assert_eq!(gate(&recording, "G14").status, GateStatus::NotMeasured);
    let equal = analysed(|recording| {
        recording.arms[1].settings = recording.arms[0].settings.clone();
    });
    assert_eq!(gate(&equal, "G14").status, GateStatus::Ok);
}

/// Rounds with and without probes that share no pair are still compared, as two samples.
#[test]
fn probe_cost_needs_no_common_pairs() {
    let recording = analysed(|recording| {
        for round in recording
            .rounds
            .iter_mut()
            .filter(|round| round.probes == Probes::On)
        {
            round.pair += 8;
        }
    });
    let cost = recording
        .comparisons
        .iter()
        .find(|row| row.metric == "probes_throughput")
        .unwrap();
    assert_eq!(cost.method, "unpaired-log-welch");
    assert!((cost.ratio - 0.92).abs() < 0.01 && cost.interval.is_some());
    assert_eq!(gate(&recording, "G11").status, GateStatus::Ok);
}

/// A machine with other work warns; a load that is not known is not measured.
#[test]
fn other_work_warns() {
    let under = |centi| analysed(move |recording| recording.host.load_average_centi = centi);
    assert_eq!(gate(&under(Some(150)), "G9").status, GateStatus::Ok);
    let busy = under(Some(151));
    assert_eq!(gate(&busy, "G9").status, GateStatus::Warn);
    assert_eq!(
        gate(&busy, "G9").value,
        "load average 1.51 at the start, 2 CPUs"
    );
    assert_eq!(gate(&busy, "G9").fix, "stop other work");
    assert_eq!(gate(&under(None), "G9").status, GateStatus::NotMeasured);
}

/// Lock-step rounds are run with probes only, and no remedy would change that.
#[test]
fn probe_cost_of_lock_step_is_not_measured() {
    let mut recording = lock_step(&[nginx(), h2o()], 1000);
    analyse(&mut recording);
    let cost = gate(&recording, "G11");
    assert_eq!(cost.status, GateStatus::NotMeasured);
    assert_eq!(
        cost.value,
        "rounds in lock-step have no counterpart without probes"
    );
    assert_eq!(cost.fix, "");
}

/// What explains a value in parentheses is shown and not compared.
#[test]
fn explanations_of_settings_are_not_compared() {
    let with = |second: &'static str| {
        analysed(move |recording| {
            recording.arms[0].settings[1].value = "off".to_owned();
            recording.arms[1].settings[1].value = second.to_owned();
        })
    };
    let equal = with("off (opens the file for each request)");
    assert_eq!(gate(&equal, "G14").status, GateStatus::Ok);
    assert_eq!(gate(&equal, "G14").value, "2 settings equal");
    let other = with("on (file handles)");
    assert_eq!(gate(&other, "G14").status, GateStatus::Warn);
    assert_eq!(
        gate(&other, "G14").value,
        "file cache off|on (file handles)"
    );
}

/// The style of built-in servers is what is compared: no warning, and nothing is called equal.
#[test]
fn styles_of_built_in_servers_do_not_warn() {
    let style = |value: &str| Setting {
        key: "style".to_owned(),
        value: value.to_owned(),
    };
    let recording = analysed(|recording| {
        for (arm, value) in recording.arms.iter_mut().zip(["writev", "write"]) {
            arm.kind = ArmKind::Testserver;
            arm.settings = vec![style(value)];
        }
    });
    assert_eq!(gate(&recording, "G14").status, GateStatus::NotMeasured);
    assert!(gate(&recording, "G14").value.contains("that is compared"));
    // A setting of the same name that a recipe declares is a setting.
    let recipes = analysed(|recording| {
        for (arm, value) in recording.arms.iter_mut().zip(["a", "b"]) {
            arm.settings.push(style(value));
        }
    });
    assert!(gate(&recipes, "G14").value.contains("style a|b"));
}

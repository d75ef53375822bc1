//! Gates on the run as a whole: protocols, books, other work, the A/A control, tracers.

use recording::{
    Arm, ArmKind, CallObject, Family, GateStatus, IoUring, NotMeasured, Probes, Profile, Recording,
    Round, RoundRole, ServerCount, TlsNegotiated, TlsReport, Tracer, Unfair, UringOperation,
    VerdictWord,
};

use crate::fixture::{whole, work_of_others};
use crate::gates::{analysed, gate};

/// TLS and HTTP have to be the same; what differs is named by arm.
#[test]
fn protocols_have_to_agree() {
    let tls = |cipher: &str, full_handshakes| TlsReport {
        full_handshakes,
        resumed_handshakes: 64 - full_handshakes,
        retried_handshakes: 0,
        failed_handshakes: 0,
        early_data_handshakes: None,
        early_data_refused: None,
        handshake_time: None,
        negotiated: vec![TlsNegotiated {
            version: "TLSv1.3".to_owned(),
            cipher: cipher.to_owned(),
            group: Some("X25519".to_owned()),
            certificate_key: "ECDSA P-256".to_owned(),
            alpn: None,
            count: 64,
        }],
        clear_sent_bytes: 0,
        clear_received_bytes: 0,
    };
    let spoken = |cipher: &'static str, full: u64| {
        analysed(move |recording| {
            for round in &mut recording.rounds {
                let (cipher, full) = if round.arm == "h2o" {
                    (cipher, full)
                } else {
                    ("TLS_AES_128_GCM_SHA256", 64)
                };
                round.load.as_mut().unwrap().tls = Some(tls(cipher, full));
            }
        })
    };
    let status = |recording: &Recording| gate(recording, "G2").status;
    assert_eq!(
        status(&spoken("TLS_AES_128_GCM_SHA256", 64)),
        GateStatus::Ok
    );
    assert_eq!(
        status(&spoken("TLS_AES_128_GCM_SHA256", 0)),
        GateStatus::Refuse
    );
    let other = spoken("TLS_AES_256_GCM_SHA384", 64);
    assert_eq!(status(&other), GateStatus::Refuse);
    assert!(
        gate(&other, "G2")
            .value
            .contains("h2o: TLSv1.3 TLS_AES_256_GCM_SHA384")
    );
    assert_eq!(other.verdict.unwrap().word, VerdictWord::NotComparable);

    let deep = analysed(|recording| {
        for round in recording.rounds.iter_mut().filter(|r| r.arm == "h2o") {
            round.load.as_mut().unwrap().plan.depth = 4;
        }
    });
    assert_eq!(gate(&deep, "G3").status, GateStatus::Refuse);
    assert!(gate(&deep, "G3").value.contains("4 pipelined"));
}

/// Before there are rounds, what the parity check negotiated with each server refuses already where it
/// differs, and passes nothing.
#[test]
fn differing_handshakes_are_refused_before_the_first_round() {
    let looked = |cipher: &'static str| {
        analysed(move |recording| {
            recording.rounds.clear();
            for (arm, cipher) in recording
                .arms
                .iter_mut()
                .zip(["TLS_AES_128_GCM_SHA256", cipher])
            {
                arm.response.as_mut().unwrap().tls = Some(TlsNegotiated {
                    version: "TLSv1.3".to_owned(),
                    cipher: cipher.to_owned(),
                    group: Some("X25519".to_owned()),
                    certificate_key: "RSA 2048".to_owned(),
                    alpn: Some("h2".to_owned()),
                    count: 1,
                });
            }
        })
    };
    let equal = looked("TLS_AES_128_GCM_SHA256");
    assert_eq!(gate(&equal, "G2").status, GateStatus::NotMeasured);
    let other = looked("TLS_AES_256_GCM_SHA384");
    assert_eq!(gate(&other, "G2").status, GateStatus::Refuse);
    assert_eq!(
        gate(&other, "G2").value,
        "nginx: TLSv1.3 TLS_AES_128_GCM_SHA256 X25519 RSA 2048 h2; h2o: TLSv1.3 TLS_AES_256_GCM_SHA384 \
         X25519 RSA 2048 h2"
    );
    // HTTP/1.1 needs no ALPN.
    let chosen = |alpn: Option<&'static str>| {
        analysed(move |recording| {
            *recording = looked("TLS_AES_128_GCM_SHA256");
            for (arm, alpn) in recording.arms.iter_mut().zip([Some("http/1.1"), alpn]) {
                let tls = arm.response.as_mut().unwrap().tls.as_mut();
                tls.unwrap().alpn = alpn.map(str::to_owned);
            }
        })
    };
    assert_eq!(gate(&chosen(None), "G2").status, GateStatus::NotMeasured);
    assert_eq!(gate(&chosen(Some("h2")), "G2").status, GateStatus::Refuse);
    let one_in_clear = analysed(|recording| {
        let arms = std::mem::take(&mut recording.arms);
        *recording = looked("TLS_AES_128_GCM_SHA256");
        recording.arms[1] = arms[1].clone();
    });
    assert!(gate(&one_in_clear, "G2").value.contains("h2o: in clear"));
}

/// A gate that the scenario breaks because it repeats a publication is allowed, with what that did; the
/// same gate refuses the fair load, and other gates refuse all the same.
#[test]
fn what_a_publication_broke_is_allowed_with_its_reason() {
    let deep = |unfair: &'static [(Option<&str>, &str)]| {
        analysed(move |recording| {
            let scenario = recording.scenario.as_mut().unwrap();
            scenario.as_published = !unfair.is_empty();
            let unfair = unfair.iter().map(|(gate, what)| Unfair {
                gate: gate.map(str::to_owned),
                what: (*what).to_owned(),
            });
            scenario.unfair = unfair.collect();
            for round in recording.rounds.iter_mut().filter(|r| r.arm == "h2o") {
                round.load.as_mut().unwrap().plan.depth = 4;
            }
        })
    };
    let fair = deep(&[]);
    assert_eq!(gate(&fair, "G3").status, GateStatus::Refuse);
    assert_eq!(
        gate(&deep(&[(None, "x"), (Some("G2"), "y")]), "G3").status,
        GateStatus::Refuse
    );
    let published = deep(&[(Some("G3"), "one server got four requests at once")]);
    assert_eq!(gate(&published, "G3").status, GateStatus::Allowed);
    assert_eq!(
        gate(&published, "G3").fix,
        "as published: one server got four requests at once"
    );
    assert_ne!(published.verdict.unwrap().word, VerdictWord::NotComparable);
}

/// Twice the throughput at the same latency on as many connections cannot be.
#[test]
fn littles_law_has_to_hold() {
    let recording = analysed(|recording| {
        for round in recording.rounds.iter_mut().filter(|r| r.arm == "h2o") {
            let load = round.load.as_mut().unwrap();
            (load.ledger.ok, load.ledger.sent) = (2 * load.ledger.ok, 2 * load.ledger.sent);
        }
    });
    assert_eq!(gate(&recording, "G7").status, GateStatus::Refuse);
    let blind = analysed(|recording| {
        for round in &mut recording.rounds {
            round.load.as_mut().unwrap().latency = None;
        }
    });
    assert_eq!(gate(&blind, "G7").status, GateStatus::NotMeasured);
}

/// A server that counts a percent more than the client has another client.
#[test]
fn server_and_client_count_alike() {
    let counted = |extra: u64| {
        analysed(move |recording| {
            for round in &mut recording.rounds {
                let completed = round.load.as_ref().unwrap().ledger.ok;
                round.server_count = Some(ServerCount {
                    source: "test".to_owned(),
                    responses: completed + completed * extra / 1000,
                    completed,
                    in_flight: 64,
                });
            }
        })
    };
    assert_eq!(gate(&counted(0), "G8").status, GateStatus::Ok);
    assert_eq!(gate(&counted(1), "G8").status, GateStatus::Ok);
    assert_eq!(gate(&counted(10), "G8").status, GateStatus::Refuse);
}

/// Rounds in which the server's calls sent so many times the bytes that the client got.
fn sending(times: f64, change: impl Fn(&mut Arm, &mut Profile)) -> Recording {
    analysed(|recording| {
        for round in &mut recording.rounds {
            let load = round.load.as_mut().unwrap();
            load.traffic.received_bytes = RESPONSE_BYTES * load.ledger.ok;
            let Some(profile) = &mut round.profile else {
                continue;
            };
            profile
                .calls
                .retain(|row| row.family != Family::Send || row.name == "writev");
            let sent = round.profile_requests.unwrap() * RESPONSE_BYTES as f64 * times;
            let writev = profile.calls.iter_mut().find(|row| row.name == "writev");
            let writev = writev.unwrap();
            (writev.on, writev.bytes) = (Some(CallObject::Socket), Some(whole(sent)));
            let arm = recording.arms.iter_mut().find(|arm| arm.name == round.arm);
            change(arm.unwrap(), profile);
        }
    })
}

const RESPONSE_BYTES: u64 = 240;

/// Without a counter of the server's own, what it sent counts its responses: as many as the client got,
/// more, fewer. Who may have connections of its own only warns when it sends more.
#[test]
fn bytes_sent_count_responses() {
    let recipe = |_: &mut Arm, _: &mut Profile| {};
    let command = |arm: &mut Arm, _: &mut Profile| arm.kind = ArmKind::Command;
    let status = |recording: &Recording| gate(recording, "G8").status;
    let equal = sending(1.0, recipe);
    assert_eq!(status(&equal), GateStatus::Ok);
    assert!(gate(&equal, "G8").value.contains("(by bytes sent)"));
    assert_eq!(status(&sending(1.0009, recipe)), GateStatus::Ok);
    assert_eq!(status(&sending(1.01, recipe)), GateStatus::Refuse);
    assert_eq!(status(&sending(0.99, recipe)), GateStatus::Refuse);
    assert_eq!(status(&sending(2.0, command)), GateStatus::Warn);
    assert_eq!(status(&sending(0.5, command)), GateStatus::Refuse);
}

/// What bytes cannot tell is not measured, and the reason is the one that holds.
#[test]
fn uncounted_bytes_are_not_measured() {
    let why = |recording: &Recording| {
        let gate = gate(recording, "G8");
        assert_eq!(gate.status, GateStatus::NotMeasured, "{gate:?}");
        gate.value.clone()
    };
    let ring = sending(1.0, |_, profile| {
        profile.io_uring = Some(IoUring {
            operations: vec![UringOperation {
                opcode: Some(26),
                name: "send".to_owned(),
                submitted: 1,
                completed: 1,
                repeated: 0,
                errors: 0,
                time: None,
            }],
            overflows: 0,
        });
    });
    assert!(why(&ring).contains("io_uring"), "{}", why(&ring));
    let unknown = sending(1.0, |_, profile| {
        for row in profile.calls.iter_mut().filter(|row| row.name == "writev") {
            row.on = None;
        }
    });
    assert!(why(&unknown).contains("was not seen"));
    let uncounted = sending(1.0, |_, profile| {
        for row in profile.calls.iter_mut().filter(|row| row.name == "writev") {
            row.bytes = None;
        }
    });
    assert!(why(&uncounted).contains("how many bytes"));
    let blind = analysed(|recording| {
        recording.rounds.retain(|round| round.probes == Probes::Off);
    });
    assert!(why(&blind).contains("no good round with probes"));
}

/// Other work on the server's CPUs warns where it was read; rounds that were left out are counted.
#[test]
fn foreign_work_warns() {
    let machine = |foreign: f64| {
        analysed(move |recording| {
            work_of_others(recording, |_| foreign);
            recording.rounds[0].excluded = Some("foreign work".to_owned());
        })
    };
    // A clock tick of 10 ms in 2 s is half a percent.
    assert_eq!(gate(&machine(0.012), "G9").status, GateStatus::Ok);
    let loud = machine(0.05);
    assert_eq!(gate(&loud, "G9").status, GateStatus::Warn);
    assert!(gate(&loud, "G9").value.ends_with("1 round left out"));
}

/// Two copies of one server: equal, biased, too noisy.
#[test]
fn a_copy_of_the_first_arm_controls_the_harness() {
    let copied = |bias: f64, noise: f64| {
        analysed(move |recording| {
            let own = recording.rounds.iter();
            let own = own.filter(|round| round.arm == "nginx" && round.probes == Probes::Off);
            let copies: Vec<Round> = own
                .map(|round| {
                    let sign = if round.pair.is_multiple_of(2) {
                        1.0
                    } else {
                        -1.0
                    };
                    let mut copy = round.clone();
                    copy.role = RoundRole::Aa;
                    let load = copy.load.as_mut().unwrap();
                    load.ledger.ok = whole(load.ledger.ok as f64 * (bias + sign * noise));
                    copy
                })
                .collect();
            recording.rounds.extend(copies);
        })
    };
    let quiet = copied(1.0, 0.002);
    assert_eq!(gate(&quiet, "G10").status, GateStatus::Ok);
    assert!(!quiet.verdict.as_ref().unwrap().indicative);
    assert_eq!(quiet.verdict.unwrap().margin, Some(0.02));
    assert_eq!(gate(&copied(1.03, 0.002), "G10").status, GateStatus::Refuse);
    let loud = copied(1.0, 0.1);
    assert_eq!(gate(&loud, "G10").status, GateStatus::Refuse);
    assert!(gate(&loud, "G10").fix.contains("more pairs"));
    // Within twice the margin, and wider than it: the margin grows.
    let wider = copied(1.0, 0.02);
    assert_eq!(gate(&wider, "G10").status, GateStatus::Ok);
    assert!(wider.verdict.unwrap().margin > Some(0.02));
}

/// Somebody else's tracer refuses, and nobody's passes.
#[test]
fn other_tracers_refuse() {
    let seen =
        |tracers: Vec<Tracer>| analysed(move |recording| recording.tracers = Some(tracers.clone()));
    assert_eq!(gate(&seen(Vec::new()), "G13").status, GateStatus::Ok);
    let traced = seen(vec![Tracer {
        kind: "ptrace".to_owned(),
        what: "strace 4711".to_owned(),
    }]);
    assert_eq!(gate(&traced, "G13").status, GateStatus::Refuse);
    assert_eq!(gate(&traced, "G13").value, "ptrace: strace 4711");
    let program = |number: u32| Tracer {
        kind: "kprobe".to_owned(),
        what: format!("program p{} (id {number})", number % 6),
    };
    let many = seen((0..12).map(program).collect());
    assert_eq!(
        gate(&many, "G13").value,
        "kprobe: program p0, program p1, program p2, program p3 and 2 more (12 in all)"
    );
    let blind = analysed(|recording| {
        recording.not_measured.push(NotMeasured {
            what: "other tracers".to_owned(),
            why: "programs in the kernel cannot be listed".to_owned(),
            remedy: Some("run as root".to_owned()),
        });
    });
    let gate = gate(&blind, "G13");
    assert_eq!(gate.status, GateStatus::NotMeasured);
    assert_eq!(gate.value, "programs in the kernel cannot be listed");
    assert_eq!(gate.fix, "run as root");
}

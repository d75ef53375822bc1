//! Chains: the cost of each hop, its sum and its remainder, in every format.

use recording::{
    Abi, Detail, Group, GroupBy, GroupCall, Hop, HopProcesses, Probes, ProcessCpu, Recording,
};
use reports::hops::{Cost, chains};

use crate::fixture;

/// Processes of the two hops, and one that belongs to neither.
const FRONT: u32 = 10;
const ORIGIN: [u32; 2] = [20, 21];
const STRANGER: u32 = 99;

fn hop(name: &str, program: &str) -> Hop {
    Hop {
        name: name.to_owned(),
        program: program.to_owned(),
        version: Some(format!("{program} 1.2.3")),
        settings: Vec::new(),
        build: Vec::new(),
        config: Vec::new(),
        command: Vec::new(),
        binary_sha256: None,
    }
}

fn group(pid: u32, count: u64, bytes: Option<u64>) -> Group {
    let call = GroupCall {
        abi: Abi::X86_64,
        name: "read".to_owned(),
        on: None,
        count,
        errors: 0,
        bytes,
        ns_total: None,
        split: None,
    };
    Group {
        id: Some(pid),
        pid: Some(pid),
        comm: Some("worker".to_owned()),
        calls: vec![call],
        outside: None,
    }
}

/// The fixture with its first arm made a chain. Per request it costs 3, 4 and 1 us of CPU time, and
/// 2, 1 and 0.5 calls of 100, 50 and 0 bytes.
fn chain() -> Recording {
    let mut recording = fixture::comparison(&[fixture::nginx(), fixture::h2o()], 4);
    let arm = &mut recording.arms[0];
    arm.hops = vec![hop("front", "haproxy"), hop("origin", "nginx")];
    let name = arm.name.clone();
    for round in recording
        .rounds
        .iter_mut()
        .filter(|round| round.arm == name)
    {
        let hop = |hop: &str, pids: &[u32]| HopProcesses {
            hop: hop.to_owned(),
            pids: pids.to_vec(),
        };
        round.hops = vec![hop("front", &[FRONT]), hop("origin", &ORIGIN)];
        let ok = round.load.as_ref().unwrap().ledger.ok;
        let cpu = round.server_cpu.as_mut().unwrap();
        cpu.window = round.load.as_ref().unwrap().window;
        cpu.total_ns = 8000 * ok;
        let process = |pid, ns| ProcessCpu {
            pid,
            total_ns: ns * ok,
        };
        cpu.by_process = vec![
            process(FRONT, 3000),
            process(ORIGIN[0], 0),
            process(ORIGIN[1], 4000),
            process(STRANGER, 1000),
        ];
        let Some(profile) = &mut round.profile else {
            continue;
        };
        round.profile_requests = Some(ok as f64);
        profile.grouped_by = Some(GroupBy::Process);
        profile.groups = vec![
            group(FRONT, 2 * ok, Some(100 * ok)),
            group(ORIGIN[1], ok, Some(50 * ok)),
            group(STRANGER, ok / 2, None),
        ];
        let mut row = profile.calls[0].clone();
        (row.count, row.bytes) = (3 * ok + ok / 2, Some(150 * ok));
        profile.calls = vec![row];
    }
    recording
}

fn near(cost: Cost, cpu_ns: f64, calls: f64, bytes: f64) {
    for (found, wanted) in [
        (cost.cpu_ns, cpu_ns),
        (cost.calls, calls),
        (cost.bytes, bytes),
    ] {
        let found = found.expect("it was measured");
        assert!((found - wanted).abs() < 1e-3, "{found} {wanted}");
    }
}

/// Each hop is the sum of its processes; what belongs to none is the remainder to the whole.
#[test]
fn hops_add_up_to_the_whole() {
    let chains = chains(&chain());
    let [chain] = &chains[..] else {
        panic!("one arm is a chain: {chains:?}")
    };
    near(chain.hops[0].cost, 3000.0, 2.0, 100.0);
    near(chain.hops[1].cost, 4000.0, 1.0, 50.0);
    near(chain.sum, 7000.0, 3.0, 150.0);
    near(chain.whole, 8000.0, 3.5, 150.0);
    near(chain.rest(), 1000.0, 0.5, 0.0);
    assert!(chain.not_measured.is_empty());
}

/// What was not measured is absent, with the reason, and what was stays.
#[test]
fn missing_figures_have_a_reason() {
    let mut recording = chain();
    for round in &mut recording.rounds {
        if let Some(profile) = &mut round.profile {
            profile.grouped_by = None;
        }
    }
    let found = chains(&recording);
    assert_eq!(found[0].hops[0].cost.calls, None);
    assert_eq!(found[0].rest().bytes, None);
    assert!(found[0].hops[0].cost.cpu_ns.is_some());
    let why = &found[0].not_measured;
    assert!(why[0].starts_with("calls and bytes by hop: "), "{why:?}");
    for round in &mut recording.rounds {
        round.server_cpu = None;
    }
    let found = chains(&recording);
    assert_eq!(found[0].sum.cpu_ns, None);
    let why = &found[0].not_measured;
    assert!(why[0].starts_with("CPU time by hop: "), "{why:?}");
}

/// Every format has the table, with the versions of all programs; an arm of one program has none.
#[test]
fn every_format_has_the_table() {
    let recording = chain();
    let style = reports::Style {
        width: 110,
        ..reports::Style::default()
    };
    let footer = reports::Footer::default();
    let formats = |recording: &Recording| {
        [
            reports::text::compare(recording, &style, &footer),
            reports::markdown::compare(recording, &footer),
            reports::html::compare(recording, &footer),
        ]
    };
    for text in formats(&recording) {
        // A line of the terminal may end between two words.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in ["in no hop", "all hops", "haproxy 1.2.3 to nginx 1.2.3"] {
            assert!(text.contains(word), "{word} is missing:\n{text}");
        }
    }
    for text in formats(&fixture::comparison(&[fixture::nginx(), fixture::h2o()], 4)) {
        assert!(!text.contains("in no hop"));
    }
}

/// Bytes that hops send to one another are not taken for responses.
#[test]
fn bytes_between_hops_are_no_responses() {
    let mut recording = chain();
    let probed = |round: &&recording::Round| round.probes == Probes::On;
    assert!(recording.rounds.iter().any(|round| probed(&round)));
    reports::analyse(&mut recording);
    let gate = recording.gates.iter().find(|gate| gate.id == "G8").unwrap();
    assert_eq!(gate.status, recording::GateStatus::NotMeasured);
    assert!(gate.value.contains("hops"), "{}", gate.value);
    let details = recording
        .rounds
        .iter()
        .filter_map(|round| round.profile.as_ref());
    assert!(
        details
            .map(|profile| profile.detail)
            .all(|detail| detail >= Detail::Counts)
    );
}

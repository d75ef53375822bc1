//! Recordings as whyfast makes them, built from a few numbers per arm.

use std::collections::BTreeMap;

use recording::{
    Abi, Arm, ArmKind, CallRow, ConfigFile, ConnectionCounts, CpuTime, Detail, Host, HttpVersion,
    InFlightCall, LatencyHistogram, Ledger, LimitedBy, Limiter, Load, LoadMeasures, LoadPlan,
    LoadSlice, Log2Histogram, MachineCpu, OwnCost, Phases, Probes, Profile, ProfiledProcess,
    Protocol, Recording, RecordingKind, ResponseShape, Round, RoundRole, Scenario, ServerCpu,
    Setting, TimeStats, Timeline, Tool, Traffic, Unfinished, WaitRow, Window, family, number,
};

pub(crate) use crate::server::{Call, Server, busy_nginx, call, h2o, nginx};

/// What varies from round to round: shared by the rounds of a pair, then each round's own.
const DRIFT: [f64; 8] = [1.0, 0.97, 0.985, 1.012, 1.003, 0.991, 0.979, 1.008];
const NOISE: [f64; 8] = [1.002, 0.998, 1.001, 0.9985, 1.0025, 0.9995, 1.0005, 0.9975];

const WINDOW_NS: u64 = 2_000_000_000;

/// A comparison of servers with as many pairs, probes off and on, not analysed.
pub(crate) fn comparison(servers: &[Server], pairs: u32) -> Recording {
    let mut recording = empty(RecordingKind::Compare);
    recording.scenario = Some(scenario(pairs));
    recording.arms = servers.iter().map(|server| arm(server.name)).collect();
    for pair in 0..pairs {
        for probes in [Probes::Off, Probes::On] {
            for (index, server) in servers.iter().enumerate() {
                let order = u32::try_from(recording.rounds.len()).unwrap();
                let at = usize::try_from(pair).unwrap();
                let own = at * (2 * index + 1) + 3 * index + usize::from(probes == Probes::On) * 2;
                let factor = DRIFT[at % 8] * NOISE[own % 8];
                recording
                    .rounds
                    .push(round(server, order, pair, probes, factor));
            }
        }
    }
    recording
}

/// Makes the speed of an arm go up and down by a factor from pair to pair; CPU time per request
/// stays.
pub(crate) fn unsteady(recording: &mut Recording, arm: &str, factor: f64) {
    for round in recording.rounds.iter_mut().filter(|r| r.arm == arm) {
        let factor = if round.pair.is_multiple_of(2) {
            factor
        } else {
            1.0 / factor
        };
        let scaled = |count: u64| whole(count as f64 * factor);
        let load = round.load.as_mut().unwrap();
        load.ledger.ok = scaled(load.ledger.ok);
        load.ledger.sent = scaled(load.ledger.sent);
        let mut latency = LatencyHistogram::recorder();
        for value in load
            .latency
            .as_ref()
            .unwrap()
            .to_hdr()
            .unwrap()
            .iter_recorded()
        {
            let ns = whole(value.value_iterated_to() as f64 / factor);
            latency.record_n(ns, value.count_at_value()).unwrap();
        }
        load.latency = LatencyHistogram::from_hdr(&latency);
        let cpu = round.server_cpu.as_mut().unwrap();
        cpu.total_ns = scaled(cpu.total_ns);
    }
}

/// Gives every round what its server's CPU did: the server's time, and a share of the time for others.
pub(crate) fn work_of_others(recording: &mut Recording, share: impl Fn(&Round) -> f64) {
    for round in &mut recording.rounds {
        let others = share(round);
        let cpu = round.server_cpu.as_ref().unwrap();
        round.machine_cpu = Some(MachineCpu {
            window: cpu.window,
            cpus: 1,
            tasks_ns: cpu.total_ns + whole(others * cpu.window.length_ns() as f64),
            interrupts_ns: 0,
            steal_ns: 0,
        });
    }
}

/// Measures of a load of which nothing is known.
pub(crate) fn blank_measures() -> LoadMeasures {
    LoadMeasures {
        phases: Phases::default(),
        schedule: None,
        live_connections: None,
        responses_per_connection: None,
        thread_rate_rps: None,
        loop_lag: None,
        run_queue_ns: None,
        limiter: Limiter {
            who: LimitedBy::Unknown,
            why: "a fixture".to_owned(),
        },
        unfinished: Unfinished::default(),
        classes: Vec::new(),
        hashed_bodies: 0,
        header_field_bytes: None,
        connects_delayed: 0,
        opening_received_bytes: None,
        search: None,
    }
}

/// A lock-step comparison: one round of `requests` requests per arm, probes on.
pub(crate) fn lock_step(servers: &[Server], requests: u64) -> Recording {
    let mut recording = comparison(servers, 1);
    recording.scenario.as_mut().unwrap().lock_step_requests = Some(requests);
    recording.scenario.as_mut().unwrap().duration_ns = None;
    recording.scenario.as_mut().unwrap().connections = 1;
    recording.rounds.retain(|round| round.probes == Probes::On);
    for (round, server) in recording.rounds.iter_mut().zip(servers) {
        let load = round.load.as_mut().unwrap();
        load.plan.requests = Some(requests);
        load.ledger = Ledger {
            sent: requests,
            ok: requests,
            ..Ledger::default()
        };
        load.connections = ConnectionCounts {
            asked: 1,
            open_at_start: 1,
            ..ConnectionCounts::default()
        };
        round.profile = Some(profile(server, requests as f64));
        round.profile_requests = Some(requests as f64);
    }
    recording
}

pub(crate) fn empty(kind: RecordingKind) -> Recording {
    let tool = Tool {
        version: "0.1.0".to_owned(),
        bpf_sha256: None,
    };
    let host = Host {
        hostname: "bench".to_owned(),
        kernel: "6.18.0".to_owned(),
        arch: "x86_64".to_owned(),
        cpu_model: Some("Example CPU".to_owned()),
        cpus: 2,
        memory_bytes: Some(8 << 30),
        clocksource: Some("tsc".to_owned()),
        governor: None,
        virtualization: Some("kvm".to_owned()),
        load_average_centi: Some(12),
    };
    Recording {
        created_unix_ns: 1_700_000_000_000_000_000,
        command: vec!["whyfast".to_owned()],
        ..Recording::empty(kind, tool, host)
    }
}

pub(crate) fn profile_recording(profile: Profile) -> Recording {
    let mut recording = empty(RecordingKind::Profile);
    let server = nginx();
    recording.arms = vec![arm(server.name)];
    let mut round = round(&server, 0, 0, Probes::On, 1.0);
    round.load = None;
    round.profile_requests = None;
    round.profile = Some(profile);
    recording.rounds = vec![round];
    recording
}

pub(crate) fn load_recording() -> Recording {
    let mut recording = empty(RecordingKind::Load);
    recording.arms = vec![arm("nginx")];
    recording.rounds = vec![round(&nginx(), 0, 0, Probes::Off, 1.0)];
    recording
}

fn scenario(pairs: u32) -> Scenario {
    Scenario {
        tls: None,
        streams: None,
        request_headers: Vec::new(),
        requests: None,
        as_published: false,
        published: None,
        warmup_requests: None,
        unfair: Vec::new(),
        name: "static-1b".to_owned(),
        protocol: Protocol::Http1,
        path: "/file".to_owned(),
        body_bytes: Some(1),
        connections: 64,
        client_threads: 1,
        duration_ns: Some(WINDOW_NS),
        warmup_ns: 500_000_000,
        lock_step_requests: None,
        requests_per_connection: None,
        server_cpus: Some("0".to_owned()),
        client_cpus: Some("1".to_owned()),
        pairs,
        margin: 0.02,
        half_width_target: None,
    }
}

pub(crate) fn arm(name: &str) -> Arm {
    let cache = if name == "nginx" { "on" } else { "off" };
    let setting = |key: &str, value: &str| Setting {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    Arm {
        hops: Vec::new(),
        name: name.to_owned(),
        kind: ArmKind::Recipe,
        spec: name.to_owned(),
        version: Some("1.0".to_owned()),
        settings: vec![setting("workers", "1"), setting("file cache", cache)],
        config: vec![ConfigFile {
            name: format!("{name}.conf"),
            text: "listen {port};\nroot {dir};\n".to_owned(),
        }],
        command: vec![name.to_owned()],
        build: Vec::new(),
        binary_sha256: Some("ab".repeat(32)),
        response: Some(ResponseShape {
            statuses: BTreeMap::from([(200, 100)]),
            body_sha256: "cd".repeat(32),
            body_bytes: 1,
            head_bytes: if name == "nginx" { 237 } else { 230 },
            content_encoding: None,
            framing: "content-length".to_owned(),
            headers: vec![
                ("Server".to_owned(), name.to_owned()),
                ("Date".to_owned(), format!("now at {name}")),
                ("Content-Length".to_owned(), "1".to_owned()),
            ],
            tls: None,
        }),
    }
}

fn round(server: &Server, order: u32, pair: u32, probes: Probes, factor: f64) -> Round {
    let start_ns = 1_000_000_000 * (10 + 4 * u64::from(order));
    let window = Window {
        start_ns,
        end_ns: start_ns + WINDOW_NS,
    };
    let slower = if probes == Probes::On {
        server.probed
    } else {
        1.0
    };
    let ok = whole(server.rps * factor * slower * 2.0);
    let load = load(server, window, ok, slower * factor);
    let cpu_ns = whole(server.cpu_ns * ok as f64 / factor.sqrt() / slower);
    let profiled = (probes == Probes::On).then(|| profile(server, ok as f64));
    Round {
        hops: Vec::new(),
        arm: server.name.to_owned(),
        order,
        pair,
        probes,
        failed: None,
        window: Some(window),
        server_cpu: Some(ServerCpu {
            window,
            total_ns: cpu_ns,
            user_ns: None,
            system_ns: None,
            processes: 2,
            by_process: Vec::new(),
            threads: Vec::new(),
        }),
        profile_requests: profiled.is_some().then_some(ok as f64),
        profile: profiled,
        load: Some(load),
        role: RoundRole::Main,
        excluded: None,
        machine_cpu: None,
        server_count: None,
    }
}

fn load(server: &Server, window: Window, ok: u64, speed: f64) -> Load {
    let mut recorder = LatencyHistogram::recorder();
    // No more requests in flight than connections.
    let room = 64.0 * WINDOW_NS as f64 / ok as f64;
    let median = (server.p50_ns as f64 / speed).min(room);
    for step in 0..2000_u32 {
        // A plausible shape: half below the median, a tail of three times the median.
        let place = f64::from(step) / 2000.0;
        recorder
            .record(whole(median * (0.6 + 0.8 * place + place.powi(40) * 2.0)))
            .unwrap();
    }
    let middle = window.start_ns + WINDOW_NS / 2;
    let slice = |start_ns, end_ns, ok| LoadSlice {
        window: Window { start_ns, end_ns },
        ok,
        failed: 0,
        p50_ns: Some(server.p50_ns),
        p99_ns: Some(server.p50_ns * 2),
        max_ns: Some(server.p50_ns * 3),
    };
    Load {
        url: "http://127.0.0.1:8080/file".to_owned(),
        plan: LoadPlan {
            connections: 64,
            depth: 1,
            http: HttpVersion::default(),
            tls: None,
            threads: 1,
            requests: None,
            duration_ns: Some(WINDOW_NS),
            warmup_ns: 500_000_000,
            warmup_requests: 0,
            requests_per_connection: None,
            requests_jitter: None,
            connection_lifetime_ns: None,
            resolve_each: false,
            timeout_ns: 10_000_000_000,
            method: "GET".to_owned(),
            headers: Vec::new(),
            shape: None,
        },
        window,
        ledger: Ledger {
            carried_in: 64,
            sent: ok,
            ok,
            failed: Vec::new(),
            unfinished: 64,
            replayed: 0,
        },
        connections: ConnectionCounts {
            asked: 64,
            open_at_start: 64,
            ..ConnectionCounts::default()
        },
        statuses: BTreeMap::from([(200, ok)]),
        interim_responses: 0,
        latency: LatencyHistogram::from_hdr(&recorder),
        connect_time: None,
        traffic: Traffic {
            sent_bytes: ok * 94,
            received_bytes: ok * 239,
            head_bytes: ok * 238,
            body_bytes: ok,
        },
        tls: None,
        http2: None,
        client_cpu: CpuTime {
            user_ns: ok * 4_100,
            system_ns: ok * 6_700,
        },
        busiest_thread_share: 0.58,
        slices: vec![
            slice(window.start_ns, middle, ok / 2),
            slice(middle, window.end_ns, ok - ok / 2),
        ],
        timeline: Timeline::default(),
        ended_early: None,
        warnings: Vec::new(),
        violations: Vec::new(),
        measures: None,
    }
}

/// A profile at detail `times` of a server that answered `requests` requests.
pub(crate) fn profile(server: &Server, requests: f64) -> Profile {
    let calls: Vec<CallRow> = server
        .calls
        .iter()
        .map(|call| call_row(call, requests))
        .collect();
    let wakes = calls
        .iter()
        .find(|row| row.name == "epoll_wait")
        .map_or(0, |row| row.count);
    let target_events = 2 * calls.iter().map(|row| row.count).sum::<u64>();
    let events = whole(requests);
    let window = Window {
        start_ns: 10_000_000_000,
        end_ns: 10_000_000_000 + WINDOW_NS,
    };
    Profile {
        boundary_ns: 41_000,
        processes: vec![ProfiledProcess {
            pid: 4242,
            comm: Some(server.name.to_owned()),
            threads: Some(1),
            container: None,
            ended: false,
            target: Some(format!("comm {}", server.name)),
            ns_pid: None,
            parent: Some(1),
        }],
        calls,
        waits: vec![WaitRow {
            abi: Abi::X86_64,
            name: "epoll_wait".to_owned(),
            wakes,
            events,
            events_per_wake: Log2Histogram::new(vec![0, 0, 0, wakes]),
            timeouts: 3,
            polls: Some(1),
            truncated: Some(0),
            interrupted: 0,
            ns_total: Some(wakes * 3_000),
        }],
        in_flight_at_end: vec![InFlightCall {
            pid: 4242,
            tid: 4242,
            abi: Abi::X86_64,
            name: "epoll_wait".to_owned(),
            on: None,
            age_ns: Some(12_000),
        }],
        cpu_ns: Some(1_980_000_000),
        cost: OwnCost {
            target_events,
            reader_cpu_ns: 1_200_000,
            map_bytes: 3_400_000,
            attach_ns: 45_000_000,
            ..OwnCost::default()
        },
        ..Profile::empty(Detail::Times, window)
    }
}

fn call_row(call: &Call, requests: f64) -> CallRow {
    let count = whole(call.per_request * requests);
    let eagain = whole(call.eagain * requests);
    let mut buckets = vec![0; Log2Histogram::bucket_of(call.ns)];
    buckets.push(count);
    CallRow {
        abi: Abi::X86_64,
        nr: number(Abi::X86_64, call.name).unwrap(),
        name: call.name.to_owned(),
        on: None,
        family: family(call.name),
        count,
        errors: if eagain > 0 {
            BTreeMap::from([("EAGAIN".to_owned(), eagain)])
        } else {
            BTreeMap::new()
        },
        bytes: call.bytes.map(|bytes| bytes * (count - eagain)),
        died_in_call: 0,
        no_return: 0,
        time: Some(TimeStats {
            timed: count,
            ns_total: count * call.ns,
            ns_min: Some(call.ns / 2),
            ns_max: Some(call.ns * 20),
            histogram: Log2Histogram::new(buckets),
        }),
        split: None,
    }
}

/// Rounds to a count.
pub(crate) fn whole(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small counts"
    )]
    let count = value.round() as u64;
    count
}

//! What reports say about what happens below the calls.

use recording::{
    Hardware, HardwareCount, IoUring, ListenQueue, Log2Histogram, Network, NetworkNamespace,
    Profile, TimeStats, UringOperation,
};
use reports::{Footer, Style, markdown, text};

use crate::fixture::{nginx, profile, profile_recording};

/// Operations, full queues, resets and counters of the hardware, each with what it means.
#[test]
fn below_the_calls() {
    let recording = profile_recording(busy());
    let text = text::profile(&recording, &Style::default(), &Footer::default());
    insta::assert_snapshot!(shown(&text), @r"
    io_uring 90,001 operations submitted, 90,990 completions; not system calls, so not in the table above; 3
             completions found their queue full
    listen   most connections seen waiting for accept: port 443 on 2 sockets 129 (limit 128); port 80 on 2 sockets
             3 (limit not known)
    network  40 listen overflows, 41 dropped at listeners, 2 retransmission timeouts, of all programs in the
             target's network namespace
    tcp      on the target's ports: 17 retransmits, - resets sent, 0 resets received
    hardware 2,000,000,000 cycles, 3,000,000,000 instructions (scaled, counted 50% of the time), - cache misses
             (never had a turn at a counter), 1.500 instructions per cycle
     io_uring  submitted  completed  repeated  errors  us/op         p50 in         p99 in     max
     recv         90,000     89,990                12   12.0  8.19us-16.4us  8.19us-16.4us  9.00ms
     accept            1          0     1,000              -              -              -       -
    ");
    let text = markdown::profile(&recording, &Footer::default());
    for cell in ["| recv | 90,000 | 89,990 |", "| accept | 1 | 0 | 1,000 |"] {
        assert!(text.contains(cell), "{text}");
    }
}

/// A program without `io_uring` and listening sockets on a machine without counters says nothing
/// of them.
#[test]
fn nothing_below_the_calls() {
    let profile = Profile {
        io_uring: Some(IoUring::default()),
        network: Some(Network {
            retransmits: Some(0),
            namespaces: vec![NetworkNamespace {
                namespace: Some(7),
                listen_overflows: 0,
                listen_drops: 0,
                tcp_timeouts: 0,
            }],
            ..Network::default()
        }),
        hardware: None,
        ..profile(&nginx(), 1000.0)
    };
    let recording = profile_recording(profile);
    let text = text::profile(&recording, &Style::default(), &Footer::default());
    assert_eq!(shown(&text), "");
    let text = markdown::profile(&recording, &Footer::default());
    assert!(!text.contains("io_uring"), "{text}");
}

/// The lines that this is about, and the table.
fn shown(text: &str) -> String {
    let labels = ["io_uring", "listen", "network", "tcp", "hardware"];
    let mut lines = Vec::new();
    let mut is_shown = false;
    for line in text.lines() {
        // What follows on from a line is indented.
        is_shown = labels
            .iter()
            .any(|label| line.trim_start().starts_with(label))
            || (is_shown && line.starts_with("         "));
        if is_shown || line.contains("accept") || line.contains(" recv ") {
            lines.push(line.trim_end());
        }
    }
    lines.join("\n")
}

fn busy() -> Profile {
    let operation = |opcode, name: &str, submitted, completed| UringOperation {
        opcode: Some(opcode),
        name: name.to_owned(),
        submitted,
        completed,
        repeated: 0,
        errors: 0,
        time: None,
    };
    let recv = UringOperation {
        errors: 12,
        time: Some(TimeStats {
            timed: 89_990,
            ns_total: 89_990 * 12_000,
            ns_min: None,
            ns_max: Some(9_000_000),
            histogram: Log2Histogram::new([vec![0; 14], vec![89_990]].concat()),
        }),
        ..operation(27, "recv", 90_000, 89_990)
    };
    let accept = UringOperation {
        repeated: 1000,
        ..operation(13, "accept", 1, 0)
    };
    let queue = |port, deepest, limit| ListenQueue {
        namespace: Some(4_026_531_840),
        port,
        sockets: 2,
        deepest,
        limit,
    };
    let count = |counted, running_ns| {
        Some(HardwareCount {
            counted,
            enabled_ns: 1_000_000_000,
            running_ns,
        })
    };
    Profile {
        io_uring: Some(IoUring {
            operations: vec![accept, recv],
            overflows: 3,
        }),
        network: Some(Network {
            retransmits: Some(17),
            resets_sent: None,
            resets_received: Some(0),
            listeners: vec![queue(80, 3, None), queue(443, 129, Some(128))],
            namespaces: vec![NetworkNamespace {
                namespace: Some(4_026_531_840),
                listen_overflows: 40,
                listen_drops: 41,
                tcp_timeouts: 2,
            }],
        }),
        hardware: Some(Hardware {
            cycles: count(2_000_000_000, 1_000_000_000),
            instructions: count(1_500_000_000, 500_000_000),
            cache_misses: count(1_000, 0),
            branch_misses: None,
            threads: Vec::new(),
        }),
        ..profile(&nginx(), 1000.0)
    }
}

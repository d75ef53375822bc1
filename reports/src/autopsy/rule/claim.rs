//! What people say of such output, and it does not say.

use recording::StatementKind::DoesNotFollow;
use recording::{ExaminedServer, Statement};

use crate::autopsy::statement;

/// The claims that the output does not support.
pub(super) fn rules(servers: &[ExaminedServer], found: &[Statement]) -> Vec<Statement> {
    let has = |rule: &str| found.iter().any(|statement| statement.rule == rule);
    let traced = servers.iter().any(|server| !server.calls.is_empty());
    let loaded = servers.iter().any(|server| !server.loads.is_empty());
    let several = servers.len() > 1;
    let strace = servers
        .iter()
        .flat_map(|server| &server.calls)
        .any(|table| table.tool == "strace -c");
    let no_heads = servers
        .iter()
        .flat_map(|server| &server.loads)
        .any(|load| load.head_bytes.is_none());
    let disturbed = has("errors") || has("late-replies") || has("little");
    let claims = [
        (
            several && has("contamination"),
            "slower-untraced",
            "that one is slower when nobody traces it",
        ),
        (
            strace,
            "time-per-call",
            "any share of CPU or time of a call: strace -c shows system time while it traces",
        ),
        (
            traced,
            "user-time",
            "how much is user code, idle time or waiting for a CPU: calls do not show it",
        ),
        (
            loaded && disturbed,
            "latency",
            "latencies: errors, late replies or connections without requests distort them",
        ),
        (
            several && loaded && no_heads,
            "equal-responses",
            "that responses were equal: bytes, header, status and cipher were not all printed",
        ),
        (
            several && traced,
            "equal-workers",
            "that as many workers ran and were traced: strace -p sees one thread unless -f is given",
        ),
        (
            several && traced,
            "calls-cause",
            "that the calls cause the gap: what happens together need not be the cause",
        ),
        (
            several && has("one-run"),
            "interval",
            "any interval: a single run has no spread",
        ),
        (
            has("other-window"),
            "joined-windows",
            "anything that joins rates with counts: they are of different windows",
        ),
        (
            has("one-at-a-time"),
            "capacity",
            "what the servers can do at most: one connection at a time measures latency",
        ),
        (
            has("unequal-connections"),
            "fair-share",
            "that the mean speaks for each connection: they were served very differently",
        ),
    ];
    let all: Vec<&ExaminedServer> = servers.iter().collect();
    claims
        .into_iter()
        .filter(|(applies, _, _)| *applies)
        .map(|(_, rule, text)| statement(rule, DoesNotFollow, &all, text.to_owned()))
        .collect()
}

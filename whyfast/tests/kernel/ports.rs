//! Local ports that run out, in a network namespace of its own so that nobody else has fewer.

use std::process::Command;

use recording::{FailureClass, Load, Recording};

use crate::missing;

/// Runs a load in a namespace with 51 local ports, one connection per request, and returns its exit
/// code and its result.
fn with_few_ports(extra: &[&str]) -> (Option<i32>, Load) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", SCRIPT, "sh"])
        .arg(env!("CARGO_BIN_EXE_whyfast"))
        .arg(folder.path().join("url"))
        .args(extra)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let recording = Recording::parse(&output.stdout).expect(&said);
    let load = recording.rounds.into_iter().next().unwrap().load.unwrap();
    (output.status.code(), load)
}

const SCRIPT: &str = r#"
whyfast=$1; pipe=$2; shift 2
ip link set lo up
echo 40000 40050 > /proc/sys/net/ipv4/ip_local_port_range
mkfifo "$pipe"
"$whyfast" testserver --style sendfile > "$pipe" &
server=$!
exec 3< "$pipe"
read -r url <&3
"$whyfast" load "$url" -n 200 --requests-per-connection 1 --format json "$@"
code=$?
kill "$server"
wait "$server"
exit "$code"
"#;

/// Exhausted ports are a failure of their own class, with the remedy; the remedy works.
#[test]
fn exhausted_ports_are_named() {
    if missing("exhausted_ports_are_named", &["unshare", "ip", "mkfifo"]) {
        return;
    }
    let (code, load) = with_few_ports(&[]);
    assert!(load.ledger.balances());
    let failed = &load.ledger.failed;
    assert!(
        failed
            .iter()
            .all(|failure| failure.class == FailureClass::AddressUnavailable
                && failure.phase == "connect")
            && !failed.is_empty(),
        "{failed:?}"
    );
    assert_eq!(code, Some(3));
    let warning = load
        .warnings
        .iter()
        .find(|warning| warning.code == "no_local_port")
        .unwrap();
    for remedy in ["requests per connection", "ip_local_port_range", "source"] {
        assert!(warning.text.contains(remedy), "{}", warning.text);
    }
    // Each source address has all ports to itself.
    let sources = "127.0.0.2,127.0.0.3,127.0.0.4,127.0.0.5,127.0.0.6,127.0.0.7";
    let (code, load) = with_few_ports(&["--source", sources]);
    assert_eq!((code, load.ledger.ok), (Some(0), 200), "{:?}", load.ledger);
}

/// More connections than one address has ports: the client of a comparison takes further addresses of
/// loopback, and every connection is there.
#[test]
fn a_comparison_takes_more_addresses() {
    if missing("a_comparison_takes_more_addresses", &["unshare", "ip"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.json");
    let script = "ip link set lo up; echo 40000 40299 > /proc/sys/net/ipv4/ip_local_port_range; \
                  exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", script, "sh"])
        .arg(env!("CARGO_BIN_EXE_whyfast"))
        .args(["compare", "-c", "600", "-n", "2000", "--pairs", "1"])
        .args([
            "--no-probes",
            "--allow-mismatch",
            "G13",
            "--format",
            "json",
            "-o",
        ])
        .arg(&path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let recording = Recording::parse(&std::fs::read(&path).expect(&said)).unwrap();
    let mut rounds = 0;
    for round in recording.rounds {
        assert_eq!(round.failed, None, "{said}");
        let load = round.load.unwrap();
        assert_eq!(
            (load.connections.open_at_start, load.ledger.ok),
            (600, 2000)
        );
        rounds += 1;
    }
    // Both servers, and the minimal responder.
    assert_eq!(rounds, 3);
}

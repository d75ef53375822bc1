//! `whyfast load` against the built-in server.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::fcntl_setpipe_size;
use signal_hook::consts::SIGINT;

use crate::{Mortal, assert_valid, run, said, server, skip, whyfast};

/// Exactly as many requests as asked, all accounted for, in JSON that fits the schema.
#[test]
fn count_is_exact() {
    let (_server, url) = server("open-read");
    let arguments = [
        "load",
        &url,
        "-n",
        "1003",
        "-c",
        "7",
        "-t",
        "2",
        "--requests-per-connection",
        "10",
    ];
    let output = run(&[&arguments[..], &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let recording = assert_valid(&output.stdout);
    let load = recording.rounds[0].load.as_ref().unwrap();
    assert_eq!((load.ledger.sent, load.ledger.ok), (1003, 1003));
    assert!(load.ledger.balances());
    assert_eq!(load.statuses.get(&200), Some(&1003));
    let connections = &load.connections;
    assert!(connections.open_at_start + connections.established >= 1003_u64.div_ceil(10));
    assert_eq!(load.latency.as_ref().unwrap().count, 1003);
    for format in ["text", "markdown"] {
        let text = run(&["load", &url, "-n", "10", "--format", format]).stdout;
        assert!(String::from_utf8_lossy(&text).contains("10"), "{format}");
    }
}

/// A server that refuses is named, with what to do.
#[test]
fn refused_says_what_to_do() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let output = run(&["load", &url, "-n", "10"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("start the server"),
        "{}",
        said(&output)
    );
}

/// Failed requests are no throughput: the limit is broken.
#[test]
fn errors_exit_with_3() {
    let (_server, url) = server("sendfile");
    let wrong = format!("{}nowhere", url.trim_end_matches("body"));
    let output = run(&["load", &wrong, "-n", "10", "--format", "json"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let recording = assert_valid(&output.stdout);
    let ledger = &recording.rounds[0].load.as_ref().unwrap().ledger;
    assert_eq!((ledger.ok, ledger.failed_total()), (0, 10));
    let allowed = run(&["load", &wrong, "-n", "10", "--max-errors", "100"]);
    assert_eq!(allowed.status.code(), Some(0));
}

/// Local ports that run out are a class of their own with the remedy, and no crash; a second source
/// address has as many again. In a network namespace that has few of them.
#[test]
fn ports_that_run_out_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
        ip link set lo up && echo "20000 20049" >/proc/sys/net/ipv4/ip_local_port_range || exit 77
        "$1" testserver --style sendfile --listen 127.0.0.1:8080 >"$2/url" &
        server=$!
        trap 'kill $server' EXIT
        until [ -s "$2/url" ]; do :; done
        whyfast=$1
        load() { out=$1; folder=$2; shift 2; "$whyfast" load "$(cat "$folder/url")" -n 90 -c 1 \
            --requests-per-connection 1 --max-errors 100 --format json -o "$folder/$out" "$@"; }
        load one "$2" && load three "$2" --source 127.0.0.2,127.0.0.3,127.0.0.4 || exit 99
    "#;
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--user",
        "--map-root-user",
        "--net",
        "--kill-child",
        "--fork",
    ]);
    unshare.args(["sh", "-c", script, "sh", env!("CARGO_BIN_EXE_whyfast")]);
    let status = unshare.arg(folder.path()).status();
    let code = status.ok().and_then(|status| status.code());
    assert_ne!(code, Some(99), "a load could not be run");
    if code != Some(0) {
        skip(
            "ports_that_run_out_are_named",
            "no network namespace can be made here",
        );
        return;
    }
    let load = |name: &str| {
        let json = std::fs::read(folder.path().join(name)).unwrap();
        assert_valid(&json).rounds[0].load.clone().unwrap()
    };
    let one = load("one");
    let failed = &one.ledger.failed[0];
    assert_eq!(failed.class, recording::FailureClass::AddressUnavailable);
    assert_eq!(
        (failed.phase.as_str(), one.ledger.failed.len()),
        ("connect", 1)
    );
    // The kernel may reuse ports on loopback after a second, so more than 50 connections can be made.
    assert_eq!((one.ledger.sent, one.ledger.balances()), (90, true));
    let said = one
        .warnings
        .iter()
        .find(|warning| warning.code == "no_local_port");
    assert!(said.unwrap().text.contains("ip_local_port_range"));
    assert_eq!(load("three").ledger.ok, 90);
}

/// A server that never answers: timeouts in the account, and no exit code of success.
#[test]
fn silence_exits_with_3() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // sleeps: nothing ever comes
    let output = run(&["load", &url, "-n", "2", "-T", "50ms", "--format", "json"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let ledger = &assert_valid(&output.stdout).rounds[0]
        .load
        .as_ref()
        .unwrap()
        .ledger
        .clone();
    assert_eq!((ledger.ok, ledger.failed_total()), (0, 2));
    assert_eq!(ledger.failed[0].class, recording::FailureClass::Timeout);
}

/// Ctrl-C keeps the results so far, marked as partial.
#[test]
fn interrupt_keeps_the_results() {
    let (_server, url) = server("sendfile");
    let child = whyfast()
        .args([
            "load", &url, "-d", "1h", "-c", "4", "--format", "json", "-i", "50ms",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Mortal(child);
    until_loading(child.0.id());
    interrupt(&child);
    let mut json = Vec::new();
    child
        .0
        .stdout
        .as_mut()
        .unwrap()
        .read_to_end(&mut json)
        .unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    let recording = assert_valid(&json);
    assert_eq!(recording.partial.unwrap().why, "interrupted");
    let load = recording.rounds[0].load.as_ref().unwrap();
    assert!(load.ledger.balances());
}

/// A second Ctrl-C ends at once, also where nobody reads what the first one made it print.
#[test]
fn second_interrupt_ends_at_once() {
    let (_server, url) = server("sendfile");
    let child = whyfast()
        .args(["load", &url, "-d", "1h", "-c", "4", "--format", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Mortal(child);
    let mut stdout = child.0.stdout.take().unwrap();
    // The result is larger: whoever writes it waits for a reader.
    fcntl_setpipe_size(&stdout, 4096).unwrap();
    until_loading(child.0.id());
    interrupt(&child);
    let mut readable = [PollFd::new(&stdout, PollFlags::IN)];
    assert_eq!(poll(&mut readable, None).unwrap(), 1);
    assert_eq!(child.0.try_wait().unwrap(), None, "it waits for a reader");
    interrupt(&child);
    assert_eq!(child.0.wait().unwrap().signal(), Some(SIGINT));
    // What was printed until then is the beginning of the result.
    let mut printed = String::new();
    stdout.read_to_string(&mut printed).unwrap();
    assert!(
        printed.starts_with("{\n  \"schema\": \"whyfast/"),
        "{printed}"
    );
}

/// Ctrl-C.
fn interrupt(child: &Mortal) {
    let pid = child.0.id().to_string();
    let kill = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(kill.success());
}

/// A client that gets its CPU only when somebody else leaves it is what limits the run, whatever else
/// the machine does: said with the figures behind it, in the JSON and in the text.
#[test]
fn crowded_clients_are_named() {
    let test = "crowded_clients_are_named";
    let (_server, url) = server("memory");
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let cpu = allowed.unwrap().trim().split([',', '-']).next().unwrap();
    let busy = Command::new("taskset")
        .args(["-c", cpu, "sh", "-c", "while :; do :; done"])
        .spawn();
    let Ok(busy) = busy else {
        return skip(test, "taskset is not installed");
    };
    let _busy = Mortal(busy);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("load.json");
    let path = path.to_str().unwrap();
    // By count, with time for each request: it takes as long as it takes.
    let load = Command::new("taskset")
        .args(["-c", cpu, "nice", "-n", "10"])
        .arg(whyfast().get_program())
        .args(["load", &url, "-n", "1000", "-c", "64", "-T", "1h"])
        .args(["--format", "json", "-o", path])
        .status();
    assert!(load.unwrap().success());
    let recording = assert_valid(&std::fs::read(path).unwrap());
    let load = recording.rounds[0].load.as_ref().unwrap();
    let measures = load.measures.as_ref().unwrap();
    let Some(queued_ns) = measures.run_queue_ns else {
        return skip(
            test,
            "the kernel does not say how long threads wait for a CPU",
        );
    };
    let share = queued_ns as f64 / load.window.length_ns() as f64;
    assert!(share > 0.2, "{share}");
    assert_eq!(measures.limiter.who, recording::LimitedBy::Client);
    let why = &measures.limiter.why;
    assert!(why.contains("waited for a CPU for"), "{why}");
    let mut warnings = load.warnings.iter();
    assert!(warnings.any(|warning| warning.code == "client_waited_for_cpu"));
    let shown = run(&["report", path]).stdout;
    let shown = String::from_utf8_lossy(&shown).replace('\n', " ");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&shown).contains(&words(why)), "{shown}");
}

/// Waits until the process has used some CPU time: it is past its start.
fn until_loading(pid: u32) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        if ticks >= 5 {
            return;
        }
        assert!(
            std::time::Instant::now() < deadline,
            "the load did not begin"
        );
        // Nothing unparks it; it only leaves the CPU to what is waited for.
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
}

/// What authenticates is not stored.
#[test]
fn secrets_are_not_stored() {
    let (_server, url) = server("sendfile");
    let with_query = format!("{url}?token=SECRET");
    let output = run(&[
        "load",
        &with_query,
        "-n",
        "3",
        "-H",
        "Authorization: Bearer SECRET",
        "-H",
        "Cookie:SECRET",
        "--format",
        "json",
        "--max-errors",
        "100",
    ]);
    let json = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_valid(&output.stdout);
    assert!(!json.contains("SECRET"), "{json}");
    assert!(json.contains("sha256:"), "{json}");
}

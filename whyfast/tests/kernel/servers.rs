//! The main job on real servers, and the counts of a live server against strace in one window.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use recording::{GateStatus, RoundRole, VerdictWord};

use crate::missing;
use crate::proc::{children, tracer};
use crate::strace::{is_traced, parse_table, rows};
use crate::whyfast::{Mortal, ProfileHalf, recording, run, until};

/// Two servers give a verdict, an interval, and a table of calls per request, in every format.
#[test]
fn nginx_against_h2o_is_explained() {
    if missing("nginx_against_h2o_is_explained", &["nginx", "h2o"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let (recording, output) = recording(&[
        "compare",
        "nginx",
        "h2o",
        "--pairs",
        "2",
        "--duration",
        "400ms",
        "--warmup",
        "100ms",
        // Whatever else profiles on this machine is not what is tested.
        "--allow-mismatch",
        "G13",
        "--out",
        out.to_str().unwrap(),
    ]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Two short pairs may leave it open; what matters is that it is a verdict.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{said}");
    let verdict = recording
        .verdict
        .as_ref()
        .expect("a comparison has a verdict");
    assert_ne!(verdict.word, VerdictWord::NotComparable);
    assert!(verdict.indicative);
    let main = recording.rounds.iter();
    let main = main.filter(|round| round.role == RoundRole::Main);
    assert_eq!(main.count(), 8);
    assert!(
        recording.rounds.iter().all(|round| round.failed.is_none()),
        "{said}"
    );
    let throughput = recording
        .comparisons
        .iter()
        .find(|c| c.metric == "throughput_rps")
        .unwrap();
    assert!(throughput.interval.is_some());
    for round in &recording.rounds {
        let load = round.load.as_ref().expect("every round has a load");
        assert!(load.ledger.balances());
        assert_eq!(round.profile.is_some(), round.profile_requests.is_some());
    }
    let gate = |id: &str| recording.gates.iter().find(|gate| gate.id == id).unwrap();
    assert_eq!(gate("G8").status, GateStatus::Ok, "{:?}", gate("G8"));
    assert!(recording.tracers.is_some(), "{:?}", recording.not_measured);
    let fingerprint = recording.fingerprint.as_ref().unwrap();
    assert!(fingerprint.machine_value("kernel.release").is_some());
    for server in &fingerprint.servers {
        let known = |begin: &str| {
            let mut facts = server.facts.iter();
            facts.any(|fact| fact.key.starts_with(begin) && fact.value.is_some())
        };
        for begin in [
            "program.version",
            "library.libc.so",
            "limit.open_files",
            "config.",
        ] {
            assert!(known(begin), "{begin}: {server:?}");
        }
    }
    let saved = fs::read(out.join("recording.json")).unwrap();
    assert_eq!(recording::Recording::parse(&saved).unwrap(), recording);
    let file = out.join("recording.json");
    // The terminal has room for the calls that differ most.
    let all = ["openat", "setsockopt", "| sendfile", "nginx", "h2o"];
    for (format, words) in [("text", &all[3..]), ("markdown", &all[..])] {
        let text = run(&["report", file.to_str().unwrap(), "--format", format]);
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        for word in words {
            assert!(
                text.contains(word),
                "{word} is missing in {format}:\n{text}"
            );
        }
    }
}

/// A server that runs already, found by its port, counted by strace and by whyfast in one window.
#[test]
fn live_nginx_equals_strace() {
    if missing("live_nginx_equals_strace", &["nginx", "strace"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (nginx, port) = start_nginx(folder.path(), None);
    let workers = children(nginx.0.0.id());
    let [worker] = workers[..] else {
        panic!("one worker was asked for, {workers:?} found")
    };
    check_equal(worker, port, "recvfrom", &folder.path().join("table"), 2);
}

/// The same for h2o, whose threads all belong to one process.
#[test]
fn live_h2o_equals_strace() {
    if missing("live_h2o_equals_strace", &["h2o", "strace"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (h2o, port) = start_h2o(folder.path());
    check_equal(
        h2o.0.id(),
        port,
        "read",
        &folder.path().join("table"),
        EDGES,
    );
}

/// The same for lighttpd, which is one process.
#[test]
fn live_lighttpd_equals_strace() {
    if missing("live_lighttpd_equals_strace", &["lighttpd", "strace"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (root, port) = site(folder.path());
    let config = format!(
        "server.bind = \"127.0.0.1\"\nserver.port = {port}\nserver.document-root = \"{}\"\n\
         server.errorlog = \"{}/error.log\"\nserver.max-keep-alive-requests = 1000000\n\
         index-file.names = ( \"index.html\" )\n",
        root.display(),
        folder.path().display()
    );
    let server = start("lighttpd", &["-D", "-f"], folder.path(), &config, port);
    let table = folder.path().join("table");
    check_equal(server.0.id(), port, "read", &table, EDGES);
}

/// Requests of a window.
const REQUESTS: u64 = 2000;

/// Waits of h2o's timers that only the wider of two windows sees, besides those that strace's
/// attaching and leaving interrupt.
const EDGES: u64 = 20;

/// Loads a server that both watch: every call is counted alike. Only of the waits strace, whose
/// window encloses ours, may see `waits` more.
fn check_equal(pid: u32, port: u16, reading: &str, table: &Path, waits: u64) {
    until("the end of its start", || waits_for_events(pid));
    let strace = Command::new("strace")
        .args(["-c", "-f", "-p", &pid.to_string(), "-o"])
        .arg(table)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut strace = Mortal(strace);
    until("strace's attaching", || {
        tracer(pid).is_some_and(|t| t == strace.0.id())
    });
    // Attaching interrupts the wait; the server has to be back in it.
    until("waiting again", || waits_for_events(pid));
    let mut half = ProfileHalf::attach(&["--port", &port.to_string(), "--detail", "counts"]);
    half.open(true);
    let url = format!("http://127.0.0.1:{port}/");
    let load = run(&["load", &url, "-n", &REQUESTS.to_string(), "-c", "3"]);
    assert!(
        load.status.success(),
        "{}",
        String::from_utf8_lossy(&load.stderr)
    );
    let profile = half.close(true);
    let tracer = rustix::process::Pid::from_raw(strace.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(tracer, rustix::process::Signal::INT).unwrap();
    strace.0.wait().unwrap();
    let strace = parse_table(&fs::read_to_string(table).unwrap());
    let ours = rows(&profile);
    assert!(
        ours.get("writev")
            .is_some_and(|&(count, _)| count == REQUESTS),
        "{ours:?}"
    );
    assert!(
        ours.get(reading)
            .is_some_and(|&(count, _)| count >= REQUESTS),
        "{ours:?}"
    );
    for (name, count) in &ours {
        // A thread of h2o sleeps on its own, once a second.
        if name != "epoll_wait" && name != "clock_nanosleep" {
            assert_eq!(strace.get(name), Some(count), "{name}");
        }
    }
    let (counted, seen) = (ours["epoll_wait"].0, strace["epoll_wait"].0);
    assert!(
        seen >= counted && seen - counted <= waits,
        "{counted} {seen}"
    );
    assert!(!is_traced(pid));
}

/// nginx, ended in order: killed, its master would leave the worker behind.
pub(crate) struct Nginx(Mortal);

impl Nginx {
    pub(crate) fn pid(&self) -> u32 {
        self.0.0.id()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.0.0.id().cast_signed()).unwrap();
        drop(
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)
                .map(|()| self.0.0.wait()),
        );
    }
}

/// A folder with a page, and a free port.
fn site(folder: &Path) -> (PathBuf, u16) {
    let root = folder.join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("index.html"), "x").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (root, listener.local_addr().unwrap().port())
}

/// One worker; over TLS with these lines of configuration.
pub(crate) fn start_nginx(folder: &Path, tls: Option<&str>) -> (Nginx, u16) {
    let listen = if tls.is_some() { "ssl" } else { "" };
    configured_nginx(
        folder,
        listen,
        &format!("access_log off; {}", tls.unwrap_or_default()),
    )
}

/// One worker, with these words after its address, and these lines for its server.
pub(crate) fn configured_nginx(folder: &Path, listen: &str, lines: &str) -> (Nginx, u16) {
    let (root, port) = site(folder);
    let folder_name = folder.display();
    let config = format!(
        "daemon off; worker_processes 1; pid {folder_name}/pid; user root;\n\
         events {{ }}\nhttp {{ keepalive_requests 1000000;\n\
         server {{ listen 127.0.0.1:{port} {listen}; {lines} root {}; }} }}\n",
        root.display()
    );
    let path = folder.join("nginx.conf");
    fs::write(&path, config).unwrap();
    let nginx = Command::new(crate::find("nginx").unwrap())
        .args(["-e", "stderr", "-c"])
        .arg(&path)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let nginx = Nginx(Mortal(nginx));
    until("listening", || listens(port));
    until("a worker", || !children(nginx.0.0.id()).is_empty());
    (nginx, port)
}

fn start_h2o(folder: &Path) -> (Mortal, u16) {
    let (root, port) = site(folder);
    let config = format!(
        "num-threads: 1\nuser: root\nlisten:\n  host: 127.0.0.1\n  port: {port}\n\
         hosts:\n  default:\n    paths:\n      /:\n        file.dir: {}\n",
        root.display()
    );
    let h2o = start("h2o", &["-c"], folder, &config, port);
    (h2o, port)
}

/// A server whose last argument is its configuration file.
fn start(program: &str, arguments: &[&str], folder: &Path, config: &str, port: u16) -> Mortal {
    let path = folder.join("server.conf");
    fs::write(&path, config).unwrap();
    let server = Command::new(crate::find(program).unwrap())
        .args(arguments)
        .arg(&path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Mortal(server);
    until("listening", || listens(port));
    server
}

/// Whether somebody listens on the port; asked without a connection, which both would see the end
/// of at different times.
fn listens(port: u16) -> bool {
    let local = format!("0100007F:{port:04X}");
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // State 0A is LISTEN.
        fields.get(1) == Some(&local.as_str()) && fields.get(3) == Some(&"0A")
    })
}

/// Whether a thread of the process is in `epoll_wait` (232).
pub(crate) fn waits_for_events(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    threads.flatten().any(|thread| {
        fs::read_to_string(thread.path().join("syscall"))
            .is_ok_and(|text| text.split(' ').next() == Some("232"))
    })
}

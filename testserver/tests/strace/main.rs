//! The tables of calls per request against what strace sees, call by call.
//!
//! The server is a child: this test binary again, under strace. Two marked requests enclose the
//! requests that are counted, so that nothing before and after them matters. Without a strace that
//! may trace, the test says so and adds a line to the file that `WHYFAST_SKIP_LOG` names.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use testserver::{CallCount, Config, Server};

/// A thousand requests in lock-step cause exactly the calls of the table, and no other call.
#[test]
fn every_request_makes_the_calls_of_its_table() {
    if let Some(reason) = strace_missing() {
        skip("every_request_makes_the_calls_of_its_table", &reason);
        return;
    }
    for spec in [
        "memory",
        "mmap",
        "open-read",
        "pread",
        "sendfile",
        "sendfile-uncorked",
        "write-parts",
        "memory,poller=epoll-edge",
        "memory,poller=io-uring,read=eagain",
        "memory,poller=poll,split=4",
        "memory,poller=select",
        "sendfile,getppid=3,spin-us=1,open=2,fstat=1",
        "sendfile,sleep-us=1,lock-us=1",
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = folder.path().join("strace.log");
        let tid = serve_under_strace(spec, &log, REQUESTS);
        let text = std::fs::read_to_string(&log).expect("strace wrote its log");
        let counted = count_between_marks(&text, tid);
        // From the first mark to the second is one cycle more than there are requests between.
        assert_eq!(counted, table(spec, u64::from(REQUESTS) + 1), "{spec}");
    }
}

/// Where the kernel receives by itself, strace sees no mark; there a thousand requests more cause
/// exactly the calls of the table more.
#[test]
fn every_exchange_of_a_ring_makes_the_calls_of_its_table() {
    if let Some(reason) = strace_missing() {
        skip(
            "every_exchange_of_a_ring_makes_the_calls_of_its_table",
            &reason,
        );
        return;
    }
    for spec in ["ring", "ring,getppid=3,open=2"] {
        let [fewer, more] = [REQUESTS, 2 * REQUESTS].map(|requests| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let log = folder.path().join("strace.log");
            let tid = serve_under_strace(spec, &log, requests);
            let text = std::fs::read_to_string(&log).expect("strace wrote its log");
            count_from_ring_to_ring(&text, tid)
        });
        let mut added = BTreeMap::new();
        for (name, (count, errors)) in more {
            let (before, errors_before) = fewer.get(&name).copied().unwrap_or_default();
            if count != before {
                added.insert(name, (count - before, errors - errors_before));
            }
        }
        assert_eq!(added, table(spec, u64::from(REQUESTS)), "{spec}");
    }
}

/// Calls and failed calls of so many requests by the table.
fn table(spec: &str, requests: u64) -> BTreeMap<String, (u64, u64)> {
    let calls = Config::parse(spec)
        .expect("a valid spec")
        .calls_per_request();
    let row = |call: &CallCount| {
        let [count, errors] =
            [call.per_request, call.failing].map(|number| u64::from(number) * requests);
        (call.name.to_owned(), (count, errors))
    };
    calls.iter().map(row).collect()
}

/// Runs the server of the test above in a child; in any other run there is nothing to do.
#[test]
fn child_server() {
    let Ok(spec) = std::env::var(CHILD_SPEC) else {
        return;
    };
    let server = Server::bind(Config::parse(&spec).expect("a valid spec")).expect("a free port");
    let stop = server.stop_handle();
    // Ends with the test that started it, also when that one was killed.
    let watcher = std::thread::spawn(move || {
        let _closed = std::io::stdin().read_to_end(&mut Vec::new());
        stop.stop();
    });
    let tid = rustix::thread::gettid();
    println!(
        "\n{READY}{} {}",
        server.local_address(),
        tid.as_raw_nonzero()
    );
    server.run().expect("a clean end");
    watcher.join().expect("the watcher does not panic");
}

/// Traces one server while it answers the requests, and returns the thread that served.
fn serve_under_strace(spec: &str, log: &Path, requests: u32) -> u32 {
    let mut child = Command::new("strace")
        .args(["-f", "-s", "64", "-o"])
        .arg(log)
        .arg(std::env::current_exe().expect("the path of this test"))
        .args(["--exact", "child_server", "--nocapture"])
        .env(CHILD_SPEC, spec)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("strace was found before");
    let stdout = child.stdout.take().expect("stdout is a pipe");
    // Kept to the end, because the child could not write to a pipe without a reader.
    let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let (address, tid) = lines
        .find_map(|line| ready_line(&line))
        .expect("the server says where it listens");
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a positive limit");
    let middle = std::iter::repeat_n("/", requests as usize);
    let targets = ["/", FIRST_MARK].into_iter().chain(middle);
    for target in targets.chain([LAST_MARK]) {
        request(&mut stream, target);
    }
    drop(child.stdin.take());
    lines.for_each(drop);
    let status = child.wait().expect("the child can be waited for");
    assert!(status.success(), "{spec}: {status}");
    tid
}

/// Address and thread of a server that has begun.
fn ready_line(line: &str) -> Option<(String, u32)> {
    let (address, tid) = line.strip_prefix(READY)?.split_once(' ')?;
    Some((address.to_owned(), tid.parse().ok()?))
}

/// One request, and its response to the last byte.
fn request(stream: &mut TcpStream, target: &str) {
    stream
        .write_all(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes())
        .expect("the server reads");
    let mut response = Vec::new();
    let mut chunk = [0; 1024];
    while !response.ends_with(b"\r\n\r\n0") {
        let read = stream.read(&mut chunk).expect("the server answers");
        assert_ne!(read, 0, "the server closed the connection");
        response.extend_from_slice(&chunk[..read]);
    }
}

/// Calls and failed calls by name of one thread, after the first mark was received and until the
/// last one was.
fn count_between_marks(log: &str, tid: u32) -> BTreeMap<String, (u64, u64)> {
    let received = |line: &str, mark| line.contains(&format!("\"GET {mark} "));
    let lines = lines_of(log, tid);
    let place = |mark| {
        let found = lines.iter().position(|line| received(line, mark));
        found.expect("the marks are in the log of the thread")
    };
    count(&lines[place(FIRST_MARK) + 1..=place(LAST_MARK)])
}

/// Calls and failed calls by name of one thread, from its first turn with the kernel to its last one:
/// what an allocator maps and unmaps before and after depends on where its memory happens to be.
fn count_from_ring_to_ring(log: &str, tid: u32) -> BTreeMap<String, (u64, u64)> {
    let lines = lines_of(log, tid);
    let turns = |line: &&str| line.contains("io_uring_enter");
    let first = lines.iter().position(turns);
    let last = lines.iter().rposition(turns);
    let (first, last) = first.zip(last).expect("the thread used its ring");
    count(&lines[first..=last])
}

/// The calls of one thread in a log. A call that another thread interrupts there stands on two lines;
/// the second one has its result.
fn lines_of(log: &str, tid: u32) -> Vec<&str> {
    let prefix = format!("{tid} ");
    let of_thread = log
        .lines()
        .filter_map(move |line| Some(line.strip_prefix(prefix.as_str())?.trim_start()));
    of_thread
        .filter(|line| !line.ends_with("<unfinished ...>"))
        .collect()
}

fn count(lines: &[&str]) -> BTreeMap<String, (u64, u64)> {
    let mut counts = BTreeMap::new();
    for line in lines {
        let call = line.strip_prefix("<... ").unwrap_or(line);
        let name = call.split(['(', ' ']).next().unwrap_or_default();
        let (count, errors): &mut (u64, u64) = counts.entry(name.to_owned()).or_default();
        *count += 1;
        *errors += u64::from(line.contains(" = -1 "));
    }
    counts
}

/// Why strace cannot be used here.
fn strace_missing() -> Option<String> {
    let tried = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .output();
    match tried {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let first = text.lines().next().unwrap_or("no message");
            Some(format!(
                "strace may not trace here: {}",
                first.escape_debug()
            ))
        }
        Err(error) => Some(format!("strace cannot be run: {error}")),
    }
}

/// Says that a test was skipped, so that it does not pass silently.
#[expect(clippy::print_stderr, reason = "shown by `cargo test -- --nocapture`")]
fn skip(test: &str, reason: &str) {
    eprintln!("skipped: {test}: {reason}");
    if let Some(path) = std::env::var_os("WHYFAST_SKIP_LOG") {
        std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .and_then(|mut file| writeln!(file, "testserver {test}\t{reason}"))
            .expect("the list of skipped tests can be written");
    }
}

const CHILD_SPEC: &str = "WHYFAST_TEST_CHILD_SPEC";
const READY: &str = "listening ";
const FIRST_MARK: &str = "/?first";
const LAST_MARK: &str = "/?last";
const REQUESTS: u32 = 1_000;
/// A limit on any single read, so that a defect fails the test rather than hanging it.
const PATIENCE: Duration = Duration::from_secs(20);

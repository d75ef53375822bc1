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

use testserver::{Config, Server};

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
        "sendfile,getppid=3,spin-us=1,open=2",
        "sendfile,sleep-us=1,lock-us=1",
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = folder.path().join("strace.log");
        let tid = serve_under_strace(spec, &log);
        let text = std::fs::read_to_string(&log).expect("strace wrote its log");
        let counted = count_between_marks(&text, tid);
        // From the first mark to the second is one cycle more than there are requests between.
        let cycles = u64::from(REQUESTS) + 1;
        let expected: BTreeMap<String, (u64, u64)> = Config::parse(spec)
            .expect("a valid spec")
            .calls_per_request()
            .iter()
            .map(|call| {
                let [count, errors] =
                    [call.per_request, call.failing].map(|number| u64::from(number) * cycles);
                (call.name.to_owned(), (count, errors))
            })
            .collect();
        assert_eq!(counted, expected, "{spec}");
    }
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
fn serve_under_strace(spec: &str, log: &Path) -> u32 {
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
    let middle = std::iter::repeat_n("/", REQUESTS as usize);
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
    let prefix = format!("{tid} ");
    let mut counts = BTreeMap::new();
    let mut counting = false;
    for line in log.lines().filter_map(|line| line.strip_prefix(&prefix)) {
        let line = line.trim_start();
        let received = |mark| line.contains(&format!("\"GET {mark} "));
        // A call that another thread interrupts in the log stands on two lines; the second one has
        // its result.
        if line.ends_with("<unfinished ...>") {
            continue;
        }
        if counting {
            let call = line.strip_prefix("<... ").unwrap_or(line);
            let name = call.split(['(', ' ']).next().unwrap_or_default();
            let (count, errors): &mut (u64, u64) = counts.entry(name.to_owned()).or_default();
            *count += 1;
            *errors += u64::from(line.contains(" = -1 "));
        }
        if received(LAST_MARK) {
            return counts;
        }
        counting |= received(FIRST_MARK);
    }
    panic!("the marks are not in the log of thread {tid}");
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

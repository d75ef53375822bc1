//! Counters that are scraped while a server is under load.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{ChildStderr, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::live::testserver;
use crate::whyfast::{Mortal, run, until, whyfast};

/// What is scraped adds up to the requests of a load, exactly, goes on with the next load, and never falls; an
/// address that is taken is named; at SIGTERM it ends with 0 and the report.
#[test]
fn scraped_counters_are_those_of_the_load() {
    let (_server, address) = testserver("127.0.0.1:0");
    let port = address.rsplit_once(':').unwrap().1.to_owned();
    let mut profile = Mortal(
        whyfast()
            .args(["profile", "--port", &port, "--serve", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut said = BufReader::new(profile.0.stderr.take().unwrap());
    let scraped = served_at(&mut said);
    assert_eq!(responses(&scrape(&scraped)), 0);
    let url = format!("http://{address}/");
    for loads in 1..=2 {
        let load = run(&["load", &url, "-n", "3000", "-c", "4"]);
        assert!(load.status.success(), "{load:?}");
        let mut last = 0;
        until("the counters of the load", || {
            let now = responses(&scrape(&scraped));
            assert!(now >= last, "{now} after {last}");
            last = now;
            now >= 3000 * loads
        });
        assert_eq!(last, 3000 * loads);
    }
    let second = run(&["profile", "--port", &port, "--serve", &scraped]);
    assert_eq!(second.status.code(), Some(1));
    let error = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        error.contains("cannot listen on") && error.contains("--serve"),
        "{error}"
    );
    let pid = Pid::from_child(&profile.0);
    kill_process(pid, Signal::TERM).unwrap();
    let mut report = String::new();
    let mut stdout = profile.0.stdout.take().unwrap();
    stdout.read_to_string(&mut report).unwrap();
    assert_eq!(profile.0.wait().unwrap().code(), Some(0));
    assert!(report.contains("sendfile"), "{report}");
}

/// The address that the counters are served at, port 0 having been asked for.
pub(crate) fn served_at(said: &mut BufReader<ChildStderr>) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended");
        if let Some((_, rest)) = line.split_once("http://") {
            return rest.trim().trim_end_matches("/metrics").to_owned();
        }
    }
}

fn scrape(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    text
}

/// Responses of the built-in server, which makes one `sendfile` for each.
fn responses(text: &str) -> u64 {
    let counters = text
        .lines()
        .filter_map(|line| line.strip_prefix("whyfast_syscalls_total{"));
    let values = counters.filter_map(|rest| {
        let (labels, value) = rest.rsplit_once("} ")?;
        labels
            .starts_with("syscall=\"sendfile\"")
            .then(|| value.parse::<u64>().unwrap())
    });
    values.sum()
}

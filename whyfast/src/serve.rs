//! `whyfast profile --serve`: counters for Prometheus to scrape, answered by threads of their own, so that a scrape
//! that hangs holds up neither the measurement nor others.
//!
//! There is no authentication: whoever reaches the address reads how often the target makes which calls. Nothing of
//! its memory, arguments or files is in that.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use procfs::WithCurrentSystemInfo as _;
use profiler::Session;
use recording::{ProfileSlice, exit_code};
use reports::prometheus::Counters;

use crate::failure::Failure;
use crate::output::note;
use crate::verbs::profile::{Leave, Onlooker};

/// Reads `9100`, which is a port of the loopback address, or `ADDRESS:PORT`.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse()
        .map_err(|error| format!("{error}: write PORT (of 127.0.0.1) or ADDRESS:PORT"))
}

/// An address that is listened on, before anything is answered.
pub(crate) fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        Failure::with_code(
            exit_code::FAILED,
            format!("cannot listen on {address}: {error}; choose another --serve ADDRESS:PORT"),
        )
    })
}

/// Counters that are scraped while the target is watched.
#[derive(Debug)]
pub(crate) struct Scraped {
    counters: Arc<Mutex<Counters>>,
    /// As they were counted last.
    processes: Option<usize>,
}

impl Scraped {
    /// Begins to answer. The threads end with the process: they own nothing but their connections.
    pub(crate) fn begin(listener: TcpListener) -> io::Result<Self> {
        let counters = Arc::new(Mutex::new(Counters::default()));
        note(&format!(
            "counters for Prometheus: http://{}/metrics",
            listener.local_addr()?
        ));
        let shared = Arc::clone(&counters);
        std::thread::Builder::new()
            .name("scrapes".into())
            .spawn(move || accept(&listener, &shared))?;
        Ok(Self {
            counters,
            processes: None,
        })
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Onlooker for Scraped {
    fn interval(&self) -> Option<Duration> {
        Some(FRESH)
    }

    fn show(&mut self, slice: ProfileSlice) -> anyhow::Result<()> {
        self.counters().add(&slice);
        Ok(())
    }

    fn attend(&mut self, session: &Session) -> anyhow::Result<Option<Leave>> {
        let processes = session.pids().len();
        if self.processes.replace(processes) != Some(processes) {
            self.counters().see_processes(processes);
        }
        Ok(None)
    }
}

/// Takes connections until the process ends.
fn accept(listener: &TcpListener, counters: &Arc<Mutex<Counters>>) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, most likely: those that are open end by themselves.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        if open.load(Ordering::Acquire) >= MOST_OPEN {
            continue;
        }
        open.fetch_add(1, Ordering::AcqRel);
        let (counters, counted) = (Arc::clone(counters), Arc::clone(&open));
        let spawned = std::thread::Builder::new().spawn(move || {
            // Whoever asked is gone, or too slow: nobody is left to be told.
            let _gone = answer(stream, &counters);
            counted.fetch_sub(1, Ordering::AcqRel);
        });
        if spawned.is_err() {
            open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Answers one request, and closes.
fn answer(mut stream: TcpStream, counters: &Mutex<Counters>) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let head = read_head(&mut stream, deadline)?;
    let (status, body) = respond(&head, counters);
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut rest = response.as_bytes();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        let written = stream.write(rest)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        rest = &rest[written..];
    }
    Ok(())
}

/// The head of a request, of a limited length and within a limited time.
fn read_head(stream: &mut TcpStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if head.len() > MOST_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        stream.set_read_timeout(Some(left(deadline)?))?;
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&buffer[..read]);
    }
    Ok(head)
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

/// Status and body for a request.
fn respond(head: &[u8], counters: &Mutex<Counters>) -> (&'static str, String) {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    if method != "GET" {
        return (
            "405 Method Not Allowed",
            "only GET is answered\n".to_owned(),
        );
    }
    match target.split('?').next() {
        Some("/metrics") => {
            let counters = counters.lock().unwrap_or_else(PoisonError::into_inner);
            let own = own_use().unwrap_or_default();
            ("200 OK", counters.render(env!("CARGO_PKG_VERSION")) + &own)
        }
        Some("/") => ("200 OK", "the counters are at /metrics\n".to_owned()),
        _ => ("404 Not Found", "the counters are at /metrics\n".to_owned()),
    }
}

/// What answering and reading take, by the names that exporters have for it.
fn own_use() -> Option<String> {
    let stat = procfs::process::Process::myself().ok()?.stat().ok()?;
    let cpu_s = (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64;
    let resident = stat.rss_bytes().get();
    Some(format!(
        "# HELP process_cpu_seconds_total CPU time of whyfast itself, not that of its probes.\n\
         # TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total {cpu_s}\n\
         # HELP process_resident_memory_bytes Memory of whyfast itself.\n\
         # TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes {resident}\n"
    ))
}

/// How old counters are at most when they are scraped.
const FRESH: Duration = Duration::from_secs(1);
/// Connections that are answered at once; further ones are closed.
const MOST_OPEN: usize = 16;
/// Bytes of the head of a request.
const MOST_HEAD: usize = 8 * 1024;
/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;

    /// A port alone is one of the loopback address; anything else has to be spelled out.
    #[test]
    fn addresses() {
        assert_eq!(address("9100"), Ok("127.0.0.1:9100".parse().unwrap()));
        assert_eq!(address("0.0.0.0:9100"), Ok("0.0.0.0:9100".parse().unwrap()));
        assert_eq!(address("[::1]:1"), Ok("[::1]:1".parse().unwrap()));
        for wrong in ["", "localhost:9100", "70000", ":9100", "1.2.3.4"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    /// Counters are at one path, by one method; anything else is refused, whatever it is made of.
    #[test]
    fn requests() {
        let counters = Mutex::new(Counters::default());
        let status = |head: &[u8]| respond(head, &counters).0;
        assert_eq!(status(b"GET /metrics HTTP/1.1\r\n\r\n"), "200 OK");
        assert_eq!(status(b"GET /metrics?x=1 HTTP/1.0\r\n\r\n"), "200 OK");
        assert_eq!(status(b"GET / HTTP/1.1\r\n\r\n"), "200 OK");
        assert_eq!(status(b"GET /etc HTTP/1.1\r\n\r\n"), "404 Not Found");
        assert_eq!(status(b"GET\r\n\r\n"), "404 Not Found");
        for head in [&b"POST /metrics HTTP/1.1\r\n\r\n"[..], b"\xff\r\n\r\n", b""] {
            assert_eq!(status(head), "405 Method Not Allowed");
        }
    }

    /// More connections than are answered at once, each of which says nothing, do not keep others from an answer
    /// once they are given up; a head without an end is refused.
    #[test]
    fn silent_and_endless_scrapes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let scraped = Scraped::begin(listener).unwrap();
        let silent: Vec<TcpStream> = (0..3 * MOST_OPEN)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        // Those beyond the limit were closed at once, and the others are when they hang up.
        drop(silent);
        let mut endless = TcpStream::connect(address).unwrap();
        let flood = vec![b'a'; 4 * MOST_HEAD];
        let flooded = endless.write_all(&flood).and_then(|()| {
            let mut answer = Vec::new();
            endless.read_to_end(&mut answer).map(|_| answer)
        });
        assert!(flooded.is_err() || flooded.unwrap().is_empty());
        let text = loop {
            let mut stream = TcpStream::connect(address).unwrap();
            let asked = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
            let mut text = String::new();
            if asked.is_ok() && stream.read_to_string(&mut text).is_ok() && !text.is_empty() {
                break text;
            }
        };
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(
            text.contains("\nwhyfast_observed_seconds_total 0\n"),
            "{text}"
        );
        drop(scraped);
    }
}

//! Servers that people use, each over every protocol that it speaks: no errors, and as many
//! requests as in the server's own log. A server that is not installed is said aloud.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use loadgen::{Config, HttpVersion, Resumption, Stop};
use recording::Load;
use tempfile::TempDir;

use crate::run_checked;

/// Makes the configuration of a server from a folder and its ports in clear and for TLS.
type Configuration = fn(&Path, u16, u16) -> String;

/// A running server; it ends when it is dropped.
struct Real {
    child: Child,
    folder: TempDir,
    clear: u16,
    tls: u16,
}

impl Drop for Real {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

impl Real {
    /// Starts a program with the configuration that `write` makes of folder, port in clear and port
    /// of TLS; `None` where it is not installed.
    fn start(test: &str, program: &str, write: Configuration) -> Option<Self> {
        for _ in 0..ATTEMPTS {
            match Self::attempt(program, write) {
                Ok(mut real) => {
                    if real.comes_up() {
                        return Some(real);
                    }
                }
                Err(error) => {
                    skip(test, &format!("{program}: {error}"));
                    return None;
                }
            }
        }
        panic!("{program} does not start");
    }

    fn attempt(program: &str, write: Configuration) -> std::io::Result<Self> {
        let folder = TempDir::new().unwrap();
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(folder.path().join("cert.pem"), key.cert.pem()).unwrap();
        fs::write(
            folder.path().join("key.pem"),
            key.signing_key.serialize_pem(),
        )
        .unwrap();
        fs::write(folder.path().join("file"), "x").unwrap();
        // Both are free at this moment; when somebody takes one in between, the server ends.
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (clear, tls) = (free(), free());
        let ports = [&clear, &tls].map(|listener| listener.local_addr().unwrap().port());
        drop((clear, tls));
        let path = folder.path().join("config");
        fs::write(&path, write(folder.path(), ports[0], ports[1])).unwrap();
        let log = fs::File::create(folder.path().join("output")).unwrap();
        let child = Command::new(program)
            .arg("-c")
            .arg(&path)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()?;
        Ok(Self {
            child,
            folder,
            clear: ports[0],
            tls: ports[1],
        })
    }

    /// Waits until both ports answer; `false` when the server has ended instead.
    fn comes_up(&mut self) -> bool {
        let begun = Instant::now();
        for port in [self.clear, self.tls] {
            while TcpStream::connect(("127.0.0.1", port)).is_err() {
                let output = fs::read_to_string(self.folder.path().join("output")).unwrap();
                if self.child.try_wait().unwrap().is_some() {
                    let line = format!("ended at once: {output}\n");
                    std::io::stdout().write_all(line.as_bytes()).unwrap();
                    return false;
                }
                assert!(begun.elapsed() < Duration::from_mins(1), "{output}");
                // sleeps: only a server that can be connected to is there.
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        true
    }

    /// A load on a file, over TLS or in clear.
    fn config(&self, tls: bool, http: HttpVersion) -> Config {
        let (scheme, port) = if tls {
            ("https", self.tls)
        } else {
            ("http", self.clear)
        };
        let mut config = Config::new(format!("{scheme}://localhost:{port}/file"));
        config.tls.ca_file = Some(self.folder.path().join("cert.pem"));
        config.http = http;
        config.depth = if http == HttpVersion::Http1 { 1 } else { 8 };
        config.connections = 4;
        config.stop = Stop::Requests(400);
        config
    }

    /// Waits until the log of the server has so many lines, and for no more.
    fn has_logged(&self, lines: usize) {
        let path = self.folder.path().join("access");
        let begun = Instant::now();
        loop {
            let found = fs::read_to_string(&path)
                .unwrap_or_default()
                .lines()
                .count();
            if found == lines {
                return;
            }
            assert!(found < lines, "{found} requests in the log, not {lines}");
            let late = begun.elapsed() > Duration::from_mins(1);
            assert!(!late, "{found} requests in the log, not {lines}");
            // sleeps: a log is written after the reply.
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn skip(test: &str, why: &str) {
    let line = format!("{test}\t{why}\n");
    match std::env::var_os("WHYFAST_SKIP_LOG") {
        Some(path) => {
            let log = fs::OpenOptions::new().append(true).create(true).open(path);
            log.unwrap().write_all(line.as_bytes()).unwrap();
        }
        None => std::io::stdout()
            .write_all(format!("SKIPPED {line}").as_bytes())
            .unwrap(),
    }
}

fn check(load: &Load, server: &str) {
    assert_eq!(
        (load.ledger.ok, load.ledger.failed_total()),
        (400, 0),
        "{server}: {load:?}"
    );
    assert_eq!(load.traffic.body_bytes, 400, "{server}");
}

/// Every protocol in turn, then handshakes of which so many resume at least; the log of the server
/// has them all.
fn check_all(real: &Real, in_clear: &[HttpVersion], resumed_min: u64) {
    let mut logged = 0;
    for (tls, http) in in_clear
        .iter()
        .map(|http| (false, *http))
        .chain([(true, HttpVersion::Http1), (true, HttpVersion::Http2)])
    {
        let load = run_checked(&real.config(tls, http));
        check(&load, &format!("{http:?}, TLS {tls}"));
        assert_eq!(load.tls.is_some(), tls);
        logged += 400;
        real.has_logged(logged);
    }
    let mut config = real.config(true, HttpVersion::Http1);
    config.requests_per_connection = Some(4);
    config.tls.resumption = Resumption::Resume;
    let load = run_checked(&config);
    check(&load, "resumption");
    let tls = load.tls.unwrap();
    assert!(
        tls.full_handshakes + tls.resumed_handshakes >= 100,
        "{tls:?}"
    );
    assert!(tls.resumed_handshakes >= resumed_min, "{tls:?}");
    real.has_logged(logged + 400);
}

/// nginx. It speaks HTTP/2 in clear only to those who know, and asks nobody to upgrade.
#[test]
fn nginx() {
    let config = |folder: &Path, clear: u16, tls: u16| {
        let folder = folder.display();
        let user = if rustix::process::geteuid().is_root() {
            "user root;"
        } else {
            ""
        };
        format!(
            "daemon off; master_process off; {user} pid {folder}/pid; error_log {folder}/errors;
             events {{}}
             http {{
               access_log {folder}/access;
               client_body_temp_path {folder}/a; proxy_temp_path {folder}/b;
               fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
               ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
               ssl_session_cache shared:s:1m; root {folder};
               server {{ listen 127.0.0.1:{clear}; }}
               server {{ listen 127.0.0.1:{tls} ssl http2; }}
             }}"
        )
    };
    let Some(real) = Real::start("nginx", "nginx", config) else {
        return;
    };
    check_all(&real, &[HttpVersion::Http1], 90);
}

/// h2o, which also upgrades.
#[test]
fn h2o() {
    let config = |folder: &Path, clear: u16, tls: u16| {
        let folder = folder.display();
        let user = if rustix::process::geteuid().is_root() {
            "user: root\n"
        } else {
            ""
        };
        format!(
            "{user}num-threads: 1
listen:
  host: 127.0.0.1
  port: {clear}
listen:
  host: 127.0.0.1
  port: {tls}
  ssl:
    certificate-file: {folder}/cert.pem
    key-file: {folder}/key.pem
access-log: {folder}/access
hosts:
  default:
    paths:
      /:
        file.dir: {folder}
"
        )
    };
    let Some(real) = Real::start("h2o", "h2o", config) else {
        return;
    };
    check_all(
        &real,
        &[
            HttpVersion::Http1,
            HttpVersion::Http2,
            HttpVersion::Http2Upgrade,
        ],
        // It does not take every ticket that it gives.
        1,
    );
}

/// How often another pair of ports is tried.
const ATTEMPTS: u32 = 5;

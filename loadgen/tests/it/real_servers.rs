//! Servers that people use, each over every protocol that it speaks: no errors, and as many
//! requests as in the server's own log. A server that is not installed is said aloud.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use loadgen::{Config, HttpVersion, ProxyProtocol, Resumption, Stop};
use recording::Load;
use tempfile::TempDir;

use crate::run_checked;

/// How a server is started.
struct Kind {
    program: &'static str,
    /// Its arguments; it runs in its folder, where its configuration is the file `config`.
    arguments: &'static [&'static str],
    /// Makes the configuration.
    write: fn(&Place) -> String,
    /// The file that has a line per request.
    log: &'static str,
}

/// Where a server works: its folder and its ports, all of them free a moment ago.
struct Place {
    folder: TempDir,
    clear: u16,
    tls: u16,
    /// For HTTP/2 in clear, where a server wants a port for that.
    h2c: u16,
}

impl Place {
    /// A folder with a certificate and a file of one byte.
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, secret) = (key.cert.pem(), key.signing_key.serialize_pem());
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("cert.pem", &certificate);
        write("key.pem", &secret);
        write("both.pem", &format!("{certificate}{secret}"));
        write("file", "x");
        // When somebody takes one before the server does, the server ends.
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [clear, tls, h2c] = listeners.map(|free| free.local_addr().unwrap().port());
        Self {
            folder,
            clear,
            tls,
            h2c,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A running server; it ends when it is dropped, and with the thread of the test.
struct Real {
    child: Child,
    place: Place,
    log: &'static str,
    /// Whether HTTP/2 in clear has a port of its own.
    h2c_apart: bool,
}

impl Drop for Real {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

impl Real {
    /// Starts a server; `None` where it is not installed.
    fn start(test: &str, kind: &Kind) -> Option<Self> {
        let Some(program) = find(kind.program) else {
            skip(test, &format!("{} is not installed", kind.program));
            return None;
        };
        for _ in 0..ATTEMPTS {
            let mut real = Self::attempt(&program, kind);
            if real.comes_up() {
                return Some(real);
            }
        }
        panic!("{} does not start", kind.program);
    }

    fn attempt(program: &Path, kind: &Kind) -> Self {
        let place = Place::new();
        let config = (kind.write)(&place);
        let h2c_apart = config.contains(&place.h2c.to_string());
        fs::write(place.path("config"), config).unwrap();
        let file = |name: &str| fs::File::create(place.path(name)).unwrap();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .args(kind.arguments)
            .current_dir(place.folder.path())
            .env("HOME", place.folder.path())
            .env("XDG_CONFIG_HOME", place.folder.path())
            .env("XDG_DATA_HOME", place.folder.path())
            .stdin(Stdio::null())
            .stdout(file("output"))
            .stderr(file("complaints"))
            .spawn()
            .unwrap();
        Self {
            child,
            place,
            log: kind.log,
            h2c_apart,
        }
    }

    /// Waits until its ports answer; `false` when the server has ended instead.
    fn comes_up(&mut self) -> bool {
        let begun = Instant::now();
        let Place {
            clear, tls, h2c, ..
        } = self.place;
        let ports = [clear, tls, if self.h2c_apart { h2c } else { clear }];
        for port in ports {
            while TcpStream::connect(("127.0.0.1", port)).is_err() {
                let output = fs::read_to_string(self.place.path("complaints")).unwrap();
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
            ("https", self.place.tls)
        } else if self.h2c_apart && http != HttpVersion::Http1 {
            ("http", self.place.h2c)
        } else {
            ("http", self.place.clear)
        };
        let mut config = Config::new(format!("{scheme}://localhost:{port}/file"));
        config.tls.ca_file = Some(self.place.path("cert.pem"));
        config.http = http;
        config.depth = if http == HttpVersion::Http1 { 1 } else { 8 };
        config.connections = 4;
        config.stop = Stop::Requests(400);
        config
    }

    /// Waits until the log of the server has so many lines, and for no more.
    fn has_logged(&self, lines: usize) {
        let path = self.place.path(self.log);
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

/// nginx. It speaks HTTP/2 in clear only to those who know, on a port for that.
#[test]
fn nginx() {
    let config = |place: &Place| {
        let Place {
            folder,
            clear,
            tls,
            h2c,
        } = place;
        let folder = folder.path().display();
        let user = only_for_root("user root;");
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
               server {{ listen 127.0.0.1:{h2c} http2; }}
               server {{ listen 127.0.0.1:{tls} ssl http2; }}
             }}"
        )
    };
    let kind = Kind {
        program: "nginx",
        arguments: &["-c", "config", "-p", "."],
        write: config,
        log: "access",
    };
    if let Some(real) = Real::start("nginx", &kind) {
        check_all(&real, &[HttpVersion::Http1, HttpVersion::Http2], 90);
    }
}

/// nginx behind a header of the PROXY protocol, in front of TLS: it logs the address that was claimed.
#[test]
fn nginx_reads_proxy_headers() {
    let config = |place: &Place| {
        let Place {
            folder, clear, tls, ..
        } = place;
        let folder = folder.path().display();
        let user = only_for_root("user root;");
        format!(
            "daemon off; master_process off; {user} pid {folder}/pid; error_log {folder}/errors;
             events {{}}
             http {{
               log_format claimed '$proxy_protocol_addr:$proxy_protocol_port';
               access_log {folder}/access claimed;
               client_body_temp_path {folder}/a; proxy_temp_path {folder}/b;
               fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
               ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem; root {folder};
               server {{ listen 127.0.0.1:{clear} proxy_protocol; }}
               server {{ listen 127.0.0.1:{tls} ssl http2 proxy_protocol; }}
             }}"
        )
    };
    let kind = Kind {
        program: "nginx",
        arguments: &["-c", "config", "-p", "."],
        write: config,
        log: "access",
    };
    let Some(real) = Real::start("nginx_reads_proxy_headers", &kind) else {
        return;
    };
    for (version, tls) in [(ProxyProtocol::V1, false), (ProxyProtocol::V2, true)] {
        let mut config = real.config(tls, HttpVersion::Http1);
        config.proxy_protocol = Some(version);
        config.proxy_source = Some("192.0.2.7:4711".parse().unwrap());
        check(&run_checked(&config), "PROXY");
    }
    real.has_logged(800);
    let log = fs::read_to_string(real.place.path(real.log)).unwrap();
    assert!(log.lines().all(|line| line == "192.0.2.7:4711"), "{log}");
}

/// h2o, which also upgrades.
#[test]
fn h2o() {
    let config = |place: &Place| {
        let Place {
            folder, clear, tls, ..
        } = place;
        let folder = folder.path().display();
        let user = only_for_root("user: root\n");
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
    let kind = Kind {
        program: "h2o",
        arguments: &["-c", "config"],
        write: config,
        log: "access",
    };
    if let Some(real) = Real::start("h2o", &kind) {
        // It does not take every ticket that it gives.
        check_all(&real, &IN_CLEAR, 1);
    }
}

/// Caddy, on the HTTP stack of Go.
#[test]
fn caddy() {
    let config = |place: &Place| {
        let Place {
            folder, clear, tls, ..
        } = place;
        let folder = folder.path().display();
        format!(
            "{{
  admin off
  auto_https off
  servers {{
    protocols h1 h2 h2c
  }}
}}
(site) {{
  bind 127.0.0.1
  root * {folder}
  file_server
  log {{
    output file {folder}/access
    format json
  }}
}}
http://localhost:{clear} {{
  import site
}}
https://localhost:{tls} {{
  tls {folder}/cert.pem {folder}/key.pem
  import site
}}
"
        )
    };
    let kind = Kind {
        program: "caddy",
        arguments: &["run", "--adapter", "caddyfile", "--config", "config"],
        write: config,
        log: "access",
    };
    if let Some(real) = Real::start("caddy", &kind) {
        check_all(&real, &IN_CLEAR, 90);
    }
}

/// `HAProxy`, which answers itself and logs to its standard output.
#[test]
fn haproxy() {
    let config = |place: &Place| {
        let Place {
            folder, clear, tls, ..
        } = place;
        let folder = folder.path().display();
        format!(
            "global
    log stdout format raw local0 info
defaults
    mode http
    log global
    log-format \"%ST %r\"
    timeout client 1m
    timeout connect 1m
    timeout server 1m
frontend both
    bind 127.0.0.1:{clear}
    bind 127.0.0.1:{tls} ssl crt {folder}/both.pem alpn h2,http/1.1
    option dontlognull
    http-request return status 200 content-type text/plain string x
"
        )
    };
    let kind = Kind {
        program: "haproxy",
        arguments: &["-db", "-f", "config"],
        write: config,
        log: "output",
    };
    if let Some(real) = Real::start("haproxy", &kind) {
        check_all(&real, &[HttpVersion::Http1, HttpVersion::Http2], 90);
    }
}

/// Node.js, with the servers of its own library.
#[test]
fn node() {
    let config = |place: &Place| {
        let Place {
            folder,
            clear,
            tls,
            h2c,
        } = place;
        let arguments = format!("{} {clear} {tls} {h2c}", folder.path().display());
        let words: Vec<&str> = arguments.split(' ').collect();
        let script = include_str!("real_servers/node.js");
        script.replace("process.argv.slice(2)", &format!("{words:?}"))
    };
    let kind = Kind {
        program: "node",
        arguments: &["config"],
        write: config,
        log: "access",
    };
    if let Some(real) = Real::start("node", &kind) {
        // Its tickets come late, often after the last of the four requests.
        check_all(&real, &[HttpVersion::Http1, HttpVersion::Http2], 1);
    }
}

/// A program of the system; those of administrators are not in everybody's `PATH`.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut files = folders.map(|folder| folder.join(program));
    files.find(|file| file.is_file())
}

/// A line of a configuration that keeps a server from changing its user.
fn only_for_root(line: &str) -> &str {
    if rustix::process::geteuid().is_root() {
        line
    } else {
        ""
    }
}

/// Every way to speak in clear.
const IN_CLEAR: [HttpVersion; 3] = [
    HttpVersion::Http1,
    HttpVersion::Http2,
    HttpVersion::Http2Upgrade,
];
/// How often another set of ports is tried.
const ATTEMPTS: u32 = 5;

//! Servers that people use, each over every protocol that it speaks: no errors, and as many
//! requests as in the server's own log. A server that is not installed is said aloud.

use std::fs;
use std::time::{Duration, Instant};

use loadgen::{HttpVersion, LoadError, ProxyProtocol, Resumption};
use recording::Load;

use crate::real::{Kind, Place, Real, only_for_root};
use crate::{run_checked, run_refused};

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

/// A configuration of nginx with a log of its own format, or the usual one.
fn nginx_config(place: &Place, format: &str, servers: &str) -> String {
    let folder = place.folder.path().display();
    let user = only_for_root("user root;");
    let (define, name) = match format {
        "" => (String::new(), ""),
        format => (format!("log_format own '{format}';"), " own"),
    };
    format!(
        "daemon off; master_process off; {user} pid {folder}/pid; error_log {folder}/errors;
         events {{}}
         http {{
           {define} access_log {folder}/access{name};
           client_body_temp_path {folder}/a; proxy_temp_path {folder}/b;
           fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
           ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
           ssl_session_cache shared:s:1m; root {folder};
           {servers}
         }}"
    )
}

/// Starts nginx with a configuration; `None` where it is not installed.
fn start_nginx(test: &str, write: fn(&Place) -> String) -> Option<Real> {
    let kind = Kind {
        program: "nginx",
        arguments: &["-c", "config", "-p", "."],
        write,
        log: "access",
    };
    Real::start(test, &kind)
}

/// nginx. It speaks HTTP/2 in clear only to those who know, on a port for that.
#[test]
fn nginx() {
    let config = |place: &Place| {
        let Place {
            clear, tls, h2c, ..
        } = place;
        let servers = format!(
            "server {{ listen 127.0.0.1:{clear}; }} server {{ listen 127.0.0.1:{h2c} http2; }}
             server {{ listen 127.0.0.1:{tls} ssl http2; }}"
        );
        nginx_config(place, "", &servers)
    };
    if let Some(real) = start_nginx("nginx", config) {
        check_all(&real, &[HttpVersion::Http1, HttpVersion::Http2], 90);
    }
}

/// nginx without HTTP/2 is told from one with it, over TLS and in clear, before a request is sent; what
/// it speaks still works.
#[test]
fn nginx_without_http2() {
    let config = |place: &Place| {
        let Place { clear, tls, .. } = place;
        let servers = format!(
            "server {{ listen 127.0.0.1:{clear}; }} server {{ listen 127.0.0.1:{tls} ssl; }}"
        );
        nginx_config(place, "$server_protocol", &servers)
    };
    let Some(real) = start_nginx("nginx_without_http2", config) else {
        return;
    };
    for tls in [true, false] {
        let error = run_refused(&real.config(tls, HttpVersion::Http2));
        assert!(matches!(error, LoadError::Handshake { .. }), "{error}");
        assert!(error.to_string().contains("--http1"), "{error}");
    }
    check(
        &run_checked(&real.config(true, HttpVersion::Http1)),
        "nginx",
    );
    let log = || fs::read_to_string(real.place.path(real.log)).unwrap();
    let answered = |line: &&str| **line == *"HTTP/1.1";
    let begun = Instant::now();
    while log().lines().filter(answered).count() < 400 {
        assert!(begun.elapsed() < Duration::from_mins(1), "{}", log());
        // sleeps: a log is written after the reply.
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(log().lines().filter(answered).count(), 400);
}

/// nginx behind a header of the PROXY protocol, in front of TLS: it logs the address that was claimed.
#[test]
fn nginx_reads_proxy_headers() {
    let config = |place: &Place| {
        let Place { clear, tls, .. } = place;
        let servers = format!(
            "server {{ listen 127.0.0.1:{clear} proxy_protocol; }}
             server {{ listen 127.0.0.1:{tls} ssl http2 proxy_protocol; }}"
        );
        nginx_config(place, "$proxy_protocol_addr:$proxy_protocol_port", &servers)
    };
    let Some(real) = start_nginx("nginx_reads_proxy_headers", config) else {
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

/// Every way to speak in clear.
const IN_CLEAR: [HttpVersion; 3] = [
    HttpVersion::Http1,
    HttpVersion::Http2,
    HttpVersion::Http2Upgrade,
];

//! The layouts of other tools beside the real tools over TLS and HTTP/2, on one nginx: what does not
//! depend on time is equal.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::tools::{Shown, check_httperf, lines, ours, tool};
use crate::{Mortal, skip};

/// nginx with a file of one byte, over TLS, over HTTP/2 in TLS, and over HTTP/2 in clear.
struct Nginx {
    _process: Mortal,
    _folder: TempDir,
    tls: u16,
    h2: u16,
    h2c: u16,
}

impl Nginx {
    /// Starts it; `None`, said aloud, where it is not installed.
    fn start(test: &str) -> Option<Self> {
        for _ in 0..ATTEMPTS {
            match Self::attempt() {
                Ok(Some(nginx)) => return Some(nginx),
                // Somebody else has taken one of its ports.
                Ok(None) => {}
                Err(error) => {
                    skip(test, &format!("nginx: {error}"));
                    return None;
                }
            }
        }
        panic!("nginx does not start");
    }

    fn attempt() -> std::io::Result<Option<Self>> {
        let folder = TempDir::new().unwrap();
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("cert.pem", &key.cert.pem());
        write("key.pem", &key.signing_key.serialize_pem());
        write("file", "x");
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = listeners.map(|free| free.local_addr().unwrap().port());
        let [tls, h2, h2c] = ports;
        write("config", &config(&folder, ports));
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "nginx", "-c", "config", "-p", "."])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut process = Mortal(child);
        for port in ports {
            while TcpStream::connect(("127.0.0.1", port)).is_err() {
                if process.0.try_wait()?.is_some() {
                    return Ok(None);
                }
                std::thread::yield_now();
            }
        }
        Ok(Some(Self {
            _process: process,
            _folder: folder,
            tls,
            h2,
            h2c,
        }))
    }
}

fn config(folder: &TempDir, [tls, h2, h2c]: [u16; 3]) -> String {
    let user = if rustix::process::geteuid().is_root() {
        "user root;"
    } else {
        ""
    };
    let folder = folder.path().display();
    format!(
        "daemon off; master_process off; {user} pid {folder}/pid; error_log {folder}/errors;
         events {{}}
         http {{
           access_log off; keepalive_requests 1000000; root {folder};
           client_body_temp_path {folder}/a; proxy_temp_path {folder}/b;
           fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
           ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
           ssl_protocols TLSv1.2 TLSv1.3;
           server {{ listen 127.0.0.1:{tls} ssl; }}
           server {{ listen 127.0.0.1:{h2} ssl http2; }}
           server {{ listen 127.0.0.1:{h2c} http2; }}
         }}"
    )
}

/// Counts, bytes, versions and ciphers are those of h2load, over TLS, over HTTP/2, and over both.
#[test]
fn h2load_agrees() {
    let Some(nginx) = Nginx::start("tools_tls::h2load_agrees") else {
        return;
    };
    let shape = ["-n", "1003", "-c", "7", "-t", "2"];
    let cipher = "TLS_AES_128_GCM_SHA256";
    let over_tls = ["--groups", "X25519"];
    let over_h2 = ["-m", "3"];
    let (tls, h2, h2c) = (
        format!("https://127.0.0.1:{}/file", nginx.tls),
        format!("https://127.0.0.1:{}/file", nginx.h2),
        format!("http://127.0.0.1:{}/file", nginx.h2c),
    );
    let secured = [&over_tls[..], &["--tls13-ciphers", cipher]].concat();
    let secured_here = [&over_tls[..], &["-k", "--ciphers", cipher]].concat();
    for (name, theirs, here) in [
        (
            "HTTP/1.1 over TLS",
            [&secured[..], &["--h1", &tls]].concat(),
            [&secured_here[..], &[tls.as_str()]].concat(),
        ),
        (
            "HTTP/2 over TLS",
            [&secured[..], &over_h2, &[h2.as_str()]].concat(),
            [&secured_here[..], &over_h2, &["--h2", &h2]].concat(),
        ),
        (
            "HTTP/2 in clear",
            [&over_h2[..], &[h2c.as_str()]].concat(),
            [&over_h2[..], &["--h2", &h2c]].concat(),
        ),
    ] {
        let test = "tools_tls::h2load_agrees";
        let Some(theirs) = tool("h2load", test, &[&shape[..], &theirs].concat()) else {
            return;
        };
        let here = ours(&[&shape[..], &here, &["--format", "h2load"]].concat());
        let exact = [
            "starting",
            "spawning",
            "TLS Protocol",
            "Cipher",
            "Server Temp Key",
            "Application",
            "progress",
            "requests:",
            "status codes:",
            "traffic:",
        ];
        assert_eq!(lines(&here, &exact), lines(&theirs, &exact), "{name}");
        assert_eq!(here.lines().count(), theirs.lines().count(), "{name}");
    }
}

/// Bytes per request over TLS are those of wrk: of what it counts, only responses that were under way
/// at the end have no request.
#[test]
fn wrk_agrees() {
    let Some(nginx) = Nginx::start("tools_tls::wrk_agrees") else {
        return;
    };
    let url = format!("https://127.0.0.1:{}/file", nginx.tls);
    let shape = ["-d", "1", "-c", "4", "-t", "2", &url];
    let test = "tools_tls::wrk_agrees";
    let Some(theirs) = tool("wrk", test, &[&["--latency"], &shape[..]].concat()) else {
        return;
    };
    let here = ours(&[&shape[..], &["-k", "--format", "wrk"]].concat());
    let response = Shown::response_bytes(&[&url, "-k"]);
    for text in [&theirs, &here] {
        Shown::of_wrk(text).check(response, 4);
    }
}

/// Counts, sizes and errors over TLS are those of httperf, where it was built with TLS.
#[test]
fn httperf_agrees() {
    let Some(nginx) = Nginx::start("tools_tls::httperf_agrees") else {
        return;
    };
    let port = nginx.tls.to_string();
    let arguments = [
        "--ssl",
        "--server",
        "127.0.0.1",
        "--port",
        &port,
        "--uri",
        "/file",
        "--num-conns",
        "10",
        "--num-calls",
        "20",
    ];
    let test = "tools_tls::httperf_agrees";
    let Some(theirs) = tool("httperf", test, &arguments) else {
        return;
    };
    if lines(&theirs, &["Total:"]).is_empty() {
        return skip(test, "httperf was built without TLS");
    }
    let url = format!("https://127.0.0.1:{port}/file");
    check_httperf(&theirs, &[&url, "-k"]);
}

/// Ports may be taken between finding them and using them.
const ATTEMPTS: usize = 5;

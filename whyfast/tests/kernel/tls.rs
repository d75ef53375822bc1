//! Time in the TLS library of a real server that does little but shake hands.

use std::fs;
use std::path::Path;
use std::process::Command;

use recording::{Profile, TlsPurpose, TlsTime};

use crate::missing;
use crate::servers::{start_nginx, waits_for_events};
use crate::whyfast::{ProfileHalf, recording, run};

/// Every connection is one handshake of nginx's OpenSSL, and nearly all that nginx does in user code:
/// by our own account, without the time in system calls, within a tenth.
#[test]
fn handshakes_of_nginx() {
    let name = "handshakes_of_nginx";
    if missing(name, &["nginx", "openssl"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    make_certificate(folder.path());
    let tls = format!(
        "ssl_certificate {0}/certificate; ssl_certificate_key {0}/key;",
        folder.path().display()
    );
    let (nginx, port) = start_nginx(folder.path(), Some(&tls));
    let workers = crate::proc::children(nginx.pid());
    let [worker] = workers[..] else {
        panic!("one worker was asked for, {workers:?} found")
    };
    crate::whyfast::until("the end of its start", || waits_for_events(worker));
    let port = port.to_string();
    let mut half = ProfileHalf::attach(&["--port", &port, "--detail", "sched", "--tls"]);
    half.open(true);
    let load = run(&[
        "load",
        &format!("https://127.0.0.1:{port}/"),
        "--insecure",
        "-n",
        &CONNECTIONS.to_string(),
        "-c",
        "2",
        "--requests-per-connection",
        "1",
    ]);
    let said = String::from_utf8_lossy(&load.stderr).into_owned();
    assert!(load.status.success(), "{said}");
    let profile = half.close(true);
    check(&profile, worker);
}

/// A comparison of nginx with itself, a handshake for each request: per request there is one in both, its time is
/// part of user code, and most of it.
#[test]
fn compared_per_request() {
    if missing("compared_per_request", &["nginx"]) {
        return;
    }
    let (recording, output) = recording(&[
        "compare",
        "nginx",
        "other=nginx",
        "--tls",
        "--tls-key",
        "rsa-2048",
        "--requests-per-connection",
        "1",
        "--connections",
        "4",
        "--pairs",
        "1",
        "--duration",
        "500ms",
        "--warmup",
        "100ms",
        // Whatever else profiles on this machine is not what is tested.
        "--allow-mismatch",
        "G13",
    ]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let arms = reports::tls::by_arm(&recording);
    assert_eq!(arms.len(), 2, "{said}");
    for arm in &arms {
        assert_eq!(arm.not_seen, [""; 0], "{arm:?}");
        let of = |purpose| arm.costs.iter().find(|cost| cost.purpose == purpose);
        let handshake = of(TlsPurpose::Handshake).expect("every connection has one");
        // nginx is called again while it waits for the client.
        assert!((1.0..=4.0).contains(&handshake.calls), "{arm:?}");
        let written = of(TlsPurpose::Write).expect("every response is written");
        assert!((0.8..=1.2).contains(&written.calls), "{arm:?}");
        let (library_ns, user_ns) = (arm.library_ns().unwrap(), arm.user_ns.unwrap());
        let share = library_ns / user_ns;
        assert!((0.5..=1.05).contains(&share), "{share}: {arm:?}");
        assert!(handshake.library_ns.unwrap() > 0.5 * library_ns, "{arm:?}");
    }
}

fn check(profile: &Profile, worker: u32) {
    let time = profile.tls_time.as_ref().expect("it was asked for");
    let library = time
        .libraries
        .iter()
        .find(|library| library.file.starts_with("libssl"));
    let library = library.expect("nginx uses OpenSSL's shared library");
    assert!(library.name.starts_with("OpenSSL "), "{library:?}");
    assert_eq!(library.not_probed, None);
    assert!(library.pids.contains(&worker));
    let handshakes = time
        .functions
        .iter()
        .filter_map(|function| function.handshakes);
    assert_eq!(handshakes.sum::<u64>(), CONNECTIONS);
    assert_eq!(time.lost, 0);
    let written = time
        .functions
        .iter()
        .find(|function| function.name == "SSL_write");
    assert_eq!(written.map(|function| function.count), Some(CONNECTIONS));
    let threads = profile.threads.as_ref().expect("detail sched has them");
    let share = in_library_ns(time) as f64 / threads.user_ns as f64;
    assert!((0.9..=1.1).contains(&share), "{share}: {time:?}");
    let agreeing: u64 = time
        .functions
        .iter()
        .filter(|function| function.purpose == TlsPurpose::Handshake)
        .filter_map(|function| function.cpu_ns)
        .sum();
    assert!(2 * agreeing > in_library_ns(time), "{time:?}");
}

/// CPU time outside of system calls.
fn in_library_ns(time: &TlsTime) -> u64 {
    let functions = time.functions.iter();
    let ns = functions.map(|function| {
        let cpu_ns = function.cpu_ns.expect("this kernel has the clocks");
        cpu_ns - function.calls_ns.expect("detail sched times calls")
    });
    ns.sum()
}

fn make_certificate(folder: &Path) {
    // Signing with it takes longer than all else that a connection is.
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=localhost",
        ])
        .arg("-keyout")
        .arg(folder.join("key"))
        .arg("-out")
        .arg(folder.join("certificate"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    assert!(fs::metadata(folder.join("key")).unwrap().len() > 0);
}

const CONNECTIONS: u64 = 600;

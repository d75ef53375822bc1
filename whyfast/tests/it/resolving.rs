//! Names that move, and names that go away, while a load runs. In a mount namespace whose hosts are a
//! file of the test.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use recording::{FailureClass, Load};

use crate::{assert_valid, run, skip, whyfast};

/// Files that stand in for those of the system.
struct Hosts {
    folder: tempfile::TempDir,
}

impl Hosts {
    fn new() -> Self {
        let hosts = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::write(hosts.path("nsswitch"), "hosts: files\n").unwrap();
        hosts
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A load on a server that says where the name leads while its requests come; `None` where there
    /// can be no namespace. And the addresses that connections came to.
    fn load(&self, options: &[&str]) -> Option<(Load, Vec<String>)> {
        let file = self.path("hosts");
        point(&file, "127.0.0.1");
        let (port, seen) = serve(file);
        let script = "mount --bind \"$1/hosts\" /etc/hosts && \
                      mount --bind \"$1/nsswitch\" /etc/nsswitch.conf || exit 77; shift; exec \"$@\"";
        let mut unshare = Command::new("unshare");
        unshare.args([
            "--user",
            "--map-root-user",
            "--mount",
            "--kill-child",
            "--fork",
        ]);
        unshare
            .args(["sh", "-c", script, "sh"])
            .arg(self.folder.path());
        unshare.arg(whyfast().get_program());
        unshare.args([
            "load",
            &format!("http://{NAME}:{port}/"),
            "-n",
            "7",
            "-c",
            "1",
        ]);
        unshare.args(["--requests-per-connection", "1", "--max-errors", "100"]);
        unshare
            .args(["--format", "json", "-o"])
            .arg(self.path("result"));
        let status = unshare.args(options).status().ok()?;
        if status.code() == Some(77) || !self.path("result").exists() {
            assert_ne!(status.code(), Some(0), "a load without a result");
            return None;
        }
        assert_eq!(status.code(), Some(0));
        let json = fs::read(self.path("result")).unwrap();
        let load = assert_valid(&json).rounds[0].load.clone().unwrap();
        let seen = seen.lock().unwrap().iter().map(IpAddr::to_string).collect();
        Some((load, seen))
    }
}

/// Writes the file in place, since it is mounted.
fn point(hosts: &Path, address: &str) {
    fs::write(hosts, format!("{address} {NAME}\n")).unwrap();
}

/// A server on every address of this machine: with its third request the name moves, with the fifth
/// it goes away.
fn serve(hosts: PathBuf) -> (u16, Arc<Mutex<Vec<IpAddr>>>) {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            let mut seen = log.lock().unwrap();
            seen.push(stream.local_addr().unwrap().ip());
            match seen.len() {
                3 => point(&hosts, "127.0.0.2"),
                5 => fs::write(&hosts, "").unwrap(),
                _ => {}
            }
            drop(seen);
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            stream.write_all(answer).unwrap();
        }
    });
    (port, seen)
}

/// With `--resolve-each` connections follow a name that moves, and requests whose name has gone fail
/// in a phase and with a class of their own. Without, one answer holds for the whole run.
#[test]
fn names_are_resolved_as_asked() {
    let hosts = Hosts::new();
    let test = "names_are_resolved_as_asked";
    let Some((load, seen)) = hosts.load(&["--resolve-each"]) else {
        return skip(test, "no mount namespace can be made here");
    };
    assert_eq!((load.ledger.ok, load.ledger.balances()), (5, true));
    let failed = &load.ledger.failed[..];
    let [failure] = failed else {
        panic!("{failed:?}");
    };
    assert_eq!(
        (failure.class, failure.phase.as_str(), failure.count),
        (FailureClass::Unresolved, "resolve", 2)
    );
    let (before, after) = ("127.0.0.1", "127.0.0.2");
    assert_eq!(seen, [before, before, before, after, after]);
    assert!(load.plan.resolve_each);
    let result = hosts.path("result");
    let shown = run(&["report", result.to_str().unwrap()]).stdout;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(shown.contains("name not resolved in resolve 2"), "{shown}");

    let (load, seen) = hosts.load(&[]).unwrap();
    assert_eq!((load.ledger.ok, load.ledger.failed.len()), (7, 0));
    assert_eq!(seen, [before; 7]);
    assert!(!load.plan.resolve_each && load.measures.unwrap().phases.resolve_ns.is_some());
}

/// Reserved for names that nobody has (RFC 2606).
const NAME: &str = "moving.invalid";

//! Targets as they are named on the command line: that come later, of several kinds, and wrong ones.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Command, Stdio};

use recording::Recording;

use crate::proc::{gave_up_privileges, state};
use crate::whyfast::{Mortal, run, until, whyfast};

/// A port and a name that appear one after the other are waited for, then profiled from there on,
/// each process with the target that it belongs to.
#[test]
fn waits_for_every_target() {
    let port = unused_port();
    let folder = tempfile::tempdir().unwrap();
    let comm = format!("late-{}", std::process::id());
    let program = folder.path().join(&comm);
    std::fs::copy("/bin/sleep", &program).unwrap();
    let (mut child, mut stderr) = start(&[
        "profile",
        "--port",
        &port.to_string(),
        "--comm",
        &comm,
        "--wait",
        "--format",
        "json",
    ]);
    assert!(line(&mut stderr).contains(&format!("waiting for port {port}")));
    let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let late = Command::new(&program).arg("1000").spawn().unwrap();
    let late = Mortal(late);
    until("attaching", || gave_up_privileges(child.0.id()));
    signal("INT", &child.0);
    let mut json = Vec::new();
    let stdout = child.0.stdout.as_mut().unwrap();
    stdout.read_to_end(&mut json).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let recording = Recording::parse(&json).unwrap();
    let processes = &recording.rounds[0].profile.as_ref().unwrap().processes;
    let target = |pid| {
        let process = processes.iter().find(|process| process.pid == pid);
        process.and_then(|process| process.target.clone())
    };
    let own = format!("port {port}");
    assert_eq!(target(std::process::id()).as_ref(), Some(&own));
    // It descends from the one that listens, too.
    let both = format!("{own}, comm {comm}");
    assert_eq!(target(late.0.id()).as_ref(), Some(&both));
}

/// Ctrl-C ends the waiting with 130 and the reason.
#[test]
fn waiting_is_interrupted() {
    let comm = format!("never-{}", std::process::id());
    let (mut child, mut stderr) = start(&["profile", "--comm", &comm, "--wait"]);
    assert!(line(&mut stderr).contains("waiting for comm never-"));
    signal("INT", &child.0);
    assert!(line(&mut stderr).contains("interrupted while waiting for comm never-"));
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
}

/// The time to wait is over: as without waiting, a usage error that says what there is instead.
#[test]
fn waiting_in_vain() {
    let port = unused_port().to_string();
    let output = run(&["profile", "--port", &port, "--wait", "1ms"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("in vain: nothing listens on TCP port"),
        "{said}"
    );
}

/// A process that has ended and was not collected is named as what it is.
#[test]
fn zombies_are_refused() {
    let zombie = Mortal(Command::new("true").spawn().unwrap());
    until("the end", || state(zombie.0.id()) == Some('Z'));
    let output = run(&["profile", "--pid", &zombie.0.id().to_string()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("is a zombie"), "{said}");
}

/// A unit that does not run is a usage error with what was looked at and what to do.
#[test]
fn no_such_unit() {
    let output = run(&["profile", "--unit", "no-such-unit", "--duration", "1s"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no unit no-such-unit.service runs"), "{said}");
    assert!(said.contains("/sys/fs/cgroup"), "{said}");
    assert!(
        said.contains("systemctl status") || said.contains("not booted with systemd"),
        "{said}"
    );
}

fn start(arguments: &[&str]) -> (Mortal, BufReader<ChildStderr>) {
    let mut child = whyfast()
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    (Mortal(child), stderr)
}

fn line(stderr: &mut BufReader<ChildStderr>) -> String {
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    line
}

fn signal(name: &str, child: &Child) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status();
    assert!(status.unwrap().success());
}

/// A port that nobody listens on, and that the kernel gives to nobody while it is remembered.
fn unused_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

//! What goes wrong for users: a message that says what happened and what to do, the right exit
//! code, what was measured kept, nothing left.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use recording::Recording;

use crate::missing;
use crate::proc::{children, command_line, gave_up_privileges, stat_field};
use crate::whyfast::{Mortal, run, until, whyfast};

/// A process that does not exist is a usage error that names it.
#[test]
fn no_such_pid() {
    let output = run(&["profile", "--pid", "4194303", "--duration", "1s"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("4194303"), "{said}");
    assert!(output.stdout.is_empty());
}

/// A port that nobody listens on is a usage error that names it.
#[test]
fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    drop(listener);
    let output = run(&["profile", "--port", &port, "--duration", "1s"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&port), "{said}");
}

/// A target that ends during the window ends the profile with what was counted.
#[test]
fn target_ends_early() {
    let target = Command::new("/bin/sh")
        .args(["-c", "while read line; do umask 022; done"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut target = Mortal(target);
    let pid = target.0.id().to_string();
    let child = whyfast()
        .args([
            "profile",
            "--pid",
            &pid,
            "--duration",
            "1h",
            "--format",
            "json",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Mortal(child);
    // The profiler has attached once it holds programs; the window opens right after.
    until("attaching", || {
        profiler::loaded_programs().is_ok_and(|programs| programs > 0)
    });
    let mut stdin = target.0.stdin.take().unwrap();
    until("counting", || {
        use std::io::Write as _;
        stdin.write_all(b"go\n").unwrap();
        gave_up_privileges(child.0.id())
    });
    drop(stdin);
    target.0.wait().unwrap();
    let mut json = Vec::new();
    std::io::Read::read_to_end(child.0.stdout.as_mut().unwrap(), &mut json).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let recording = Recording::parse(&json).unwrap();
    let profile = recording.rounds[0].profile.as_ref().unwrap();
    assert!(
        profile
            .ended_early
            .as_ref()
            .is_some_and(|why| why.contains("ended"))
    );
    assert!(
        profile
            .calls
            .iter()
            .any(|row| row.name == "read" && row.count > 0)
    );
}

/// A server that is killed in the middle fails its round, which is kept with the reason.
#[test]
fn server_dies_in_the_middle() {
    let folder = tempfile::tempdir().unwrap();
    // A pipe that nobody reads until the end has no room for it.
    let file = folder.path().join("result.json");
    let child = whyfast()
        .args([
            "compare",
            "--pairs",
            "2",
            "--duration",
            "20s",
            "--warmup",
            "10ms",
            "--format",
            "json",
            "-o",
        ])
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Mortal(child);
    let whyfast = child.0.id();
    let mut killed = Vec::new();
    until("the end of the run", || {
        for pid in children(whyfast) {
            if command_line(pid)
                .and_then(|line| line.get(1).cloned())
                .as_deref()
                == Some("testserver")
                && !killed.contains(&pid)
                && loaded(whyfast)
            {
                Command::new("kill")
                    .args(["-9", &pid.to_string()])
                    .status()
                    .unwrap();
                killed.push(pid);
            }
        }
        child.0.try_wait().unwrap().is_some()
    });
    let mut said = String::new();
    std::io::Read::read_to_string(child.0.stderr.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(1), "{said}");
    let json = fs::read(&file).unwrap();
    let recording = Recording::parse(&json).unwrap();
    assert!(said.contains("killed by signal 9"), "{said}");
    assert!(
        recording
            .partial
            .as_ref()
            .is_some_and(|partial| partial.why.contains("signal 9"))
    );
    assert!(
        recording
            .rounds
            .iter()
            .any(|round| round.failed.is_some() && round.load.is_some())
    );
}

/// A full disk leaves no half file; the result goes to stdout instead, and the exit code says so.
#[test]
fn full_disk() {
    if missing("full_disk", &["unshare"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=4k none {0} && \
         {1} profile -o {0}/result.json --format json -- /bin/true; code=$?; echo \"left: $(ls -A {0})\" >&2; exit $code",
        folder.path().display(),
        env!("CARGO_BIN_EXE_whyfast"),
    );
    // A mount namespace of its own: the mount ends with the shell.
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    assert!(said.contains("left: \n"), "{said}");
    assert!(Recording::parse(&output.stdout).is_ok(), "{said}");
}

/// A profile interrupted before its duration keeps its result and exits with 130; without a wanted
/// duration Ctrl-C is the way to end it.
#[test]
fn interrupt_keeps_the_result() {
    for (duration, code) in [(Some("1h"), 130), (None, 0)] {
        let target = Command::new("sleep").arg("1000").spawn().unwrap();
        let target = Mortal(target);
        let mut command = whyfast();
        command.args([
            "profile",
            "--pid",
            &target.0.id().to_string(),
            "--format",
            "json",
        ]);
        command.args(
            duration
                .map(|duration| ["--duration", duration])
                .into_iter()
                .flatten(),
        );
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut child = Mortal(child);
        until("attaching", || gave_up_privileges(child.0.id()));
        Command::new("kill")
            .args(["-INT", &child.0.id().to_string()])
            .status()
            .unwrap();
        let mut json = Vec::new();
        std::io::Read::read_to_end(child.0.stdout.as_mut().unwrap(), &mut json).unwrap();
        assert_eq!(child.0.wait().unwrap().code(), Some(code));
        let recording = Recording::parse(&json).unwrap();
        let profile = recording.rounds[0].profile.as_ref().unwrap();
        let in_flight = &profile.in_flight_at_end;
        assert!(
            in_flight.iter().any(|call| call.name == "clock_nanosleep"),
            "{in_flight:?}"
        );
    }
}

/// A command does not outlast the duration, and the result has what it was in the middle of.
#[test]
fn duration_ends_the_command() {
    let command = [
        "profile",
        "--duration",
        "300ms",
        "--format",
        "json",
        "--",
        "sleep",
        "1000",
    ];
    let output = run(&command);
    let recording = Recording::parse(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    let profile = recording.rounds[0].profile.as_ref().unwrap();
    assert!(
        profile
            .in_flight_at_end
            .iter()
            .any(|call| call.name == "clock_nanosleep")
    );
    assert!(profile.window.seconds() < 100.0);
}

/// The id of a thread is refused with the process that it belongs to.
#[test]
fn thread_is_no_process() {
    let (send, receive) = std::sync::mpsc::channel();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        send.send(rustix::thread::gettid().as_raw_nonzero().get())
            .unwrap();
        let _stopped = stopped.recv();
    });
    let tid = receive.recv().unwrap().to_string();
    let output = run(&["profile", "--pid", &tid, "--duration", "1s"]);
    drop(stop);
    thread.join().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains(&format!("--pid {}", std::process::id())),
        "{said}"
    );
}

/// Whether the load has run for a while: the server is in the middle of a round. Connecting costs the
/// client a few milliseconds of CPU time, so that much more was spent on requests.
fn loaded(whyfast: u32) -> bool {
    let is_load = |pid: &u32| {
        command_line(*pid)
            .and_then(|line| line.get(1).cloned())
            .as_deref()
            == Some("load")
    };
    let cpu_ticks = |pid| Some(stat_field(pid, UTIME)? + stat_field(pid, STIME)?);
    children(whyfast)
        .into_iter()
        .filter(is_load)
        .any(|pid| cpu_ticks(pid).is_some_and(|ticks| ticks >= LOADED_TICKS))
}

/// Fields of `/proc/PID/stat`, counted from the state.
const UTIME: usize = 11;
const STIME: usize = 12;
/// A tenth of a second.
const LOADED_TICKS: u64 = 10;

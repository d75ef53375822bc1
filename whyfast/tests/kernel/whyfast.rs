//! Running the binary under test, once or as a half that is told when to begin.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use recording::wire::{Command as Order, Message};
use recording::{Profile, Recording};

/// A command that runs the binary.
pub(crate) fn whyfast() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyfast"));
    command
        .env_remove("SUDO_UID")
        .env_remove("SUDO_GID")
        .stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    whyfast().args(arguments).output().expect("the binary runs")
}

/// Runs it with `--format json` and reads the recording.
pub(crate) fn recording(arguments: &[&str]) -> (Recording, Output) {
    let output = run(&[arguments, &["--format", "json"]].concat());
    let recording = Recording::parse(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (recording, output)
}

/// A child that is killed and reaped when the test ends, however it ends.
pub(crate) struct Mortal(pub(crate) Child);

impl Drop for Mortal {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A profile half.
pub(crate) struct ProfileHalf {
    child: Mortal,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl ProfileHalf {
    /// Starts it and waits until its probes are attached.
    pub(crate) fn attach(arguments: &[&str]) -> Self {
        let mut child = whyfast()
            .args(["profile", "--control"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut half = Self {
            child: Mortal(child),
            lines: BufReader::new(stdout).lines(),
        };
        half.expect("Ready", |message| {
            matches!(message, Message::Ready { .. }).then_some(())
        });
        half
    }

    /// Opens the window.
    pub(crate) fn open(&mut self, quiet: bool) {
        self.order(Order::Open { quiet });
        self.expect("Opened", |message| {
            matches!(message, Message::Opened { .. }).then_some(())
        });
    }

    /// Closes the window; the half ends.
    pub(crate) fn close(mut self, quiet: bool) -> Profile {
        self.order(Order::Close { quiet });
        let profile = self.expect("ProfileDone", |message| match message {
            Message::ProfileDone(profile) => Some(*profile),
            _ => None,
        });
        assert!(self.child.0.wait().expect("the half is ours").success());
        profile
    }

    fn order(&mut self, order: Order) {
        let stdin = self.child.0.stdin.as_mut().expect("stdin is piped");
        stdin
            .write_all(order.to_line().as_bytes())
            .expect("the half listens");
    }

    fn expect<T>(&mut self, what: &str, pick: impl Fn(Message) -> Option<T>) -> T {
        loop {
            let line = self
                .lines
                .next()
                .unwrap_or_else(|| panic!("it ended before {what}"));
            let line = line.expect("the half speaks UTF-8");
            let message: Message = serde_json::from_str(&line).expect("a line is a message");
            if let Message::Error { text, .. } = &message {
                panic!("{text}");
            }
            if let Some(picked) = pick(message) {
                return picked;
            }
        }
    }
}

/// Waits for a condition by looking at it, for at most a minute: machines are slow, and only a
/// failure takes that long.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !condition() {
        assert!(
            std::time::Instant::now() < deadline,
            "{what} did not happen within a minute"
        );
        // Nothing unparks it; it only leaves the CPU to what is waited for.
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
}

//! Talking with a half of a measurement: a child that speaks the lines of [`recording::wire`].

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command as ChildCommand, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use recording::exit_code;
use recording::wire::{Command, Message, WIRE_VERSION};

use crate::failure::Failure;
use crate::signals::Interrupt;

/// How much of what a half says on stderr is kept for the error message.
const STDERR_KEPT: u64 = 16 * 1024;

/// A half that runs.
#[derive(Debug)]
pub(crate) struct Half {
    name: &'static str,
    child: Child,
    messages: Receiver<Result<Message, String>>,
    stderr: Option<JoinHandle<String>>,
}

impl Half {
    /// Starts a half; it must say hello within the time given (sudo may ask for a password).
    pub(crate) fn start(
        name: &'static str,
        command: &mut ChildCommand,
        patience: Duration,
    ) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start the {name} half"))?;
        let stdout = child.stdout.take().context("the half has no stdout")?;
        let stderr = child.stderr.take().context("the half has no stderr")?;
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let message = line.map_err(|error| error.to_string()).and_then(|line| {
                    serde_json::from_str(&line).map_err(|error| {
                        let beginning: String = line.chars().take(BEGINNING).collect();
                        format!("{error} in a line that begins with {beginning:?}")
                    })
                });
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut text = Vec::new();
            let mut stderr = stderr;
            drop(stderr.by_ref().take(STDERR_KEPT).read_to_end(&mut text));
            // The rest is read and dropped, so that a chatty half never blocks.
            drop(std::io::copy(&mut stderr, &mut std::io::sink()));
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut half = Self {
            name,
            child,
            messages,
            stderr: Some(stderr),
        };
        match half.next(Instant::now() + patience, None)? {
            Message::Hello {
                wire: WIRE_VERSION, ..
            } => Ok(half),
            Message::Hello { wire, .. } => anyhow::bail!(
                "the {name} half speaks version {wire} of the protocol, this is {WIRE_VERSION}; \
                 use the same whyfast on both sides"
            ),
            other => anyhow::bail!("the {name} half began with {other:?} instead of a hello"),
        }
    }

    /// Tells the half something. That it has ended is found out when its answer is awaited.
    pub(crate) fn tell(&mut self, command: Command) {
        if let Some(stdin) = &mut self.child.stdin {
            drop(
                stdin
                    .write_all(command.to_line().as_bytes())
                    .and_then(|()| stdin.flush()),
            );
        }
    }

    /// The next message. An interrupt is passed on once, as [`Command::Stop`], and the half
    /// answers with what it has.
    pub(crate) fn next(
        &mut self,
        deadline: Instant,
        interrupt: Option<&Interrupt>,
    ) -> anyhow::Result<Message> {
        let mut stopped = false;
        loop {
            let step = deadline.saturating_duration_since(Instant::now()).min(STEP);
            match self.messages.recv_timeout(step) {
                Ok(Ok(Message::Error { text, exit_code })) => {
                    drop(self.child.wait());
                    return Err(Failure::with_code(exit_code, text));
                }
                Ok(Ok(message)) => return Ok(message),
                Ok(Err(error)) => {
                    anyhow::bail!(
                        "the {} half said something that is no message: {error}",
                        self.name
                    )
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.explain_end()),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                    anyhow::bail!("the {} half gave no answer in time", self.name)
                }
                Err(RecvTimeoutError::Timeout) => {
                    if !stopped && interrupt.is_some_and(Interrupt::is_set) {
                        stopped = true;
                        self.tell(Command::Stop);
                    }
                }
            }
        }
    }

    /// Why the half ended without a result.
    fn explain_end(&mut self) -> anyhow::Error {
        let status = self.child.wait();
        // Killed or not, only a profiler that says so itself cannot measure; sudo exits with 1.
        let code = match &status {
            Ok(status) if self.name == PROFILE && status.code().is_some() => {
                exit_code::CANNOT_MEASURE
            }
            _ => exit_code::FAILED,
        };
        let status = status.map(describe).unwrap_or_default();
        let said = self
            .stderr
            .take()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default();
        let said = reports::clean(said.trim());
        Failure::with_code(code, format!("the {} half {status}: {said}", self.name))
    }
}

impl Drop for Half {
    /// Closes its stdin, which ends it, and waits; one that hangs is killed.
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + Duration::from_secs(5);
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() >= deadline {
                drop(self.child.kill());
                drop(self.child.wait());
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// How a child ended, for people.
pub(crate) fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// The name of the profile half.
pub(crate) const PROFILE: &str = "profile";

/// Characters of a line that are repeated in an error message.
const BEGINNING: usize = 80;

/// How often an interrupt is looked for while waiting.
const STEP: Duration = Duration::from_millis(20);

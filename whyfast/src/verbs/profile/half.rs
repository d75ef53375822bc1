//! `whyfast profile` as the half of a comparison: it speaks JSON Lines on stdin and stdout.

use std::io::BufRead as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use profiler::Session;
use recording::exit_code;
use recording::wire::{Command, Message, WIRE_VERSION};
use rustix::thread::CapabilitySet;

use super::{TICK, config, targets};
use crate::args_profile::ProfileArgs;
use crate::failure;
use crate::machine::now_ns;
use crate::output::Output;
use crate::verbs::wait::failed;

/// The half of a comparison: says hello, attaches, and does as it is told.
pub(super) fn as_half(args: &ProfileArgs) -> u8 {
    let say = |message: &Message| Output::Stdout.write(&message.to_line());
    match speak(args, &say) {
        Ok(()) => exit_code::DONE,
        Err(error) => {
            let exit_code = failure::exit_code_of(&error);
            // Whoever listens may be gone; the exit code stays.
            drop(say(&Message::Error {
                text: format!("{error:#}"),
                exit_code,
            }));
            exit_code
        }
    }
}

fn speak(args: &ProfileArgs, say: &dyn Fn(&Message) -> anyhow::Result<()>) -> anyhow::Result<()> {
    say(&Message::Hello {
        half: "profile".to_owned(),
        wire: WIRE_VERSION,
        pid: std::process::id(),
        clock_ns: now_ns(),
    })?;
    let session = Session::attach(config(args, targets(args)?));
    let mut session = session.map_err(|error| failed(&error))?;
    session.drop_privileges(CapabilitySet::empty())?;
    // After that, so that the thread that reads them is born without privileges.
    let commands = commands();
    say(&Message::Ready { at_ns: now_ns() })?;
    let mut open = false;
    let interval = args.interval.unwrap_or(TICK);
    loop {
        match commands.recv_timeout(interval) {
            Ok(Command::Open { quiet }) => {
                let at_ns = session.open(quiet)?;
                open = true;
                say(&Message::Opened { at_ns })?;
            }
            Ok(Command::Close { quiet }) => {
                let profile = session.close(quiet)?;
                return say(&Message::ProfileDone(Box::new(profile)));
            }
            Err(RecvTimeoutError::Timeout) if open && args.interval.is_some() => {
                say(&Message::ProfileSlice(session.slice()?))?;
            }
            Err(RecvTimeoutError::Timeout) if open => session.tick(),
            Err(RecvTimeoutError::Timeout) | Ok(Command::Go) => {}
            Ok(Command::Stop) if open => {
                let profile = session.close(false)?;
                return say(&Message::ProfileDone(Box::new(profile)));
            }
            // Stdin is closed: whoever asked is gone.
            Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// The commands on stdin; the channel closes with it, or at a line that is no command.
pub(crate) fn commands() -> Receiver<Command> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let command = line.ok().and_then(|line| serde_json::from_str(&line).ok());
            let Some(command) = command else { break };
            if sender.send(command).is_err() {
                break;
            }
        }
    });
    receiver
}

//! `whyfast profile`: a running server, or a command, profiled in the kernel.

use std::io::BufRead as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use profiler::{Config, Session, Target};
use recording::wire::{Command, Message, WIRE_VERSION};
use recording::{
    Fact, FactWeight, Fingerprint, Partial, Profile, RecordingKind, ServerFingerprint, exit_code,
};
use reports::{Footer, Limits};
use rustix::thread::CapabilitySet;

use crate::args::ProfileArgs;
use crate::failure::{self, Failure};
use crate::fingerprint;
use crate::half::describe;
use crate::identity;
use crate::launch::Launched;
use crate::machine::now_ns;
use crate::output::{self, Output, note};
use crate::signals::{Interrupt, leave_to_parent};
use crate::verbs::wait::failed;
use crate::verbs::{render, wait};

/// Profiles and renders, or speaks as a half.
pub(crate) fn profile(args: &ProfileArgs) -> anyhow::Result<u8> {
    if args.control {
        leave_to_parent()?;
        return Ok(as_half(args));
    }
    let output = Output::open(args.output.output.as_deref())?;
    let interrupt = Interrupt::install()?;
    let mut launched = launch(args)?;
    let mut targets = targets(args)?;
    targets.extend(
        launched
            .as_ref()
            .map(|launched| Target::Pending(launched.pid())),
    );
    let config = config(args, targets.clone());
    let mut session = match args.wait {
        Some(longest) => wait::attach(&config, longest, &interrupt)?,
        None => Session::attach(config).map_err(|error| failed(&error))?,
    };
    // Before privileges are given up, which looking at programs of others takes.
    let facts = facts(args, &targets);
    session.open(false)?;
    // An interrupt is passed on to the command, which may run as another user.
    let kill = if launched.is_some() {
        CapabilitySet::KILL
    } else {
        CapabilitySet::empty()
    };
    session.drop_privileges(output.capabilities() | kill)?;
    if let Some(launched) = &mut launched {
        launched.release()?;
    }
    let end = watch(&mut session, args, &interrupt, launched.as_mut())?;
    let mut profile = session.close(false)?;
    drop(session);
    profile.ended_early = profile.ended_early.or_else(|| end.early.clone());
    if let Some(launched) = &launched {
        name_command(&mut profile, launched.pid(), args);
    }
    let code = render(args, profile, facts, &end, output);
    // The result is out; a command that outlives its profile is ended now.
    let status = match launched {
        Some(launched) => launched.end(end.status)?,
        None => None,
    };
    if let Some(status) = status {
        note(&format!(
            "{} {}",
            args.command[0].display(),
            describe(status)
        ));
    }
    let code = code?;
    Ok(match status {
        Some(status) if args.propagate_exit && !end.interrupted => status_code(status),
        _ => code,
    })
}

/// Starts the command, held back before its exec.
fn launch(args: &ProfileArgs) -> anyhow::Result<Option<Launched>> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Ok(None);
    };
    let identity = if args.as_root {
        None
    } else {
        identity::caller()
    };
    Launched::hold(program, arguments, identity).map(Some)
}

/// The targets that the options name.
fn targets(args: &ProfileArgs) -> anyhow::Result<Vec<Target>> {
    let targets = named_targets(args);
    if targets.is_empty() && args.command.is_empty() {
        return Err(Failure::usage(
            "nothing to profile: name a target with --pid, --port, --comm, --unit or \
             --cgroup, or a command after --",
        ));
    }
    Ok(targets)
}

fn named_targets(args: &ProfileArgs) -> Vec<Target> {
    let mut targets: Vec<Target> = args.pid.iter().copied().map(Target::Pid).collect();
    targets.extend(args.port.iter().copied().map(Target::Port));
    targets.extend(args.comm.iter().cloned().map(Target::Comm));
    targets.extend(args.cgroup.iter().cloned().map(Target::Cgroup));
    targets.extend(args.unit.iter().cloned().map(Target::Unit));
    targets
}

fn config(args: &ProfileArgs, targets: Vec<Target>) -> Config {
    let mut config = Config::new(targets, args.detail.into());
    config.follow = !args.no_follow;
    config.group_by = args.by.map(Into::into);
    config.only.clone_from(&args.only);
    config.bpf_stats = args.bpf_stats;
    config.limits = profiler::Limits {
        target_ids: args.limits.targets,
        start_ids: args.limits.threads,
        unknown_numbers: args.limits.unknown,
    };
    config
}

/// What runs in the targets; a command is not started yet.
fn facts(args: &ProfileArgs, targets: &[Target]) -> Vec<Fact> {
    if !args.command.is_empty() {
        let why = "the command had not been started when this was read";
        return vec![Fact::unknown("process", FactWeight::Hard, why)];
    }
    let pids = targets.iter().filter_map(|target| target.resolve().ok());
    let pids: Vec<i32> = pids.flatten().map(u32::cast_signed).collect();
    fingerprint::processes(&pids)
}

/// Renders the result and decides the exit code.
fn render(
    args: &ProfileArgs,
    profile: Profile,
    facts: Vec<Fact>,
    end: &End,
    output: Output,
) -> anyhow::Result<u8> {
    let mut recording = render::blank(RecordingKind::Profile);
    // A target that ends is the end of the work; an interrupt of a wanted duration is not.
    let cut = end.interrupted && args.duration.is_some();
    recording.partial = cut.then(|| Partial {
        why: "interrupted".into(),
    });
    let target = describe_target(args);
    let server = ServerFingerprint {
        arm: target.clone(),
        facts,
    };
    let machine = fingerprint::machine(&recording.host);
    recording.fingerprint = Some(Fingerprint::new(machine, vec![server]));
    render::add_profile(&mut recording, &target, profile);
    let style = output::style(&output);
    let text = render::recording(&recording, args.output.format, &style, &Footer::default());
    output.write(&text)?;
    Ok(reports::exit_code(&recording, &Limits::default()))
}

/// The target in the words of the command line.
fn describe_target(args: &ProfileArgs) -> String {
    let targets = named_targets(args);
    let mut words: Vec<String> = targets.iter().map(ToString::to_string).collect();
    words.extend(
        args.command
            .first()
            .map(|program| program.to_string_lossy().into_owned()),
    );
    words.join(", ")
}

/// The command was found while it was still this program, before its exec; one that has ended can
/// no longer be asked for its name.
fn name_command(profile: &mut Profile, pid: u32, args: &ProfileArgs) {
    let Some(name) = args
        .command
        .first()
        .and_then(|program| Path::new(program).file_name())
    else {
        return;
    };
    let name: String = name.to_string_lossy().chars().take(COMM_LENGTH).collect();
    let process = profile.processes.iter_mut();
    let Some(process) = process
        .into_iter()
        .find(|process| process.pid == pid && process.ended)
    else {
        return;
    };
    let before = process.comm.replace(name.clone());
    for group in &mut profile.groups {
        if group.comm == before && group.pid.is_none_or(|of| of == pid) {
            group.comm = Some(name.clone());
        }
    }
}

/// A status as a shell reports it.
fn status_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok())
        .unwrap_or(exit_code::FAILED)
}

/// How the watching ended.
#[derive(Debug, Default)]
struct End {
    interrupted: bool,
    early: Option<String>,
    status: Option<ExitStatus>,
}

/// Watches until the time is over, the target is gone, or somebody interrupts.
fn watch(
    session: &mut Session,
    args: &ProfileArgs,
    interrupt: &Interrupt,
    mut launched: Option<&mut Launched>,
) -> anyhow::Result<End> {
    let began = Instant::now();
    let deadline = args.duration.map(|duration| began + duration);
    let mut next_slice = args.interval.map(|interval| began + interval);
    let mut next_tick = began + TICK;
    let mut end = End::default();
    loop {
        if interrupt.is_set() {
            end.interrupted = true;
            end.early = deadline.map(|_| "interrupted".to_owned());
            break;
        }
        if let Some(launched) = &mut launched
            && end.status.is_none()
        {
            end.status = launched.try_wait()?;
        }
        if session.target_ended() {
            end.early = deadline.map(|_| "every process of the target has ended".to_owned());
            break;
        }
        let now = Instant::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            break;
        }
        if let (Some(at), Some(interval)) = (next_slice, args.interval)
            && now >= at
        {
            session.slice()?;
            next_slice = Some(at + interval);
        }
        if now >= next_tick {
            session.tick();
            // Looking costs time where there are many processes; most of it shall stay theirs.
            next_tick = now + TICK.max(now.elapsed() * REST);
        }
        let wake = [deadline, next_slice]
            .into_iter()
            .flatten()
            .fold(now + POLL, Instant::min);
        std::thread::sleep(wake.saturating_duration_since(now));
    }
    Ok(end)
}

/// The half of a comparison: says hello, attaches, and does as it is told.
fn as_half(args: &ProfileArgs) -> u8 {
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

/// What the kernel keeps of a name.
const COMM_LENGTH: usize = 15;

/// How often the end of the target is looked for.
const POLL: Duration = Duration::from_millis(10);

/// How often new members of a target are looked for.
const TICK: Duration = Duration::from_millis(100);

/// A look is followed by so many times its own length of rest: at most 5 % of a CPU.
const REST: u32 = 20;

//! `whyfast profile`: a running server, or a command, profiled in the kernel.

mod half;
mod series;
mod shown;
mod watch;

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use profiler::{Config, Session, Target};
use recording::{
    Fact, FactWeight, Fingerprint, Partial, Profile, RecordingKind, ServerFingerprint, exit_code,
};
use reports::Limits;
use rustix::thread::CapabilitySet;

use self::half::as_half;
use self::shown::Planned;
use self::watch::{Watched, limit, watch};
use crate::args_profile::ProfileArgs;
use crate::failure::Failure;
use crate::fingerprint;
use crate::half::describe;
use crate::identity;
use crate::launch::Launched;
use crate::output::{self, Output, note};
use crate::requests::Counting;
use crate::serve;
use crate::signals::{Interrupt, leave_to_parent};
use crate::verbs::wait::failed;
use crate::verbs::{render, wait};

pub(crate) use self::half::commands;
pub(crate) use self::watch::{End, Leave, Onlooker};

/// Profiles and renders, or speaks as a half.
pub(crate) fn profile(args: &ProfileArgs) -> anyhow::Result<u8> {
    if args.control {
        leave_to_parent()?;
        return Ok(as_half(args));
    }
    shown::check(args)?;
    let output = Output::open(args.output.output.as_deref())?;
    let capabilities = output.capabilities();
    let listener = args.serve.map(serve::listen).transpose()?;
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
    let (planned, output) = Planned::new(args, describe_target(args), output, listener)?;
    session.drop_privileges(capabilities | kill)?;
    if let Some(launched) = &mut launched {
        launched.release()?;
    }
    // What a server or its log says is read without privileges, but for that to read logs.
    let counting = args.requests_from.as_ref().map(Counting::begin);
    let mut counting = counting.transpose()?;
    let mut shown = planned.begin()?;
    let watched = Watched {
        session: &mut session,
        launched: launched.as_mut(),
        counting: counting.as_mut(),
    };
    let end = watch(watched, args, &interrupt, shown.onlooker())?;
    let mut profile = session.close(false)?;
    if let Some(counting) = counting {
        counting.end(&mut profile);
    }
    drop(session);
    profile.ended_early = profile.ended_early.or_else(|| end.early.clone());
    if let Some(launched) = &launched {
        name_command(&mut profile, launched.pid(), args);
    }
    shown.end(&mut profile, &end, args.output.format, &interrupt)?;
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
    config.stack_hz = args.stack_hz;
    config.tls = args.tls;
    config.limits = profiler::Limits {
        target_ids: args.limits.targets,
        start_ids: args.limits.threads,
        unknown_numbers: args.limits.unknown,
    };
    shown::configure(&mut config, args);
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
    output: Option<Output>,
) -> anyhow::Result<u8> {
    let mut recording = render::blank(RecordingKind::Profile);
    // A target that ends is the end of the work; an interrupt of a wanted duration is not.
    let cut = end.interrupted && limit(args).is_some();
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
    if let Some(output) = output {
        let style = output::style(&output);
        let text = render::profile(&recording, args.output.format, &style)?;
        text.map_or(Ok(()), |text| output.write(&text))?;
    }
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

/// What the kernel keeps of a name.
const COMM_LENGTH: usize = 15;

/// How often new members of a target are looked for.
pub(super) const TICK: Duration = Duration::from_millis(100);

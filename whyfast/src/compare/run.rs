//! A comparison from its arguments to its exit code.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use recording::{Fingerprint, GateStatus, Protocol, Recording, RecordingKind, TracerLook, Warning};

use reports::Footer;

use crate::args::{CompareArgs, Format};
use crate::compare::access::Access;
use crate::compare::cookbook::Cookbook;
use crate::compare::limits::MachineLimits;
use crate::compare::plan::{self, Plan};
use crate::compare::prepare::{Kitchen, PreparedArm};
use crate::compare::round::Stage;
use crate::compare::scenario::{self, Chosen};
use crate::compare::server::Ground;
use crate::compare::transport::Transport;
use crate::compare::workspace::Workspace;
use crate::compare::{arms, parity, rounds};
use crate::failure::Failure;
use crate::fingerprint;
use crate::guard::Guard;
use crate::identity::{self, Identity};
use crate::machine::{CpuList, CpuSplit, cores, split_cpus};
use crate::output::{self, Output, note};
use crate::signals::Interrupt;
use crate::verbs::render;

/// Runs a comparison and returns its exit code.
pub(crate) fn compare(args: &CompareArgs) -> anyhow::Result<u8> {
    // Exact counts mean something by themselves.
    let least = if args.lock_step.is_some() { 1 } else { 2 };
    let chosen = scenario::choose(&args.scenario)?;
    let cookbook = Cookbook::open(args.recipes.as_deref())?;
    for name in cookbook.hidden() {
        note(&format!(
            "recipe {name} is the one of --recipes, not the built-in one"
        ));
    }
    let specs = arms::parse_all(&wanted_arms(args, &chosen, &cookbook), least)?;
    let cpus = split_cpus(&cores(&CpuList::allowed()?));
    let plan = plan::plan(args, &chosen, specs.len(), &cpus)?;
    let room = MachineLimits::read().room(&plan.scenario)?;
    let identity = identity::unprivileged(args.user.as_deref())?;
    let output = Output::open(args.output.output.as_deref())?;
    if let Some(folder) = &args.out {
        make_folder(folder, identity.as_ref())?;
    }
    let kitchen = Kitchen {
        cookbook: &cookbook,
        transport: Transport {
            tls: plan.scenario.tls.is_some(),
            http2: plan.scenario.protocol == Protocol::Http2,
        },
        identity: identity.as_ref(),
    };
    let mut prepared = specs
        .iter()
        .map(|spec| PreparedArm::prepare(spec, kitchen))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let interrupt = Interrupt::install()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut guard = Guard::start()?;
    let access = Access::find();
    let mut workspace = Workspace::create(&mut guard, identity.as_ref(), &plan)?;

    let mut recording = blank(&plan, &prepared, &cpus);
    recording.warnings.extend(room.warnings);
    let mut stage = Stage {
        plan: &plan,
        identity: identity.as_ref(),
        access: &access,
        ground: Ground {
            workspace: &mut workspace,
            guard: &mut guard,
            cpus: &cpus,
            path: &plan.scenario.path,
            interrupt: &interrupt,
        },
        sources: room.sources,
        tracers: TracerLook::default(),
    };
    check_parity(&mut stage, &mut prepared, &mut recording)?;
    reports::analyse_allowing(&mut recording, &args.allow_mismatch);
    check_gate_names(args, &recording)?;
    if recording
        .gates
        .iter()
        .any(|gate| gate.status == GateStatus::Refuse)
    {
        note("the arms do not answer alike, so nothing was measured; see the gates");
    } else {
        let null = null_server(&stage, &prepared)?;
        rounds::run_all(&mut stage, &prepared, null.as_ref(), &mut recording);
        reports::leave_out_disturbed(&mut recording);
        reports::analyse_allowing(&mut recording, &args.allow_mismatch);
        predict(&mut recording, &args.without);
    }
    drop(workspace);
    drop(guard);
    finish(args, &recording, output, identity.as_ref())
}

/// The arms of the command line; where it names a scenario and none, those of the scenario.
fn wanted_arms(args: &CompareArgs, chosen: &Chosen, cookbook: &Cookbook) -> Vec<String> {
    if !args.arms.is_empty() || args.scenario.scenario.is_none() {
        return args.arms.clone();
    }
    let is_installed = |arm: &&String| {
        let recipe = arm.split_once(':').map_or(arm.as_str(), |(name, _)| name);
        cookbook.lacks(recipe).is_ok_and(|lacks| lacks.is_none())
    };
    let optional = chosen.optional_arms.iter().filter(is_installed);
    chosen.arms.iter().chain(optional).cloned().collect()
}

/// Makes the folder of `--out`; under sudo it belongs to the user behind it.
fn make_folder(folder: &Path, identity: Option<&Identity>) -> anyhow::Result<()> {
    if let Some((name, _)) = SAVED_FILES
        .iter()
        .find(|(name, _)| folder.join(name).exists())
    {
        return Err(Failure::usage(format!(
            "{} holds a {name} already; name another --out",
            folder.display()
        )));
    }
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder)
        .with_context(|| format!("failed to make the folder {}", folder.display()))?;
    if let Some(owner) = identity.filter(|_| std::env::var_os("SUDO_UID").is_some()) {
        std::os::unix::fs::chown(folder, Some(owner.uid), Some(owner.gid))?;
    }
    Ok(())
}

/// The recording before the first round.
fn blank(plan: &Plan, prepared: &[PreparedArm], cpus: &CpuSplit) -> Recording {
    let mut warnings = Vec::new();
    let mut warn = |code: &str, text: String| {
        warnings.push(Warning {
            code: code.into(),
            text,
        });
    };
    if !cpus.disjoint {
        warn(
            "shared_cpu",
            format!(
                "server and client share CPU {}; they compete, so compare CPU per request rather \
                 than throughput",
                cpus.server
            ),
        );
    }
    if prepared
        .iter()
        .any(|arm| arm.arm.kind == recording::ArmKind::Live)
    {
        warn(
            "live_server",
            "a live server cannot be restarted: its rounds are windows of one process, so the \
             interval leaves out what differs from start to start"
                .to_owned(),
        );
    }
    // What a gate refuses is said there.
    let unfair = plan.scenario.unfair.iter();
    for unfair in unfair.filter(|unfair| unfair.gate.is_none()) {
        warn("as_published", format!("as published: {}", unfair.what));
    }
    Recording {
        scenario: Some(plan.scenario.clone()),
        arms: prepared.iter().map(|arm| arm.arm.clone()).collect(),
        warnings,
        ..render::blank(RecordingKind::Compare)
    }
}

fn check_parity(
    stage: &mut Stage<'_>,
    prepared: &mut [PreparedArm],
    recording: &mut Recording,
) -> anyhow::Result<()> {
    let mut servers = Vec::new();
    for (arm, stored) in prepared.iter_mut().zip(&mut recording.arms) {
        let (shape, facts) = parity::look(stage, arm)?;
        arm.arm.response = Some(shape.clone());
        stored.response = Some(shape);
        servers.push(facts);
    }
    let machine = fingerprint::machine(&recording.host);
    recording.fingerprint = Some(Fingerprint::new(machine, servers));
    Ok(())
}

/// The minimal responder that answers with as many bytes as the first arm. A live server answers
/// from CPUs that nobody here knows, so there is none beside it.
fn null_server(stage: &Stage<'_>, prepared: &[PreparedArm]) -> anyhow::Result<Option<PreparedArm>> {
    let live = |arm: &PreparedArm| arm.arm.kind == recording::ArmKind::Live;
    let shape = prepared.first().and_then(|arm| arm.arm.response.as_ref());
    let (Some(shape), false) = (shape, prepared.iter().any(live)) else {
        return Ok(None);
    };
    if !stage.plan.null_server || Some(shape.body_bytes) != stage.plan.scenario.body_bytes {
        return Ok(None);
    }
    PreparedArm::null_server(shape.head_bytes).map(Some)
}

/// A misspelt gate would allow nothing, silently.
fn check_gate_names(args: &CompareArgs, recording: &Recording) -> anyhow::Result<()> {
    let known: Vec<&str> = recording
        .gates
        .iter()
        .map(|gate| gate.id.as_str())
        .collect();
    match args
        .allow_mismatch
        .iter()
        .find(|id| !known.iter().any(|k| k.eq_ignore_ascii_case(id)))
    {
        None => Ok(()),
        Some(id) => Err(Failure::usage(format!(
            "--allow-mismatch {id}: no such gate; there are {}",
            known.join(", ")
        ))),
    }
}

/// Predicts what was asked for. A cause that there is not is no reason to lose the measurement.
fn predict(recording: &mut Recording, causes: &[String]) {
    for cause in causes {
        match reports::predict::without(recording, cause) {
            Ok(predictions) => recording.predictions.extend(predictions),
            Err(error) => recording.warnings.push(Warning {
                code: "unknown_cause".into(),
                text: format!("--without {cause}: {error}"),
            }),
        }
    }
}

/// Writes what was asked for and decides the exit code.
fn finish(
    args: &CompareArgs,
    recording: &Recording,
    output: Output,
    identity: Option<&Identity>,
) -> anyhow::Result<u8> {
    // The user behind sudo owns the results, not root.
    let owner = identity.filter(|_| std::env::var_os("SUDO_UID").is_some());
    let saved = match &args.out {
        Some(folder) => save(folder, recording, owner),
        None => Ok(Vec::new()),
    };
    let style = output::style(&output);
    let footer = Footer {
        saved: saved.as_ref().map_or_else(|_| Vec::new(), Clone::clone),
        reproduce: Some(render::shell_line(&recording.command)),
    };
    output.write(&render::recording(
        recording,
        args.output.format,
        &style,
        &footer,
    ))?;
    saved?;
    Ok(reports::exit_code(recording, &reports::Limits::default()))
}

/// Keeps the recording and the report in a folder; what cannot be kept there goes to the folder for
/// temporary files, so that no measurement is lost. Returns what was written.
fn save(
    folder: &Path,
    recording: &Recording,
    owner: Option<&Identity>,
) -> anyhow::Result<Vec<String>> {
    let style = reports::Style::default();
    let mut saved = Vec::new();
    for (name, format) in SAVED_FILES {
        let text = render::recording(recording, format, &style, &Footer::default());
        let path = folder.join(name);
        if let Err(error) = output::write_whole(&path, &text, owner) {
            let refuge =
                std::env::temp_dir().join(format!("whyfast-{}-{name}", std::process::id()));
            let kept = match output::write_whole(&refuge, &text, owner) {
                Ok(()) => format!("it was kept as {} instead", refuge.display()),
                Err(_) => "it could not be kept anywhere else either".to_owned(),
            };
            return Err(error).with_context(|| {
                format!(
                    "failed to write {}; no partial file is left, and {kept}. Free some space or \
                     name another --out",
                    path.display()
                )
            });
        }
        saved.push(path.display().to_string());
    }
    Ok(saved)
}

/// What `--out` keeps.
const SAVED_FILES: [(&str, Format); 3] = [
    ("recording.json", Format::Json),
    ("report.md", Format::Markdown),
    ("report.html", Format::Html),
];

//! Arms that are known to be startable: every program found, every setting chosen, nothing started yet.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use recording::{Arm, ArmKind, ConfigFile, Hop, Setting, hex};
use sha2::{Digest as _, Sha256};

use crate::capabilities;
use crate::compare::arms::{ArmSpec, LiveTarget, ServerSpec};
use crate::compare::cookbook::{ChosenHop, Cookbook};
use crate::compare::fact::FactPattern;
use crate::compare::npm;
use crate::compare::transport::Transport;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::spawn::{Birth, Program, find_program};
use crate::verbs::render::blank_arm;

/// What arms are prepared with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kitchen<'a> {
    pub(crate) cookbook: &'a Cookbook,
    /// What the scenario speaks.
    pub(crate) transport: Transport,
    /// Whom servers run as.
    pub(crate) identity: Option<&'a Identity>,
}

/// An arm that is known to be startable.
#[derive(Debug)]
pub(crate) struct PreparedArm {
    pub(crate) arm: Arm,
    pub(super) launch: Launch,
}

#[derive(Debug)]
pub(super) enum Launch {
    /// It was there before.
    Live { url: String, target: LiveTarget },
    /// Programs, the client's end first; more than one are a chain.
    Start(Vec<PreparedProgram>),
}

/// A program with arguments that have placeholders.
#[derive(Debug)]
pub(super) struct PreparedProgram {
    /// Its part in the chain; empty where it is all of the arm.
    pub(super) hop: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) config: Vec<ConfigFile>,
    pub(super) environment: Vec<(String, String)>,
    /// How the usual build of it is installed, to be named when it fails.
    pub(super) install: Option<String>,
}

impl PreparedArm {
    /// Finds what the arm needs; nothing is started but the program's `--version`.
    pub(crate) fn prepare(spec: &ArmSpec, kitchen: Kitchen<'_>) -> anyhow::Result<Self> {
        match &spec.server {
            ServerSpec::Recipe {
                recipe,
                variant,
                program,
            } => {
                let hops =
                    kitchen
                        .cookbook
                        .choose(recipe, variant.as_deref(), kitchen.transport)?;
                from_recipe(spec, hops, program.as_deref(), kitchen.identity)
            }
            ServerSpec::Testserver { style } => testserver_arm(spec, style, kitchen.transport),
            ServerSpec::Command(command) => Ok(command_arm(spec, command)),
            ServerSpec::Live { url, target } => {
                check_live(spec, target)?;
                Ok(Self {
                    arm: blank_arm(&spec.name, &spec.spec, ArmKind::Live),
                    launch: Launch::Live {
                        url: url.clone(),
                        target: target.clone(),
                    },
                })
            }
        }
    }

    /// The built-in server with the fewest calls, and response heads of this length.
    pub(crate) fn null_server(head_bytes: u64) -> anyhow::Result<Self> {
        let style = format!("memory,head-bytes={}", head_bytes.min(MAX_NULL_HEAD));
        let spec = ArmSpec {
            name: "null server".to_owned(),
            spec: format!("testserver:{style}"),
            server: ServerSpec::Testserver {
                style: style.clone(),
            },
        };
        testserver_arm(&spec, &style, Transport::CLEAR)
    }

    /// An arm that is one program, with what was started and its hash in the recording.
    fn single(mut arm: Arm, program: PreparedProgram) -> Self {
        arm.command = command_line(&program);
        if arm.kind != ArmKind::Command {
            arm.binary_sha256 = sha256_of(&program.program);
        }
        Self {
            arm,
            launch: Launch::Start(vec![program]),
        }
    }
}

/// What the built-in server can fill a head up to.
const MAX_NULL_HEAD: u64 = 8192;

/// The built-in server, which speaks what the scenario speaks.
fn testserver_arm(
    spec: &ArmSpec,
    style: &str,
    transport: Transport,
) -> anyhow::Result<PreparedArm> {
    let style = testserver::Config::parse(style)
        .and_then(|config| config.speaking(transport.tls, transport.http2))
        .map_err(|error| Failure::usage(format!("arm {:?}: {error}", spec.spec)))?
        .spec();
    let mut arm = blank_arm(&spec.name, &spec.spec, ArmKind::Testserver);
    arm.version = Some(format!("whyfast {}", env!("CARGO_PKG_VERSION")));
    arm.settings = vec![Setting {
        key: "style".into(),
        value: style.clone(),
    }];
    let plain = [
        "testserver",
        "--style",
        &style,
        "--workers",
        "{workers}",
        "--listen",
        "127.0.0.1:{port}",
        "--file",
        "{root}/{file}",
    ];
    let encrypted = ["--cert", "{cert}", "--key", "{key}"];
    let encrypted = encrypted.iter().filter(|_| transport.tls);
    let arguments = plain.iter().chain(encrypted);
    let program = std::env::current_exe()?;
    let program = plain_program(program, arguments.map(|&text| text.to_owned()).collect());
    Ok(PreparedArm::single(arm, program))
}

fn command_arm(spec: &ArmSpec, command: &str) -> PreparedArm {
    let arm = blank_arm(&spec.name, &spec.spec, ArmKind::Command);
    let arguments = vec!["-c".to_owned(), command.to_owned()];
    PreparedArm::single(arm, plain_program(PathBuf::from("/bin/sh"), arguments))
}

fn plain_program(program: PathBuf, arguments: Vec<String>) -> PreparedProgram {
    PreparedProgram {
        hop: String::new(),
        program,
        arguments,
        config: Vec::new(),
        environment: Vec::new(),
        install: None,
    }
}

/// An arm of a recipe. All that is missing is named at once.
fn from_recipe(
    spec: &ArmSpec,
    hops: Vec<ChosenHop>,
    other_build: Option<&Path>,
    identity: Option<&Identity>,
) -> anyhow::Result<PreparedArm> {
    let is_chain = hops.len() > 1;
    if let Some(path) = other_build.filter(|_| is_chain) {
        return Err(Failure::usage(format!(
            "arm {:?}: {} cannot stand for all programs of a chain; put it first on PATH instead",
            spec.spec,
            path.display()
        )));
    }
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for hop in hops {
        match find(spec, &hop, other_build) {
            Ok(parts) => found.push((hop, parts)),
            Err(why) if hop.name.is_empty() => missing.push(why),
            Err(why) => missing.push(format!("hop {}: {why}", hop.name)),
        }
    }
    if !missing.is_empty() {
        let what = format!("arm {:?}: {}", spec.spec, missing.join("; "));
        return Err(match other_build {
            Some(_) => Failure::usage(what),
            None => Failure::with_code(recording::exit_code::FAILED, what),
        });
    }
    let mut arm = blank_arm(&spec.name, &spec.spec, ArmKind::Recipe);
    let mut programs = Vec::new();
    for (hop, (path, modules)) in found {
        let (described, program) = describe(hop, path, modules, identity);
        arm.hops.push(described);
        programs.push(program);
    }
    if !is_chain && let (Some(only), Some(program)) = (arm.hops.pop(), programs.pop()) {
        arm.version = only.version;
        arm.settings = only.settings;
        arm.build = only.build;
        arm.config = only.config;
        return Ok(PreparedArm::single(arm, program));
    }
    let versions: Option<Vec<&str>> = arm.hops.iter().map(|hop| hop.version.as_deref()).collect();
    arm.version = versions.map(|versions| versions.join(" + "));
    arm.settings = side_by_side(&arm.hops);
    Ok(PreparedArm {
        arm,
        launch: Launch::Start(programs),
    })
}

/// The settings of all hops, so that a chain can be held against other arms: a value where those that
/// declare it agree, else the value of each.
fn side_by_side(hops: &[Hop]) -> Vec<Setting> {
    let mut keys: Vec<&str> = Vec::new();
    for setting in hops.iter().flat_map(|hop| &hop.settings) {
        if !keys.contains(&setting.key.as_str()) {
            keys.push(&setting.key);
        }
    }
    let rows = keys.into_iter().map(|key| {
        let of_hop = |hop: &Hop| {
            let mut settings = hop.settings.iter();
            let setting = settings.find(|setting| setting.key == key)?;
            Some((hop.name.clone(), setting.value.clone()))
        };
        let values: Vec<(String, String)> = hops.iter().filter_map(of_hop).collect();
        let value = if values.windows(2).all(|pair| pair[0].1 == pair[1].1) {
            values[0].1.clone()
        } else {
            let parts = values.iter().map(|(hop, value)| format!("{hop}: {value}"));
            parts.collect::<Vec<_>>().join("; ")
        };
        Setting {
            key: key.to_owned(),
            value,
        }
    });
    rows.collect()
}

/// The file of a hop's program and its modules, or what is missing and how it is had.
fn find(
    spec: &ArmSpec,
    hop: &ChosenHop,
    other_build: Option<&Path>,
) -> Result<(PathBuf, Option<npm::Found>), String> {
    let recipe = &hop.program.recipe;
    let path = match other_build {
        Some(path) => find_program(path.as_os_str())
            .ok_or_else(|| format!("{} is not a program that can be run", path.display()))?,
        None => find_program(OsStr::new(&recipe.program)).ok_or_else(|| {
            let other = if hop.name.is_empty() {
                let (spec, program) = (&spec.spec, &recipe.program);
                format!(", or name the file: {spec}@/path/to/{program}")
            } else {
                String::new()
            };
            format!(
                "no program {} on PATH; {}{other}",
                recipe.program,
                recipe.how_to_install()
            )
        })?,
    };
    // It is started in a folder of its own.
    let path = std::path::absolute(&path).unwrap_or(path);
    if recipe.modules.is_empty() {
        return Ok((path, None));
    }
    let modules = npm::find(&recipe.modules, hop.folder.as_deref());
    let modules = modules.map_err(|missing| missing.to_string())?;
    Ok((path, Some(modules)))
}

/// A hop for the recording, and as it is started.
fn describe(
    hop: ChosenHop,
    path: PathBuf,
    modules: Option<npm::Found>,
    identity: Option<&Identity>,
) -> (Hop, PreparedProgram) {
    let chosen = hop.program;
    let said = say(&path, &chosen.recipe.version, identity).unwrap_or_default();
    let facts = chosen.recipe.facts.iter();
    let mut build: Vec<Setting> = facts
        .filter_map(|(key, pattern)| fact(key, pattern, &said))
        .collect();
    let mut environment = chosen.environment;
    if let Some(modules) = modules {
        build.extend(modules.versions);
        environment.push(("NODE_PATH".to_owned(), modules.node_path));
    }
    let program = PreparedProgram {
        hop: hop.name.clone(),
        program: path,
        arguments: chosen.arguments,
        config: chosen.config.clone(),
        environment,
        install: Some(chosen.recipe.how_to_install()),
    };
    let described = Hop {
        name: hop.name,
        program: chosen.recipe.program,
        version: version(&said, &program.program),
        settings: chosen.settings,
        build,
        config: chosen.config,
        command: command_line(&program),
        binary_sha256: sha256_of(&program.program),
    };
    (described, program)
}

fn command_line(program: &PreparedProgram) -> Vec<String> {
    let mut command = vec![program.program.display().to_string()];
    command.extend(program.arguments.iter().cloned());
    command
}

fn sha256_of(program: &Path) -> Option<String> {
    let bytes = fs::read(program).ok()?;
    Some(hex(&Sha256::digest(bytes)))
}

/// A live target that does not exist is found out before the first round, where it can be seen.
fn check_live(spec: &ArmSpec, target: &LiveTarget) -> anyhow::Result<()> {
    match capabilities::looking(|| target.to_target().resolve()) {
        Err(error) if rustix::process::geteuid().is_root() => Err(Failure::with_code(
            error.exit_code(),
            format!("arm {:?}: {error}", spec.spec),
        )),
        _ => Ok(()),
    }
}

/// What a program prints about itself.
fn say(program: &Path, arguments: &[String], identity: Option<&Identity>) -> Option<String> {
    let birth = Birth {
        identity: identity.cloned(),
        cpus: None,
        session: true,
    };
    let program = Program::at(program, identity).ok()?;
    let output = program
        .command(&birth)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = [output.stdout, b"\n".to_vec(), output.stderr].concat();
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// What a program says its version is: the first line with a digit, with its name where that is only
/// the number.
fn version(said: &str, program: &Path) -> Option<String> {
    let has_digit = |line: &&str| line.contains(|c: char| c.is_ascii_digit());
    let line = said.lines().map(str::trim).find(has_digit)?;
    let line = line.trim_start_matches("nginx version: ");
    if line.starts_with(|c: char| c.is_ascii_digit()) {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        return Some(reports::clean(&format!("{name} {line}")));
    }
    Some(reports::clean(line))
}

fn fact(key: &str, pattern: &FactPattern, said: &str) -> Option<Setting> {
    let value = pattern.find(said)?;
    Some(Setting {
        key: key.to_owned(),
        value: reports::clean(&value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The version is found where programs print it, and has a name (the lines are those of nginx 1.22,
    /// Caddy 2.6 and Varnish 7.1).
    #[test]
    fn versions_are_found() {
        let of = |said: &str, program: &str| version(said, Path::new(program));
        let nginx = "nginx version: nginx/1.22.1\nbuilt with OpenSSL 3.0.22\n";
        assert_eq!(of(nginx, "/usr/sbin/nginx").unwrap(), "nginx/1.22.1");
        assert_eq!(of("2.6.2\n", "/usr/bin/caddy").unwrap(), "caddy 2.6.2");
        let varnish = "\nvarnishd (varnish-7.1.1 revision 7cee1c58)\nCopyright (c) 2006";
        assert_eq!(
            of(varnish, "varnishd").unwrap(),
            "varnishd (varnish-7.1.1 revision 7cee1c58)"
        );
        assert_eq!(of("no idea\n", "x"), None);
    }
}

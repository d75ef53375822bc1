//! A server of an arm: prepared once, started for a round, and gone after it whatever happens.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use profiler::Target;
use recording::{Arm, ArmKind, Setting, hex};
use sha2::{Digest as _, Sha256};

use crate::capabilities;
use crate::compare::arms::{ArmSpec, LiveTarget, ServerSpec};
use crate::compare::placeholders::Placeholders;
use crate::compare::recipe;
use crate::compare::workspace::Workspace;
use crate::failure::Failure;
use crate::guard::{self, Guard};
use crate::half::describe;
use crate::identity::Identity;
use crate::machine::CpuSplit;
use crate::process_tree::descendants;
use crate::signals::Interrupt;
use crate::spawn::{Birth, Program, bear, find_program};
use crate::verbs::render::blank_arm;

/// An arm that is known to be startable.
#[derive(Debug)]
pub(crate) struct PreparedArm {
    pub(crate) arm: Arm,
    launch: Launch,
    /// The package to name when the program fails.
    package: Option<String>,
}

#[derive(Debug)]
enum Launch {
    /// A program with arguments that have placeholders.
    Start {
        program: PathBuf,
        arguments: Vec<String>,
    },
    Live {
        url: String,
        target: LiveTarget,
    },
}

impl PreparedArm {
    /// Finds what the arm needs; nothing is started but the program's `--version`.
    pub(crate) fn prepare(spec: &ArmSpec, identity: Option<&Identity>) -> anyhow::Result<Self> {
        let mut arm = blank_arm(&spec.name, &spec.spec, ArmKind::Command);
        let mut package = None;
        let launch = match &spec.server {
            ServerSpec::Recipe {
                recipe,
                variant,
                program,
            } => {
                let chosen = recipe::choose(recipe, variant.as_deref())?;
                let program = match program {
                    Some(path) => find_program(path.as_os_str()),
                    None => find_program(OsStr::new(&chosen.recipe.program)),
                };
                let program = program.ok_or_else(|| missing(spec, &chosen.recipe))?;
                arm.kind = ArmKind::Recipe;
                arm.version = version(&program, &chosen.recipe.version, identity);
                arm.settings = chosen.settings();
                arm.config = chosen.config();
                package = Some(chosen.recipe.package);
                Launch::Start {
                    program,
                    arguments: chosen.recipe.command[1..].to_vec(),
                }
            }
            ServerSpec::Testserver { style } => {
                testserver::Config::parse(style)
                    .map_err(|error| Failure::usage(format!("arm {:?}: {error}", spec.spec)))?;
                arm.kind = ArmKind::Testserver;
                arm.version = Some(format!("whyfast {}", env!("CARGO_PKG_VERSION")));
                arm.settings = vec![Setting {
                    key: "style".into(),
                    value: style.clone(),
                }];
                let arguments = [
                    "testserver",
                    "--style",
                    style,
                    "--workers",
                    "{workers}",
                    "--listen",
                    "127.0.0.1:{port}",
                    "--file",
                    "{root}/{file}",
                ];
                let program = std::env::current_exe()?;
                Launch::Start {
                    program,
                    arguments: arguments.map(str::to_owned).to_vec(),
                }
            }
            ServerSpec::Command(command) => {
                let arguments = vec!["-c".to_owned(), command.clone()];
                Launch::Start {
                    program: PathBuf::from("/bin/sh"),
                    arguments,
                }
            }
            ServerSpec::Live { url, target } => {
                check_live(spec, target)?;
                arm.kind = ArmKind::Live;
                Launch::Live {
                    url: url.clone(),
                    target: target.clone(),
                }
            }
        };
        if let Launch::Start { program, arguments } = &launch {
            arm.command.push(program.display().to_string());
            arm.command.extend(arguments.iter().cloned());
            if arm.kind != ArmKind::Command {
                arm.binary_sha256 = fs::read(program)
                    .ok()
                    .map(|bytes| hex(&Sha256::digest(bytes)));
            }
        }
        Ok(Self {
            arm,
            launch,
            package,
        })
    }
}

impl PreparedArm {
    /// The built-in server with the fewest calls, and response heads of this length.
    pub(crate) fn null_server(
        head_bytes: u64,
        identity: Option<&Identity>,
    ) -> anyhow::Result<Self> {
        let style = format!("memory,head-bytes={}", head_bytes.min(MAX_NULL_HEAD));
        let spec = ArmSpec {
            name: "null server".to_owned(),
            spec: format!("testserver:{style}"),
            server: ServerSpec::Testserver { style },
        };
        Self::prepare(&spec, identity)
    }
}

/// What the built-in server can fill a head up to.
const MAX_NULL_HEAD: u64 = 8192;

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

fn missing(spec: &ArmSpec, recipe: &recipe::Recipe) -> anyhow::Error {
    match &spec.server {
        ServerSpec::Recipe {
            program: Some(path),
            ..
        } => Failure::usage(format!(
            "arm {:?}: {} is not a program that can be run",
            spec.spec,
            path.display()
        )),
        _ => Failure::with_code(
            recording::exit_code::FAILED,
            format!(
                "arm {:?}: no program {} on PATH; install it with `apt-get install {}`, or name \
                 the file: {}@/path/to/{}",
                spec.spec, recipe.program, recipe.package, spec.spec, recipe.program
            ),
        ),
    }
}

/// What the program says its version is: the first line with a digit.
fn version(program: &Path, arguments: &[String], identity: Option<&Identity>) -> Option<String> {
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
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text)
        .lines()
        .find(|line| line.contains(|c: char| c.is_ascii_digit()))
        .map(|line| reports::clean(line.trim().trim_start_matches("nginx version: ")))
}

/// What starting a server needs to know.
#[derive(Debug)]
pub(crate) struct Ground<'a> {
    pub(crate) workspace: &'a mut Workspace,
    pub(crate) guard: &'a mut Guard,
    pub(crate) cpus: &'a CpuSplit,
    pub(crate) path: &'a str,
    pub(crate) interrupt: &'a Interrupt,
}

impl Ground<'_> {
    /// What is requested of a server on a port.
    fn url(&self, port: u16) -> String {
        let scheme = match self.workspace.certificate {
            Some(_) => "https",
            None => "http",
        };
        format!("{scheme}://127.0.0.1:{port}{}", self.path)
    }
}

/// A server that answers.
#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    /// What to load.
    pub(crate) url: String,
    /// The options of `whyfast profile` that choose it.
    pub(crate) profile_options: Vec<String>,
    started: Option<Started>,
    processes: Processes,
}

/// How its processes are found.
#[derive(Debug)]
enum Processes {
    /// They descend from the one that was started.
    Started(i32),
    /// They were there before.
    Live(LiveTarget),
}

#[derive(Debug)]
struct Started {
    child: Child,
    folder: PathBuf,
}

impl Running {
    /// Starts the server of an arm and waits until its port answers.
    pub(crate) fn start(arm: &PreparedArm, ground: &mut Ground<'_>) -> anyhow::Result<Self> {
        let (program, arguments) = match &arm.launch {
            Launch::Live { url, target } => return Ok(Self::live(&arm.arm.name, url, target)),
            Launch::Start { program, arguments } => (program, arguments),
        };
        let folder = ground.workspace.round_folder()?;
        let port = free_port()?;
        let placeholders = Placeholders::new(
            port,
            &folder,
            ground.workspace,
            &ground.cpus.server,
            ground.path,
        );
        placeholders.write_config(&arm.arm.config, &folder)?;
        let arguments: Vec<String> = arguments
            .iter()
            .map(|argument| placeholders.fill(argument))
            .collect();
        let birth = Birth {
            identity: ground.workspace.identity.clone(),
            cpus: Some(ground.cpus.server.clone()),
            session: true,
        };
        let program = Program::at(program, ground.workspace.identity.as_ref())?;
        let mut command = Command::new(program.path());
        command
            .args(arguments)
            .env_clear()
            .envs(std::env::vars_os().filter(|(key, _)| KEPT_ENVIRONMENT.iter().any(|k| key == k)))
            .env("HOME", &folder)
            .env("TMPDIR", &folder)
            .env(guard::MARK, ground.guard.mark())
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.join(STDERR))?);
        bear(&mut command, &birth);
        let child = command
            .spawn()
            .with_context(|| format!("failed to start {}", arm.arm.name))?;
        let leader = child.id();
        let mut running = Self {
            name: arm.arm.name.clone(),
            url: ground.url(port),
            profile_options: vec!["--pid".into(), leader.to_string()],
            started: Some(Started { child, folder }),
            processes: Processes::Started(leader.cast_signed()),
        };
        ground
            .guard
            .add_session(leader)
            .context("the guard process is gone")?;
        running.await_port(port, arm.package.as_deref(), ground.interrupt)?;
        running.check_owner(port)?;
        Ok(running)
    }

    fn live(name: &str, url: &str, target: &LiveTarget) -> Self {
        Self {
            name: name.to_owned(),
            url: url.to_owned(),
            profile_options: target.profile_options().to_vec(),
            started: None,
            processes: Processes::Live(target.clone()),
        }
    }

    fn await_port(
        &mut self,
        port: u16,
        package: Option<&str>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let deadline = Instant::now() + READY_PATIENCE;
        while TcpStream::connect_timeout(&address, READY_PATIENCE).is_err() {
            if let Some(why) = self.ended() {
                let hint = package.map_or_else(String::new, |package| {
                    format!(" (from package {package}, if it is the usual build)")
                });
                // A daemon's first process ends well while the server lives on elsewhere.
                let daemon = if why.contains("status 0") {
                    "; keep the server in the foreground (nginx: `daemon off;`)"
                } else {
                    ""
                };
                anyhow::bail!("{why} before it listened{hint}{daemon}");
            }
            anyhow::ensure!(!interrupt.is_set(), "interrupted");
            anyhow::ensure!(
                Instant::now() < deadline,
                "{} does not listen on 127.0.0.1:{port} after {} s; does its command use {{port}}?{}",
                self.name,
                READY_PATIENCE.as_secs(),
                self.last_words()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// The port has to be held by the processes that will be measured. (Who holds it cannot always
    /// be seen; a profile that counts nothing is refused later.)
    fn check_owner(&self, port: u16) -> anyhow::Result<()> {
        let Ok(owners) = Target::Port(port).resolve() else {
            return Ok(());
        };
        let pids = self.pids();
        anyhow::ensure!(
            owners
                .iter()
                .any(|owner| pids.contains(&owner.cast_signed())),
            "{} went into the background: 127.0.0.1:{port} is held by process {}, which does not \
             descend from the one that was started. Keep the server in the foreground (nginx: \
             `daemon off;`)",
            self.name,
            owners.first().map_or_else(String::new, u32::to_string)
        );
        Ok(())
    }

    /// Whether it was started here, and so is reached over loopback.
    pub(crate) fn is_ours(&self) -> bool {
        self.started.is_some()
    }

    /// Its processes now; none where whoever runs this may not look.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let roots = match &self.processes {
            Processes::Started(leader) => return descendants(*leader),
            Processes::Live(target) => {
                capabilities::looking(|| target.to_target().resolve()).unwrap_or_default()
            }
        };
        let pids = roots
            .into_iter()
            .flat_map(|pid| descendants(pid.cast_signed()));
        pids.collect::<BTreeSet<i32>>().into_iter().collect()
    }

    /// How the server ended, with its last words; `None` while it lives or where it is not ours.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status: ExitStatus = self.started.as_mut()?.child.try_wait().ok()??;
        Some(format!(
            "{} {}{}",
            self.name,
            describe(status),
            self.last_words()
        ))
    }

    /// The end of what it wrote to stderr and its error log.
    fn last_words(&self) -> String {
        let Some(started) = &self.started else {
            return String::new();
        };
        let mut words = String::new();
        for file in [STDERR, "error.log"] {
            let bytes = fs::read(started.folder.join(file)).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text
                .lines()
                .filter(|line| !line.trim().is_empty())
                .collect();
            for line in &lines[lines.len().saturating_sub(LAST_LINES)..] {
                words.push_str("; it said: ");
                words.push_str(&reports::clean(line.trim()));
            }
        }
        words
    }

    /// Ends the server and removes its folder.
    pub(crate) fn stop(mut self, guard: &mut Guard) {
        if let Some(started) = self.started.take() {
            let leader = started.child.id();
            end(started);
            // The halves have ended before the server, so whatever else is our child came from it.
            guard::kill_strays(&[guard.pid()]);
            drop(guard.session_ended(leader));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(started) = self.started.take() {
            end(started);
        }
    }
}

/// Asks the server to end, then ends its whole session.
fn end(mut started: Started) {
    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpgid};
    let leader = started.child.id().cast_signed();
    let pid = Pid::from_raw(leader).expect("a child has a process id");
    let deadline = Instant::now() + STOP_PATIENCE;
    let _gone = kill_process(pid, Signal::TERM);
    while let Ok(None) = started.child.try_wait() {
        if Instant::now() >= deadline {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    guard::kill_server(leader, &started.folder);
    drop(started.child.wait());
    // Orphans of the session came to us, the subreaper.
    while let Ok(Some(_)) = waitpgid(pid, WaitOptions::NOHANG) {}
    // The workspace removes the folder at the latest.
    drop(fs::remove_dir_all(&started.folder));
}

/// A port that was free a moment ago.
fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}

/// What a server gets of our environment; everything else may hold secrets, and differs from
/// machine to machine.
const KEPT_ENVIRONMENT: [&str; 3] = ["LANG", "PATH", "TZ"];

const STDERR: &str = "stderr.log";

/// Lines of a log that are repeated in an error message.
const LAST_LINES: usize = 3;

/// How long a server may take until it listens.
const READY_PATIENCE: Duration = Duration::from_secs(10);

/// How long a server may take to end after SIGTERM.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

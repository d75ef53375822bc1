//! A server of an arm, of one program or several: started for a round, and gone after it whatever
//! happens.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use profiler::Target;
use recording::HopProcesses;

use crate::capabilities;
use crate::compare::arms::LiveTarget;
use crate::compare::placeholders::Placeholders;
use crate::compare::prepare::{Launch, PreparedArm, PreparedProgram};
use crate::compare::workspace::Workspace;
use crate::guard::{self, Guard};
use crate::half::describe;
use crate::machine::CpuSplit;
use crate::process_tree::descendants;
use crate::signals::Interrupt;
use crate::spawn::{Birth, Program, bear};

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
    /// What was started, the client's end first; empty where it was there before.
    parts: Vec<Part>,
    /// How a server is found that was there before.
    live: Option<LiveTarget>,
}

/// A program of a server that was started.
#[derive(Debug)]
struct Part {
    /// What it is called in messages.
    name: String,
    /// Its part in a chain; empty where it is all of the server.
    hop: String,
    port: u16,
    child: Child,
    folder: PathBuf,
}

impl Running {
    /// Starts the server of an arm and waits until its port answers. Of a chain the last program is
    /// started first, since nobody may ask for what is not there yet.
    pub(crate) fn start(arm: &PreparedArm, ground: &mut Ground<'_>) -> anyhow::Result<Self> {
        let programs = match &arm.launch {
            Launch::Live { url, target } => return Ok(Self::live(&arm.arm.name, url, target)),
            Launch::Start(programs) => programs,
        };
        let mut running = Self {
            name: arm.arm.name.clone(),
            url: String::new(),
            profile_options: Vec::new(),
            parts: Vec::new(),
            live: None,
        };
        for program in programs.iter().rev() {
            let part = running.start_part(program, ground)?;
            let leader = part.child.id();
            running.parts.insert(0, part);
            ground
                .guard
                .add_session(leader)
                .context("the guard process is gone")?;
            let part = &mut running.parts[0];
            part.await_port(program.install.as_deref(), ground.interrupt)?;
            part.check_owner()?;
        }
        running.url = ground.url(running.parts[0].port);
        for part in &running.parts {
            let leader = part.child.id().to_string();
            running.profile_options.extend(["--pid".into(), leader]);
        }
        if running.parts.len() > 1 {
            // What each hop costs is the sum over its processes.
            let by_process = ["--by", "process"].map(str::to_owned);
            running.profile_options.extend(by_process);
        }
        Ok(running)
    }

    fn live(name: &str, url: &str, target: &LiveTarget) -> Self {
        Self {
            name: name.to_owned(),
            url: url.to_owned(),
            profile_options: target.profile_options().to_vec(),
            parts: Vec::new(),
            live: Some(target.clone()),
        }
    }

    /// Starts a program before those that were started already.
    fn start_part(
        &self,
        program: &PreparedProgram,
        ground: &mut Ground<'_>,
    ) -> anyhow::Result<Part> {
        let name = match program.hop.as_str() {
            "" => self.name.clone(),
            hop => format!("{} ({hop})", self.name),
        };
        let folder = ground.workspace.round_folder()?;
        let port = free_port()?;
        let mut placeholders = Placeholders::new(
            port,
            &folder,
            ground.workspace,
            &ground.cpus.server,
            ground.path,
        );
        let behind = self.parts.iter().map(|part| (part.hop.as_str(), part.port));
        placeholders.add_ports(&behind.collect::<Vec<_>>());
        placeholders.write_config(&program.config, &folder)?;
        let arguments = program.arguments.iter();
        let environment = program.environment.iter();
        let birth = Birth {
            identity: ground.workspace.identity.clone(),
            cpus: Some(ground.cpus.server.clone()),
            session: true,
        };
        let file = Program::at(&program.program, ground.workspace.identity.as_ref())?;
        let mut command = Command::new(file.path());
        command
            .args(arguments.map(|argument| placeholders.fill(argument)))
            .env_clear()
            .envs(std::env::vars_os().filter(|(key, _)| KEPT_ENVIRONMENT.iter().any(|k| key == k)))
            .env("HOME", &folder)
            .env("TMPDIR", &folder)
            .envs(environment.map(|(key, value)| (key, placeholders.fill(value))))
            .env(guard::MARK, ground.guard.mark())
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.join(STDERR))?);
        bear(&mut command, &birth);
        let child = command
            .spawn()
            .with_context(|| format!("failed to start {name}"))?;
        Ok(Part {
            name,
            hop: program.hop.clone(),
            port,
            child,
            folder,
        })
    }

    /// Its processes now; none where whoever runs this may not look.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let parts = self.parts.iter().flat_map(Part::pids);
        let Some(target) = &self.live else {
            return parts.collect();
        };
        let roots = capabilities::looking(|| target.to_target().resolve()).unwrap_or_default();
        let pids = roots
            .into_iter()
            .flat_map(|pid| descendants(pid.cast_signed()));
        pids.collect::<BTreeSet<i32>>().into_iter().collect()
    }

    /// Whether it was started here, and so is reached over loopback.
    pub(crate) fn is_ours(&self) -> bool {
        self.live.is_none()
    }

    /// The processes of each hop now; none where it is no chain.
    pub(crate) fn hops(&self) -> Vec<HopProcesses> {
        if self.parts.len() < 2 {
            return Vec::new();
        }
        let parts = self.parts.iter();
        parts
            .map(|part| HopProcesses {
                hop: part.hop.clone(),
                pids: part.pids().into_iter().map(i32::cast_unsigned).collect(),
            })
            .collect()
    }

    /// How the server ended, with its last words; `None` while it lives or where it is not ours.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.parts.iter_mut().find_map(Part::ended)
    }

    /// Ends the server and removes its folders.
    pub(crate) fn stop(mut self, guard: &mut Guard) {
        let leaders: Vec<u32> = self.parts.iter().map(|part| part.child.id()).collect();
        self.parts.drain(..).for_each(end);
        if !leaders.is_empty() {
            // The halves have ended before the server, so whatever else is our child came from it.
            guard::kill_strays(&[guard.pid()]);
        }
        for leader in leaders {
            drop(guard.session_ended(leader));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.parts.drain(..).for_each(end);
    }
}

impl Part {
    fn await_port(&mut self, install: Option<&str>, interrupt: &Interrupt) -> anyhow::Result<()> {
        let port = self.port;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let deadline = Instant::now() + READY_PATIENCE;
        while TcpStream::connect_timeout(&address, READY_PATIENCE).is_err() {
            if let Some(why) = self.ended() {
                let hint = install.map_or_else(String::new, |install| {
                    format!(" (if it is not the usual build: {install})")
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
    fn check_owner(&self) -> anyhow::Result<()> {
        let port = self.port;
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

    fn pids(&self) -> Vec<i32> {
        descendants(self.child.id().cast_signed())
    }

    /// How it ended, with its last words; `None` while it lives.
    fn ended(&mut self) -> Option<String> {
        let status: ExitStatus = self.child.try_wait().ok()??;
        let words = self.last_words();
        Some(format!("{} {}{words}", self.name, describe(status)))
    }

    /// The end of what it wrote to stderr and its error log.
    fn last_words(&self) -> String {
        let mut words = String::new();
        for file in [STDERR, "error.log"] {
            let bytes = fs::read(self.folder.join(file)).unwrap_or_default();
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
}

/// Asks a program to end, then ends its whole session.
fn end(mut started: Part) {
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

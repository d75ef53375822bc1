//! Whether the kernel can be asked, and how: directly, through sudo, or not at all.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use recording::NotMeasured;

use crate::machine::CpuList;
use crate::spawn::{Birth, Program, bear, find_program};

/// How the profiler child gets its privileges.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// This process has them.
    Direct,
    /// Through sudo at this path; `ask` where a terminal can be asked for the password.
    Sudo { sudo: PathBuf, ask: bool },
    /// Not at all, and why.
    Denied(NotMeasured),
}

impl Access {
    /// Finds a way. On a terminal sudo may ask for the password here, before the first round.
    pub(crate) fn find() -> Self {
        if rustix::process::geteuid().is_root() || has_capabilities() {
            return Self::Direct;
        }
        let denied = |why: &str| {
            Self::Denied(NotMeasured {
                what: "system calls per request and every other figure from the kernel".into(),
                why: format!("needs root ({why})"),
                remedy: Some("run with sudo".into()),
            })
        };
        let Some(sudo) = find_program("sudo".as_ref()) else {
            return denied("no sudo here");
        };
        if runs_without_password(&sudo) {
            return Self::Sudo { sudo, ask: false };
        }
        let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if !terminal {
            return denied("sudo wants a password and there is no terminal");
        }
        crate::output::note("sudo is asked for the profiler alone; load and servers stay you");
        let asked = Command::new(&sudo)
            .arg("-v")
            .status()
            .is_ok_and(|status| status.success());
        if asked {
            Self::Sudo { sudo, ask: true }
        } else {
            denied("sudo refused")
        }
    }

    /// The command that starts the profiler child; `None` where there is no way.
    pub(crate) fn profiler(&self, cpus: &CpuList) -> anyhow::Result<Option<Command>> {
        let birth = Birth {
            identity: None,
            cpus: Some(cpus.clone()),
            session: false,
        };
        match self {
            Self::Direct => Ok(Some(Program::own(None)?.privileged_command(&birth))),
            Self::Sudo { sudo, ask } => {
                let mut command = Command::new(sudo);
                if !ask {
                    command.arg("-n");
                }
                command.arg("--").arg(std::env::current_exe()?);
                bear(&mut command, &birth);
                Ok(Some(command))
            }
            Self::Denied(_) => Ok(None),
        }
    }
}

/// Whether sudo runs this very program without asking: a rule may allow it and nothing else.
fn runs_without_password(sudo: &Path) -> bool {
    std::env::current_exe().is_ok_and(|own| {
        Command::new(sudo)
            .args(["-n", "--"])
            .arg(own)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}

/// `CAP_PERFMON` and `CAP_BPF`, as given by setcap or a unit file.
fn has_capabilities() -> bool {
    const NEEDED: u64 = 1 << 38 | 1 << 39;
    procfs::process::Process::myself()
        .and_then(|process| process.status())
        .is_ok_and(|status| status.capprm & NEEDED == NEEDED)
}

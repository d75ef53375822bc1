//! A terminal in memory (tmux), that the binary runs on and keys are pressed at.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::proc::{children, command_line};
use crate::whyfast::until;

/// A terminal of 80 by 24 that is gone when the test ends, however it ends.
pub(crate) struct Terminal {
    folder: TempDir,
}

impl Terminal {
    /// Runs the binary on it. When that has ended, the terminal stays and shows its exit code.
    pub(crate) fn run(arguments: &[&str]) -> Self {
        let terminal = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let quoted: Vec<String> = [env!("CARGO_BIN_EXE_whyfast")]
            .iter()
            .chain(arguments)
            .map(|word| format!("'{}'", word.replace('\'', r"'\''")))
            .collect();
        let errors = terminal.path("stderr");
        let shell = format!(
            "{} 2>'{}'; echo \"exit code $?\"; exec cat",
            quoted.join(" "),
            errors.display()
        );
        terminal.tmux(["new-session", "-d", "-x", "80", "-y", "24", &shell]);
        terminal
    }

    /// A file in a folder of its own.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What it shows.
    pub(crate) fn screen(&self) -> String {
        self.tmux(["capture-pane", "-p"])
    }

    /// What it shows, and what has gone out of sight.
    pub(crate) fn history(&self) -> String {
        self.tmux(["capture-pane", "-p", "-S", "-500"])
    }

    /// Waits until it shows something, and returns all of it.
    pub(crate) fn until(&self, what: &str, is_shown: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        until(what, || {
            screen = self.screen();
            is_shown(&screen)
        });
        screen
    }

    /// Waits for the exit code of the binary; what was printed until then, errors included.
    pub(crate) fn end(&self) -> (String, String) {
        until("the end", || self.history().contains("exit code "));
        let errors = std::fs::read_to_string(self.path("stderr")).unwrap();
        (self.history(), errors)
    }

    /// Presses keys, by the names that tmux has for them.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.tmux([&["send-keys"], keys].concat());
    }

    /// The process of the binary.
    pub(crate) fn pid(&self) -> u32 {
        let shell = self.tmux(["display", "-p", "#{pane_pid}"]);
        let shell: u32 = shell.trim().parse().unwrap();
        let is_binary = |&pid: &u32| {
            let command = command_line(pid);
            command.is_some_and(|words| words[0] == env!("CARGO_BIN_EXE_whyfast"))
        };
        let mut found = None;
        until("the binary", || {
            found = children(shell).into_iter().find(is_binary);
            found.is_some()
        });
        found.unwrap()
    }

    /// Says that the terminal has another size.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        let tty = self.tmux(["display", "-p", "#{pane_tty}"]);
        let status = Command::new("stty")
            .args(["-F", tty.trim(), "rows", &rows.to_string()])
            .args(["cols", &columns.to_string()])
            .status();
        assert!(status.unwrap().success());
    }

    /// Takes the terminal away.
    pub(crate) fn destroy(&self) {
        self.tmux(["kill-server"]);
    }

    fn tmux<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new("tmux");
        command
            .args(["-u", "-f", "/dev/null", "-S"])
            .arg(self.path("socket"))
            .args(arguments)
            .env_remove("TMUX")
            .env_remove("SUDO_UID")
            .env_remove("SUDO_GID");
        command
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have been destroyed.
        drop(self.command(["kill-server"]).output());
    }
}

//! The live screen, on a terminal in memory that is driven by keys.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use recording::Recording;

use crate::missing;
use crate::proc::{state, status_line};
use crate::terminal::Terminal;
use crate::whyfast::{Mortal, until, whyfast};

/// Keys change the screen; at the end the last figures and the report of the whole window stay on the
/// terminal, which is as it was before.
#[test]
fn keys_drive_the_screen() {
    if missing("keys_drive_the_screen", &["tmux"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // A name that would make the rest of the screen red.
    let busy = busy(folder.path(), "\x1b[31mred");
    let pid = busy.0.id().to_string();
    let terminal = Terminal::run(&["profile", "--pid", &pid, "--live", "--by", "process"]);
    let shown = terminal.until("the process", |screen| screen.contains("[31mred"));
    assert!(shown.contains(&format!(" {pid} \\x1b[31mred ")), "{shown}");
    assert!(
        shown.starts_with(&format!(" pid {pid} 1 process ")),
        "{shown}"
    );
    terminal.press(&["Enter"]);
    terminal.until("calls of the process", |screen| {
        screen.contains(" in ") && screen.contains(" read") && screen.contains(" write")
    });
    terminal.press(&["Escape"]);
    terminal.until("the processes", |screen| screen.contains("Enter opens"));
    terminal.press(&["g"]);
    let has = |screen: &str, call: &str| screen.lines().any(|line| line.starts_with(call));
    terminal.until("calls", |screen| {
        has(screen, " read") && has(screen, " write")
    });
    terminal.press(&["/", "W", "r", "i", "t"]);
    terminal.until("the filter", |screen| {
        has(screen, " write") && !has(screen, " read") && screen.contains("filter: Writ_")
    });
    terminal.press(&["Enter", "p"]);
    terminal.until("the pause", |screen| {
        screen.contains("PAUSED") && screen.contains("filter: Writ") && screen.contains("p go on")
    });
    terminal.press(&["p", "Escape", "s"]);
    terminal.until("another order", |screen| {
        screen.contains("s sort: calls/s") && has(screen, " read") && !screen.contains("PAUSED")
    });
    terminal.press(&["?"]);
    terminal.until("the help", |screen| screen.contains("help: any key closes"));
    terminal.press(&["x"]);
    terminal.until("the screen again", |screen| {
        !screen.contains("any key closes")
    });
    terminal.press(&["q"]);
    let (printed, errors) = terminal.end();
    assert_eq!(errors, "");
    assert!(printed.contains("exit code 0"), "{printed}");
    let last_figures = printed
        .find(" calls/s  0 errors/s")
        .expect("the last figures");
    let report = printed.find("\nwindow   ").expect("the report");
    assert!(last_figures < report);
    assert!(!printed.contains("q quit"), "the screen before is back");
}

/// Ctrl-C ends it as `q` does, whatever the size of the terminal was meanwhile.
#[test]
fn survives_every_size() {
    if missing("survives_every_size", &["tmux", "stty"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let busy = busy(folder.path(), "busy");
    let terminal = Terminal::run(&[
        "profile",
        "--pid",
        &busy.0.id().to_string(),
        "--live",
        "--interval",
        "50ms",
    ]);
    let has_figures = |screen: &str| screen.contains("\n read") && screen.contains("? help");
    terminal.until("figures", has_figures);
    let pid = terminal.pid();
    let switches = || -> u64 {
        let line = status_line(pid, "voluntary_ctxt_switches:").unwrap();
        line.parse().unwrap()
    };
    for (rows, columns) in [(0, 0), (1, 1), (0, 80), (24, 0), (2, 300), (24, 80)] {
        terminal.resize(rows, columns);
        // It sleeps once between two looks at the size, after which it draws.
        let before = switches();
        until("many turns", || switches() > before + 10);
    }
    terminal.press(&["?"]);
    terminal.until("the help", |screen| screen.contains("any key closes"));
    terminal.press(&["?"]);
    terminal.until("figures", has_figures);
    terminal.press(&["C-c"]);
    let (printed, errors) = terminal.end();
    assert!(printed.contains("exit code 0"), "{printed}{errors}");
}

/// A target that exits ends it: that is said, and the last figures are left.
#[test]
fn target_that_exits() {
    if missing("target_that_exits", &["tmux"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut busy = busy(folder.path(), "busy");
    let pid = busy.0.id().to_string();
    let terminal = Terminal::run(&["profile", "--pid", &pid, "--live", "--interval", "100ms"]);
    terminal.until("figures", |screen| screen.contains("\n read"));
    busy.0.kill().unwrap();
    busy.0.wait().unwrap();
    let (printed, errors) = terminal.end();
    assert_eq!(errors, "every process of the target has ended\n");
    assert!(printed.contains("exit code 0"), "{printed}");
    assert!(
        printed.contains(" call ") && printed.contains("\nwindow   "),
        "{printed}"
    );
}

/// A terminal that goes away ends it: no process and no program is left, and the result is in the file.
#[test]
fn lost_terminal() {
    if missing("lost_terminal", &["tmux", "bpftool"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let busy = busy(folder.path(), "busy");
    let result = folder.path().join("result.json");
    let terminal = Terminal::run(&[
        "profile",
        "--pid",
        &busy.0.id().to_string(),
        "--live",
        "--format",
        "json",
        "-o",
        result.to_str().unwrap(),
    ]);
    terminal.until("figures", |screen| screen.contains("\n read"));
    let pid = terminal.pid();
    let programs = programs_of(pid);
    assert!(!programs.is_empty());
    terminal.destroy();
    until("the end", || state(pid).is_none());
    until("the detaching", || !programs.iter().any(|id| is_loaded(id)));
    let recording = Recording::parse(&fs::read(&result).unwrap()).unwrap();
    let profile = recording.rounds[0].profile.as_ref().unwrap();
    assert!(
        profile
            .calls
            .iter()
            .any(|call| call.name == "read" && call.count > 0)
    );
    assert_eq!(profile.slices, []);
}

/// Whoever listens on a port ends and another one begins: the screen says so meanwhile, counts on, and
/// the report names the gap.
#[test]
fn target_that_comes_back() {
    if missing("target_that_comes_back", &["tmux"]) {
        return;
    }
    let (server, address) = testserver("127.0.0.1:0");
    let port = address.rsplit_once(':').unwrap().1.to_owned();
    let terminal = Terminal::run(&[
        "profile",
        "--port",
        &port,
        "--wait",
        "--live",
        "--interval",
        "50ms",
    ]);
    let title = format!(" port {port} ");
    terminal.until("the server", |screen| {
        screen.starts_with(&format!("{title}1 process"))
    });
    drop(server);
    terminal.until("its absence", |screen| {
        screen.starts_with(&format!("{title}no process: waiting for it to come back"))
    });
    let (_server, again) = testserver(&address);
    assert_eq!(again, address);
    terminal.until("its return", |screen| {
        screen.starts_with(&format!("{title}1 process"))
    });
    // A request is counted.
    let reply = whyfast()
        .args(["load", &format!("http://{address}/body"), "-n", "50"])
        .output()
        .unwrap();
    assert!(reply.status.success());
    terminal.press(&["q"]);
    let (printed, errors) = terminal.end();
    assert!(printed.contains("exit code 0"), "{printed}{errors}");
    let words: Vec<&str> = printed.split_whitespace().collect();
    let words = words.join(" ");
    assert!(
        words.contains(&format!("port {port} had no process from ")),
        "{printed}"
    );
    assert!(words.contains("it ended and came back"), "{printed}");
    assert!(words.contains("recvfrom"), "{printed}");
}

/// A process that reads and writes without an end.
fn busy(folder: &Path, name: &str) -> Mortal {
    let program = folder.join(name);
    fs::copy("/bin/dd", &program).unwrap();
    let child = Command::new(&program)
        .args(["if=/dev/zero", "of=/dev/null", "bs=1"])
        .stderr(Stdio::null())
        .spawn();
    Mortal(child.unwrap())
}

/// The built-in server, and the address that it listens on.
pub(crate) fn testserver(address: &str) -> (Mortal, String) {
    let mut child = Mortal(
        whyfast()
            .args(["testserver", "--listen", address])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let address = first_line(&mut child.0);
    let address = address.trim().trim_start_matches("http://");
    let address = address.split('/').next().unwrap_or_default().to_owned();
    (child, address)
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    line
}

/// Ids of the programs that a process holds.
fn programs_of(pid: u32) -> Vec<String> {
    let folder = PathBuf::from(format!("/proc/{pid}/fdinfo"));
    let files = fs::read_dir(folder).unwrap().flatten();
    let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    let ids = texts.filter_map(|text| {
        let id = text
            .lines()
            .find_map(|line| line.strip_prefix("prog_id:"))?;
        Some(id.trim().to_owned())
    });
    ids.collect()
}

fn is_loaded(id: &str) -> bool {
    let mut command = Command::new("bpftool");
    let shown = command.args(["prog", "show", "id", id]).output();
    shown.unwrap().status.success()
}

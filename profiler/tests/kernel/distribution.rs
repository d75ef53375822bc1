//! Tests that start programs of a whole distribution (interpreters, shells, git). The virtual machines
//! that try other kernels have none of them, and leave this module out.

use std::path::Path;
use std::process::Command;

use profiler::{Config, Target};
use recording::Detail;

use crate::stacks::{HZ, count, names, stacks};
use crate::strace::count_both;
use crate::workload_process::{Workload, attach};

/// Every row equal, calls and errors, of commands with files, threads, children, pipes and signals.
#[test]
fn same_rows_as_strace() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let numbers: Vec<String> = (0..20_000_u32).rev().map(|n| n.to_string()).collect();
    std::fs::write(path("numbers"), numbers.join("\n")).unwrap();
    std::fs::create_dir(path("repository")).unwrap();
    let repository = path("repository");
    let init = Command::new("git")
        .args(["init", "-q", &repository])
        .status();
    assert!(
        init.is_ok_and(|status| status.success()),
        "git (Debian: package git)"
    );
    std::fs::write(path("repository/file"), "text").unwrap();

    let numbers = path("numbers");
    let threads = "import threading, os; [t.start() or t.join() for t in [threading.Thread(\
                   target=os.listdir, args=('/',)) for _ in range(5)]]";
    let children = "import subprocess; subprocess.run(['/bin/true']); \
                    subprocess.run(['/no/such']) if False else None";
    let pipeline = format!("cat {numbers} | sort -n | head -3; ls /no/such || true");
    let signals = "trap 'echo caught' USR1; kill -USR1 $$; sleep 0.01 & wait";
    let commands: [&[&str]; 20] = [
        &["/bin/cp", &numbers, &path("copy")],
        &["/usr/bin/sort", "--parallel=4", "-n", &numbers],
        &["/usr/bin/python3", "-c", threads],
        &["/usr/bin/git", "-C", &repository, "status"],
        &["/bin/sh", "-c", &pipeline],
        &["/bin/sh", "-c", signals],
        &["/usr/bin/python3", "-c", children],
        &["/usr/bin/find", "/etc", "-name", "*.conf"],
        &["/bin/grep", "-r", "nameserver", "/etc/default"],
        &["/bin/tar", "cf", &path("tar"), &repository],
        &["/bin/gzip", "-k", &numbers],
        &["/usr/bin/wc", "-l", &numbers],
        &["/usr/bin/md5sum", &numbers],
        &[
            "/usr/bin/xargs",
            "-a",
            &numbers,
            "-n",
            "5000",
            "-P",
            "4",
            "/bin/echo",
        ],
        &["/bin/ls", "-lR", "/etc/default"],
        &["/bin/sed", "-i", "s/1/2/", &path("copy")],
        &["/usr/bin/awk", "{ s += $1 } END { print s }", &numbers],
        &[
            "/bin/dd",
            "if=/dev/zero",
            "of=/dev/null",
            "bs=1",
            "count=2000",
        ],
        &["/usr/bin/timeout", "5", "/bin/true"],
        &["/usr/bin/stat", "/no/such/file"],
    ];
    for (index, command) in commands.into_iter().enumerate() {
        let detail = [Detail::Counts, Detail::Times, Detail::Sched][index % 3];
        let (ours, theirs) = count_both(command, detail);
        assert!(ours.contains_key("execve"), "{command:?} ran");
        assert_eq!(ours, theirs, "{command:?}");
    }
}

/// A program with frame pointers and without symbols, in a root folder of its own: its functions are named from
/// the debug file there, its stacks are whole, and its exited process is still named.
#[test]
fn stripped_in_a_root_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::write(root.join("hot.c"), HOT).unwrap();
    let debug = root.join("usr/lib/debug/.build-id/01/23456789abcdef.debug");
    std::fs::create_dir_all(debug.parent().unwrap()).unwrap();
    let flags = [
        "-O1",
        "-fno-omit-frame-pointer",
        "-static",
        "-Wl,--build-id=0x0123456789abcdef",
    ];
    let (program, source) = (root.join("hot"), root.join("hot.c"));
    run(Command::new("gcc")
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(source));
    run(Command::new("objcopy")
        .arg("--only-keep-debug")
        .arg(&program)
        .arg(&debug));
    run(Command::new("strip").arg(&program));
    let mut workload = Workload::spawn(Command::new("chroot").arg(root).arg("/hot"), &[]);
    workload.await_byte();
    let mut config = Config::new([Target::Pid(workload.pid())], Detail::Stacks);
    config.stack_hz = HZ;
    let mut session = attach(config);
    session.open(false).unwrap();
    workload.go();
    workload.await_end();
    let profile = session.close(false).unwrap();
    let stacks = stacks(&profile);
    let all = stacks.on_cpu.count();
    assert!(all > 50, "{all} samples");
    let hot = count(stacks, &stacks.on_cpu, "burn");
    assert!(
        hot * 10 > all * 8,
        "{hot} of {all} samples: {:?}",
        stacks.frames
    );
    let hottest = &stacks.on_cpu.stacks[0];
    let named = names(stacks, hottest);
    assert_eq!(named[named.len() - 2..], ["main", "burn"]);
    assert!(!hottest.ends_early, "{named:?}");
    let module = stacks
        .modules
        .iter()
        .find(|module| module.name == "hot")
        .unwrap();
    assert_eq!(module.build_id.as_deref(), Some("0123456789abcdef"));
    assert_eq!(module.names.as_deref(), Some("debug file by build id"));
    assert!(
        Path::new(&program).exists() && profile.warnings.is_empty(),
        "{:?}",
        profile.warnings
    );
}

fn run(command: &mut Command) {
    let status = command.status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "{command:?} (Debian: gcc, binutils)"
    );
}

/// Says that it is there, waits for a byte, and burns.
const HOT: &str = "#include <unistd.h>\n\
    __attribute__((noinline)) void burn(void) { for (volatile long i = 0; i < 100000; i++); }\n\
    int main(void) { char c = '.'; if (write(1, &c, 1) != 1 || read(0, &c, 1) != 1) return 1;\n\
    for (int i = 0; i < 3000; i++) burn(); return 0; }\n";

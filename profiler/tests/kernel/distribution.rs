//! Tests that start programs of a whole distribution (interpreters, shells, git). The virtual machines
//! that try other kernels have none of them, and leave this module out.

use std::process::Command;

use recording::Detail;

use crate::strace::count_both;

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

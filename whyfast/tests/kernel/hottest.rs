//! The hottest functions of servers under load, against `perf record` in the same time.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use recording::{Detail, FrameSide, Profile, Stacks};
use rustix::process::{Pid, Signal, kill_process};

use crate::missing;
use crate::proc::{children, stat_field};
use crate::servers::start_nginx;
use crate::whyfast::{Mortal, ProfileHalf, until, whyfast};

/// Of Debian's nginx, which has no symbols but those that it exports, and spends most of its time in the kernel.
#[test]
fn hottest_of_nginx() {
    if missing("hottest_of_nginx", &["nginx", "perf"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (nginx, port) = start_nginx(folder.path(), None);
    let [worker] = children(nginx.pid())[..] else {
        panic!("one worker was asked for")
    };
    let (perf, ours) = both(worker, port, folder.path());
    perf.check(&ours);
    let named = |begin: &str| ours.names().any(|name| name.starts_with(begin));
    assert!(named("ngx_http_") && named("tcp_"), "{ours:?}");
}

/// Of Node.js, whose compiler makes the functions that take most of the time, and tells where they are.
#[test]
fn hottest_of_node() {
    if missing("hottest_of_node", &["node", "perf"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("app.js");
    fs::write(&script, APP).unwrap();
    let mut node = Command::new(crate::find("node").unwrap())
        // One function inside of another would have no name.
        .args(["--perf-basic-prof", "--no-turbo-inlining"])
        .arg(&script)
        // It leaves a log where it is started.
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .map(Mortal)
        .unwrap();
    let map = PerfMap(node.0.id());
    let stdout = node.0.stdout.take().expect("stdout is piped");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let port = line.trim().parse().unwrap();
    let (perf, ours) = both(map.0, port, folder.path());
    perf.check(&ours);
    let hottest = ours.by_share();
    assert!(hottest[0].0.starts_with("JS:*checksum "), "{hottest:?}");
    assert!(ours.names().any(|name| name.starts_with("JS:*scramble ")));
}

/// Samples by the function that ran.
#[derive(Debug)]
struct Hot(BTreeMap<String, u64>);

impl Hot {
    fn all(&self) -> f64 {
        self.0.values().sum::<u64>() as f64
    }

    fn share(&self, name: &str) -> f64 {
        self.0.get(name).map_or(0.0, |&samples| samples as f64) / self.all()
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    fn by_share(&self) -> Vec<(&str, f64)> {
        let names = self.0.keys().map(String::as_str);
        let mut shares: Vec<_> = names.map(|name| (name, self.share(name))).collect();
        shares.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        shares
    }

    /// Five standard deviations of the difference of two shares that are the same.
    fn bound(&self, other: &Self, name: &str) -> f64 {
        let (here, there) = (self.all(), other.all());
        let share = (self.share(name) * here + other.share(name) * there) / (here + there);
        5.0 * (share * (1.0 - share) * (1.0 / here + 1.0 / there)).sqrt()
    }

    /// Functions with the largest shares have them in both, and the three hottest here are among the five hottest
    /// there, unless the fifth is as hot as far as the number of samples can tell.
    fn check(&self, other: &Self) {
        assert!(
            self.all() > 800.0 && other.all() > 800.0,
            "{self:?} {other:?}"
        );
        let hottest = self.by_share();
        let fifth = other.by_share()[4].1;
        for (place, &(name, share)) in hottest.iter().take(10).enumerate() {
            if PILES.iter().any(|pile| name.starts_with(pile)) {
                continue;
            }
            let (there, bound) = (other.share(name), self.bound(other, name));
            assert!(
                (share - there).abs() <= bound,
                "{name}: {share} by perf, {there} by whyfast, more than {bound} apart: {hottest:?} {:?}",
                other.by_share()
            );
            assert!(
                place >= 3 || there + bound >= fifth,
                "{name} is not among the hottest: {hottest:?} {:?}",
                other.by_share()
            );
        }
    }
}

/// What perf and whyfast sample of a process while a client keeps it busy.
fn both(pid: u32, port: u16, folder: &Path) -> (Hot, Hot) {
    let url = format!("http://127.0.0.1:{port}/");
    let _load = Mortal(
        whyfast()
            .args(["load", &url, "-c", "8", "-d", "300s", "-o"])
            .arg(folder.join("load"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let target = pid.to_string();
    let mut half = ProfileHalf::attach(&["--pid", &target, "--detail", "stacks", "--stack-hz", HZ]);
    // After that, so that it sees no time without the probes.
    let data = folder.join("perf.data");
    let mut perf = Mortal(
        Command::new("perf")
            .args([
                "record",
                "-a",
                "-g",
                "-e",
                "cpu-clock",
                "-F",
                HZ_OF_PERF,
                "-o",
            ])
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    until("perf to have its events", || has_events(perf.0.id()));
    half.open(false);
    let begun = cpu_ticks(pid);
    until("the server to have worked", || {
        cpu_ticks(pid) - begun >= WORK_TICKS
    });
    let recorder = Pid::from_raw(perf.0.id().cast_signed()).unwrap();
    kill_process(recorder, Signal::INT).unwrap();
    // At once: while perf writes, the server has less of the CPUs.
    let profile = half.close(false);
    until("perf to have written", || {
        perf.0.try_wait().unwrap().is_some()
    });
    let aliases = kernel_aliases();
    (
        by_perf(&data, &target, &aliases),
        by_whyfast(&profile, &aliases),
    )
}

/// User and system time of a process, hundredths of a second.
fn cpu_ticks(pid: u32) -> u64 {
    let field = |index| stat_field(pid, index).unwrap();
    field(11) + field(12)
}

fn has_events(pid: u32) -> bool {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let mut links = fds.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
    links.any(|link| link == Path::new("anon_inode:[perf_event]"))
}

fn by_whyfast(profile: &Profile, aliases: &BTreeMap<String, String>) -> Hot {
    assert_eq!(profile.detail, Detail::Stacks);
    let stacks: &Stacks = profile.stacks.as_ref().unwrap();
    let mut hot = BTreeMap::new();
    for stack in &stacks.on_cpu.stacks {
        let innermost = &stacks.frames[*stack.frames.last().unwrap() as usize];
        let name = innermost.name.as_deref().unwrap_or(UNKNOWN);
        let name = canonical(name, innermost.side == FrameSide::Kernel, aliases);
        *hot.entry(name).or_default() += stack.count;
    }
    Hot(hot)
}

fn by_perf(data: &Path, pid: &str, aliases: &BTreeMap<String, String>) -> Hot {
    let output = Command::new("perf")
        .args(["script", "-F", "ip,sym", "--no-inline", "--pid", pid, "-i"])
        .arg(data)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    let mut hot = BTreeMap::new();
    // Samples are blocks of lines, the innermost function first.
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((address, name)) = line.trim().split_once(' ') else {
            continue;
        };
        let in_kernel = u64::from_str_radix(address, 16).unwrap() >> 63 == 1;
        *hot.entry(canonical(name, in_kernel, aliases)).or_default() += 1;
        while lines.next_if(|line| !line.trim().is_empty()).is_some() {}
    }
    Hot(hot)
}

/// One name for a function that has several, or arguments.
fn canonical(name: &str, in_kernel: bool, aliases: &BTreeMap<String, String>) -> String {
    if in_kernel {
        let of_bpf = name
            .strip_prefix("bpf_prog_")
            .and_then(|name| name.split_once('_'));
        // With the sum of its code, of which each source has another one.
        return match of_bpf {
            Some((_sum, name)) => format!("bpf_prog_{name}"),
            None => aliases.get(name).map_or(name, String::as_str).to_owned(),
        };
    }
    let name = name.split_once('(').map_or(name, |(name, _)| name);
    // A C library has `__GI___write`, `__libc_write` and `write`.
    let begins = ["_", "GI_", "libc_"];
    let mut bare = name;
    while let Some(rest) = begins.iter().find_map(|&begin| bare.strip_prefix(begin)) {
        bare = rest;
    }
    bare.to_owned()
}

/// Of functions of the kernel at the same address, the first name.
fn kernel_aliases() -> BTreeMap<String, String> {
    let table = fs::read_to_string("/proc/kallsyms").unwrap();
    let mut at: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [address, "t" | "T" | "w" | "W", name, ..] = words[..] {
            at.entry(address).or_default().push(name);
        }
    }
    let several = at
        .values()
        .filter_map(|names| Some((names, names.iter().min()?)));
    several
        .flat_map(|(names, first)| {
            names
                .iter()
                .map(|&name| (name.to_owned(), (*first).to_owned()))
        })
        .collect()
}

/// The map of functions that Node.js writes and leaves behind.
struct PerfMap(u32);

impl Drop for PerfMap {
    fn drop(&mut self) {
        drop(fs::remove_file(format!("/tmp/perf-{}.map", self.0)));
    }
}

/// Where interrupts are allowed again: a sample by a clock of software that was due meanwhile is taken there, and
/// of two such clocks that are due at once the second one finds what the first one left.
const PILES: [&str; 2] = ["_raw_spin_unlock_irqrestore", "finish_task_switch"];
/// Two functions, one of them about three times as long as the other.
const APP: &str = "const http = require('http');\n\
    function checksum(rounds) { let sum = 0; for (let i = 0; i < rounds; i++) sum = (sum * 31 + i) | 0; return sum; }\n\
    function scramble(rounds) { let word = 1; for (let i = 0; i < rounds; i++) word = (word ^ (word << 5)) + i | 0; return word; }\n\
    http.createServer((request, response) => response.end(String(checksum(90000) + scramble(30000))))\n\
      .listen(0, '127.0.0.1', function () { console.log(this.address().port); });\n";
/// Both tools' word for code without a name.
const UNKNOWN: &str = "[unknown]";
/// Five times as often as by default, for a fifth of the time. No multiple of each other: one tool would always
/// sample what runs just after the other one interrupted it.
const HZ: &str = "487";
const HZ_OF_PERF: &str = "499";
/// Hundredths of a second: 2,000 samples.
const WORK_TICKS: u64 = 400;

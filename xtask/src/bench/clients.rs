//! Load generators as child processes: what they achieved, and what CPU time and memory they took.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use recording::{Load, Recording};
use rustix::process::{Pid, WaitId, WaitIdOptions};

use crate::command::{self, Guarded};
use crate::cpus;

/// One run of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) requests_per_second: f64,
    /// CPU time of the client process per completed request, µs.
    pub(crate) cpu_us_per_request: f64,
}

impl Run {
    /// Of a client that completed so many requests at that rate.
    pub(crate) fn of((requests, requests_per_second): (f64, f64), cpu_seconds: f64) -> Self {
        Self {
            requests_per_second,
            cpu_us_per_request: cpu_seconds * 1e6 / requests,
        }
    }
}

/// `wrk` with one thread and 64 connections. It names itself only when told to, and a name costs nginx,
/// which looks for browsers in it: so both send the same bytes.
pub(crate) fn wrk(wrk: &Path, cpu: u32, url: &str, seconds: u32) -> Result<Run> {
    let mut command = cpus::pinned(cpu, wrk);
    let duration = format!("-d{seconds}s");
    command.args(["-t1", "-c64", &duration, "-H", USER_AGENT, url]);
    let (output, cpu_seconds) = run(&mut command)?;
    let achieved =
        parse_wrk(&output).with_context(|| format!("failed to understand wrk: {output:?}"))?;
    Ok(Run::of(achieved, cpu_seconds))
}

/// `whyfast load` with one thread and 64 connections.
pub(crate) fn whyfast(whyfast: &Path, cpu: u32, url: &str, seconds: u32) -> Result<Run> {
    let duration = format!("{seconds}s");
    let (run, _load) = load(whyfast, cpu, url, &["-c", "64", "--duration", &duration])?;
    Ok(run)
}

/// `whyfast load` with one thread and these options, and all that it recorded.
pub(crate) fn load(whyfast: &Path, cpu: u32, url: &str, options: &[&str]) -> Result<(Run, Load)> {
    let mut command = cpus::pinned(cpu, whyfast);
    command
        .args(["load", url, "-t", "1", "--format", "json"])
        .args(options);
    let (output, cpu_seconds) = run(&mut command)?;
    let load = parse_load(&output)?;
    Ok((Run::of(achieved(&load), cpu_seconds), load))
}

/// Requests that a load completed, and requests per second.
pub(crate) fn achieved(load: &Load) -> (f64, f64) {
    let requests = load.ledger.ok as f64;
    (requests, requests / load.window.seconds())
}

/// The load in a recording of `whyfast load`; every request has to be ok.
pub(crate) fn parse_load(recording: &str) -> Result<Load> {
    let recording = Recording::parse(recording.as_bytes()).context("whyfast load --format json")?;
    let round = recording.rounds.into_iter().next();
    let load = round.and_then(|round| round.load);
    let load = load.context("whyfast load recorded no load")?;
    ensure!(
        load.ledger.failed_total() == 0,
        "requests failed: {:?}",
        load.ledger.failed
    );
    Ok(load)
}

/// Runs a client to its end and returns what it printed and its CPU time in seconds, that of the
/// whole process from start to end.
pub(crate) fn run(command: &mut Command) -> Result<(String, f64)> {
    let line = command::describe(command);
    let mut child = Guarded::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
    let stdout = child.child.stdout.take().context("stdout is a pipe")?;
    let output = std::io::read_to_string(stdout)?;
    let pid = i32::try_from(child.pid()).ok().and_then(Pid::from_raw);
    let pid = pid.context("a child has a process id")?;
    // Ended but not yet waited for: its times can still be read.
    rustix::process::waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )?;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid()))?;
    let ticks = parse_stat(&stat).with_context(|| format!("failed to understand {stat:?}"))?;
    let status = child.child.wait()?;
    ensure!(status.success(), "{line}: {status}");
    Ok((
        output,
        ticks / rustix::param::clock_ticks_per_second() as f64,
    ))
}

/// Runs a client to its end and returns what it printed and the most memory that it had at a time,
/// MiB.
pub(crate) fn peak_memory(command: &mut Command) -> Result<(String, f64)> {
    let line = command::describe(command);
    let output = tempfile::NamedTempFile::new().context("failed to make a temporary file")?;
    let stdout = output.reopen()?;
    let mut child = Guarded::spawn(command.stdin(Stdio::null()).stdout(stdout))?;
    let status_file = format!("/proc/{}/status", child.pid());
    let mut peak_kib = None;
    let status = loop {
        // The kernel keeps the maximum; it is gone with the process.
        let status = std::fs::read_to_string(&status_file)?;
        peak_kib = parse_peak(&status).or(peak_kib);
        if let Some(status) = child.child.try_wait()? {
            break status;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    ensure!(status.success(), "{line}: {status}");
    let peak_kib = peak_kib.with_context(|| format!("{line}: {status_file} has no VmHWM"))?;
    Ok((std::fs::read_to_string(output.path())?, peak_kib / 1024.0))
}

/// User and kernel time of a process with all its threads, and of the children that it waited for, in
/// clock ticks, from its `/proc/PID/stat`. The name is the only field that may contain anything.
fn parse_stat(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let times = after_name.split_whitespace().skip(11).take(4);
    let times: Vec<f64> = times.map_while(|time| time.parse().ok()).collect();
    (times.len() == 4).then(|| times.iter().sum())
}

/// The largest resident set of a process so far, KiB, from its `/proc/PID/status`.
fn parse_peak(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// Completed requests, and requests per second. A run with errors is not understood.
pub(crate) fn parse_wrk(output: &str) -> Option<(f64, f64)> {
    if output.contains("Socket errors") || output.contains("Non-2xx") {
        return None;
    }
    let requests = output.lines().find_map(|line| {
        let (number, rest) = line.trim().split_once(' ')?;
        rest.starts_with("requests in ")
            .then(|| number.parse().ok())?
    })?;
    let rate = output
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok())?;
    Some((requests, rate))
}

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The name that `whyfast load` gives itself.
const USER_AGENT: &str = concat!("User-Agent: whyfast/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use super::*;

    const WRK: &str = "Running 10s test @ http://172.31.27.125/1
  2 threads and 10000 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    79.34ms  111.40ms   2.09s    87.18%
    Req/Sec    37.19k    14.02k   56.71k    69.89%
  721931 requests in 10.00s, 167.30MB read
Requests/sec:  72162.29
Transfer/sec:     16.72MB
";

    /// Output of wrk; a run with errors is refused.
    #[test]
    fn reads_wrk() {
        assert_eq!(parse_wrk(WRK), Some((721_931.0, 72_162.29)));
        let errors = format!("{WRK}  Socket errors: connect 0, read 0, write 0, timeout 16410\n");
        assert_eq!(parse_wrk(&errors), None);
        assert_eq!(parse_wrk(""), None);
    }

    /// Times stand after the name, whatever is in it.
    #[test]
    fn reads_stat() {
        let stat = "7 (a) b (c) Z 1 2 3 4 5 6 7 8 9 10 250 50 7 3 20 0";
        assert_eq!(parse_stat(stat), Some(310.0));
        assert_eq!(parse_stat("7 (a) Z 1"), None);
    }

    /// The peak of a process; one that has ended has none.
    #[test]
    fn reads_peaks() {
        let status = "Name:\twrk\nVmPeak:\t   60000 kB\nVmHWM:\t   51804 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(parse_peak(status), Some(51_804.0));
        assert_eq!(parse_peak("Name:\twrk\nState:\tZ (zombie)\n"), None);
    }
}

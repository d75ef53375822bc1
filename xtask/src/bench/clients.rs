//! Load generators as child processes: what they achieved, and what CPU time they took.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use recording::Recording;
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

/// `wrk` with one thread and 64 connections.
pub(crate) fn wrk(wrk: &Path, cpu: u32, url: &str, seconds: u32) -> Result<Run> {
    let mut command = cpus::pinned(cpu, wrk);
    command.args(["-t1", "-c64", &format!("-d{seconds}s"), url]);
    let (output, cpu_seconds) = run(&mut command)?;
    let (requests, requests_per_second) =
        parse_wrk(&output).with_context(|| format!("failed to understand wrk: {output:?}"))?;
    Ok(Run {
        requests_per_second,
        cpu_us_per_request: cpu_seconds * 1e6 / requests,
    })
}

/// `whyfast load` with one thread and 64 connections.
pub(crate) fn whyfast(whyfast: &Path, cpu: u32, url: &str, seconds: u32) -> Result<Run> {
    let mut command = cpus::pinned(cpu, whyfast);
    command.args(["load", url, "-t", "1", "-c", "64", "--format", "json"]);
    command.args(["--duration", &format!("{seconds}s")]);
    let (output, cpu_seconds) = run(&mut command)?;
    let recording = Recording::parse(output.as_bytes()).context("whyfast load --format json")?;
    let load = recording
        .rounds
        .first()
        .and_then(|round| round.load.as_ref())
        .context("whyfast load recorded no load")?;
    ensure!(
        load.ledger.failed_total() == 0,
        "requests failed: {:?}",
        load.ledger.failed
    );
    let requests = load.ledger.ok as f64;
    Ok(Run {
        requests_per_second: requests / load.window.seconds(),
        cpu_us_per_request: cpu_seconds * 1e6 / requests,
    })
}

/// Runs a client to its end and returns what it printed and its CPU time in seconds, that of the
/// whole process from start to end.
fn run(command: &mut Command) -> Result<(String, f64)> {
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

/// User and kernel time of a process with all its threads, in clock ticks, from its
/// `/proc/PID/stat`. The name is the only field that may contain anything.
fn parse_stat(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Completed requests, and requests per second. A run with errors is not understood.
fn parse_wrk(output: &str) -> Option<(f64, f64)> {
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
        let stat = "7 (a) b (c) Z 1 2 3 4 5 6 7 8 9 10 250 50 0 0";
        assert_eq!(parse_stat(stat), Some(300.0));
        assert_eq!(parse_stat("7 (a) Z 1"), None);
    }
}

//! `bench load`: what our load generator takes, against others on the same server.
//!
//! Each row is a kind of load, in which all clients take their turns on one CPU; CPU times are those
//! of whole processes, start included.

mod h2load;
mod oha;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::clients::{self, Run};
use super::report::{Bound, Report};
use super::servers::{Secure, Server};
use super::{Setting, cpus, rotated};
use crate::{command, tree};

pub(crate) fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    raise_descriptor_limit();
    let server = Server::start_for_load(setting)?;
    let bench = Bench {
        setting,
        server: &server,
        wrk: found("wrk", "wrk", report),
        h2load: found("h2load", "nghttp2-client", report),
    };
    bench.http1(report)?;
    bench.progress(report)?;
    match &server.secure {
        Some(secure) => {
            bench.http2(secure, report)?;
            bench.handshakes(secure, report)?;
        }
        None => report.not_measured(
            "TLS",
            "it takes nginx and openssl, which are not both installed",
            "apt-get install nginx openssl",
        ),
    }
    bench.memory(report)
}

/// What every row works with.
struct Bench<'a> {
    setting: &'a Setting,
    server: &'a Server,
    wrk: Option<PathBuf>,
    h2load: Option<PathBuf>,
}

/// A client, as it runs in one repetition.
struct Arm<'a> {
    name: &'static str,
    run: Box<dyn Fn() -> Result<Run> + 'a>,
}

/// The values of each arm, in the order of the repetitions.
#[derive(Debug, Default)]
struct Values {
    cpu: BTreeMap<&'static str, Vec<f64>>,
    rate: BTreeMap<&'static str, Vec<f64>>,
}

impl Bench<'_> {
    /// 64 connections that ask for one byte as fast as they can.
    fn http1(&self, report: &mut Report) -> Result<()> {
        let Setting { client_cpu, .. } = *self.setting;
        let url = &self.server.url;
        let oha = oha::install(&tree::root());
        let mut arms = vec![arm(OURS, || {
            clients::whyfast(&self.setting.whyfast, client_cpu, url, SECONDS)
        })];
        if let Some(wrk) = &self.wrk {
            arms.push(arm(WRK, move || {
                clients::wrk(wrk, client_cpu, url, SECONDS)
            }));
        }
        match &oha {
            Ok(oha) => {
                report.took_part(oha::NAME_AND_VERSION);
                arms.push(arm(OHA, move || oha::run(oha, client_cpu, url, SECONDS)));
            }
            Err(why) => report.not_measured(
                "HTTP/1.1 against oha",
                format!("{why:#}"),
                "cargo install oha, with a way to crates.io",
            ),
        }
        let values = self.repeat("HTTP/1.1", &arms, report)?;
        values.report_rates("HTTP/1.1", report);
        report.limit(
            "HTTP/1.1, CPU, whyfast / wrk",
            values.cpu(WRK),
            Bound::AtMost,
            0.8,
        );
        report.limit(
            "HTTP/1.1, CPU, whyfast / oha",
            values.cpu(OHA),
            Bound::AtMost,
            0.7,
        );
        let rates = values.rate(WRK);
        report.limit(
            "HTTP/1.1, throughput, whyfast / wrk",
            rates,
            Bound::AtLeast,
            1.0,
        );
        Ok(())
    }

    /// The same load with its progress on a terminal and without.
    fn progress(&self, report: &mut Report) -> Result<()> {
        let Some(script) = command::find("script", &[]) else {
            let remedy = "apt-get install bsdutils";
            report.not_measured("displaying progress", "script is not installed", remedy);
            return Ok(());
        };
        let shown = |redirection| self.on_terminal(&script, redirection);
        let arms = [
            arm(SHOWN, move || shown("")),
            arm(HIDDEN, move || shown(" 2>/dev/null")),
        ];
        let values = self.repeat("progress", &arms, report)?;
        values.report_rates("progress", report);
        report.limit(
            "throughput, progress shown / not shown",
            (values.rate_of(SHOWN), values.rate_of(HIDDEN)),
            Bound::AtLeast,
            0.99,
        );
        Ok(())
    }

    /// A load whose stderr is a terminal, where it is not redirected.
    fn on_terminal(&self, script: &Path, redirection: &str) -> Result<Run> {
        let folder = tempfile::tempdir().context("failed to make a temporary folder")?;
        let file = folder.path().join("load.json");
        let mut load = Command::new(&self.setting.whyfast);
        load.args([
            "load",
            &self.server.url,
            "-t",
            "1",
            "-c",
            "64",
            "--duration",
        ])
        .args([&format!("{SECONDS}s"), "--format", "json", "-o"])
        .arg(&file);
        let mut command = cpus::pinned(self.setting.client_cpu, script);
        command
            .args(["--quiet", "--return", "--command"])
            .arg(command::describe(&load) + redirection)
            .arg("/dev/null");
        let (_shown, cpu_seconds) = clients::run(&mut command)?;
        let recording = std::fs::read_to_string(&file)?;
        let load = clients::parse_load(&recording)?;
        Ok(Run::of(clients::achieved(&load), cpu_seconds))
    }

    /// HTTP/2 over TLS, 10 connections with 32 streams.
    fn http2(&self, secure: &Secure, report: &mut Report) -> Result<()> {
        let Some(h2load) = &self.h2load else {
            return Ok(());
        };
        let seconds = SECONDS.to_string();
        let duration = format!("{SECONDS}s");
        let cpu = self.setting.client_cpu;
        let theirs = ["-c10", "-m32", "-D", &seconds];
        let ours = [
            "--h2",
            "-c",
            "10",
            "-m",
            "32",
            "-k",
            "--duration",
            &duration,
        ];
        let arms = [
            arm(OURS, || self.secured(&secure.url, &ours)),
            arm(H2LOAD, || h2load::run(h2load, cpu, &secure.url, &theirs)),
        ];
        let values = self.repeat("HTTP/2 over TLS", &arms, report)?;
        values.report_rates("HTTP/2 over TLS", report);
        let name = "HTTP/2 over TLS, CPU, whyfast / h2load";
        report.limit(name, values.cpu(H2LOAD), Bound::AtMost, 0.7);
        let name = "HTTP/2 over TLS, throughput, whyfast / h2load";
        report.limit(name, values.rate(H2LOAD), Bound::AtLeast, 1.0);
        Ok(())
    }

    /// As many connections as requests, all begun at once, each with a full handshake. h2load resumes
    /// the session of a client that connects again, so it has as many clients as well. Rates are not
    /// compared: the window of ours leaves out a part of the handshakes.
    fn handshakes(&self, secure: &Secure, report: &mut Report) -> Result<()> {
        let Some(h2load) = &self.h2load else {
            return Ok(());
        };
        let count = HANDSHAKES.to_string();
        let authority = secure.certificate.display().to_string();
        let cpu = self.setting.client_cpu;
        let theirs = ["--h1", "-c", &count, "-n", &count];
        let once = ["-c", &count, "-n", &count, "--requests-per-connection", "1"];
        let trusting = [&once[..], &["-k"]].concat();
        let verifying = [&once[..], &["--cacert", &authority]].concat();
        let arms = [
            arm(OURS, || self.secured(&secure.url, &trusting)),
            arm(VERIFYING, || self.secured(&secure.url, &verifying)),
            arm(H2LOAD, || h2load::run(h2load, cpu, &secure.url, &theirs)),
        ];
        let values = self.repeat("TLS 1.3 handshake", &arms, report)?;
        let name = "TLS 1.3 handshake, CPU, whyfast / h2load";
        report.limit(name, values.cpu(H2LOAD), Bound::AtMost, 0.6);
        Ok(())
    }

    /// `whyfast load` with what both sides of TLS are pinned to; no session may have been resumed.
    fn secured(&self, url: &str, options: &[&str]) -> Result<Run> {
        let pinned = ["--tls-min", "1.3", "--groups", GROUP, "--ciphers", CIPHER];
        let options = [&pinned[..], options].concat();
        let cpu = self.setting.client_cpu;
        let (run, load) = clients::load(&self.setting.whyfast, cpu, url, &options)?;
        let tls = load.tls.context("whyfast load recorded no TLS")?;
        ensure!(
            tls.resumed_handshakes == 0 && tls.failed_handshakes == 0,
            "{} handshakes were resumed and {} failed",
            tls.resumed_handshakes,
            tls.failed_handshakes
        );
        Ok(run)
    }

    /// Many connections that ask now and then.
    fn memory(&self, report: &mut Report) -> Result<()> {
        let Some(wrk) = &self.wrk else {
            return Ok(());
        };
        let name = format!("memory of {IDLE} connections");
        let room = getrlimit(Resource::Nofile).current;
        if self.server.addresses.is_empty() || room.is_some_and(|room| room < IDLE + 1000) {
            let why = format!("it takes nginx and {} descriptors", IDLE + 1000);
            report.not_measured(&name, why, "apt-get install nginx; ulimit -n 20000");
            return Ok(());
        }
        let folder = tempfile::tempdir().context("failed to make a temporary folder")?;
        let script = folder.path().join("idle.lua");
        std::fs::write(&script, format!("function delay() return {IDLE_MS} end\n"))?;
        let connections = IDLE.to_string();
        let mut peak: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for repetition in 0..self.setting.repetitions {
            for client in rotated(&[OURS, WRK], repetition) {
                // Every address has ports of its own, which are taken for a while.
                let turn = peak.values().map(Vec::len).sum::<usize>();
                let url = &self.server.addresses[turn % self.server.addresses.len()];
                let is_ours = client == OURS;
                let program = if is_ours { &self.setting.whyfast } else { wrk };
                let mut command = cpus::pinned(self.setting.client_cpu, program);
                let think = format!("{IDLE_MS}ms");
                if is_ours {
                    command.args([
                        "load",
                        url,
                        "-t",
                        "1",
                        "-c",
                        &connections,
                        "--think",
                        &think,
                    ]);
                    command.args(["--duration", "4s", "--format", "json"]);
                } else {
                    command.args(["-t1", "-d4s", "-c", &connections, "-s"]);
                    command.arg(&script).arg(url);
                }
                let (output, mib) = clients::peak_memory(&mut command)?;
                let answered = if is_ours {
                    clients::achieved(&clients::parse_load(&output)?).0
                } else {
                    let achieved = clients::parse_wrk(&output);
                    achieved.with_context(|| format!("wrk: {output:?}"))?.0
                };
                ensure!(answered > 0.0, "{client} answered nothing: {output:?}");
                eprintln!("{repetition}: {name}, {client}: {mib:.1} MiB");
                peak.entry(client).or_default().push(mib);
            }
        }
        for (client, values) in &peak {
            report.figure(format!("{name}, {client}"), "MiB", values.clone());
        }
        let sides = (&peak[OURS][..], &peak[WRK][..]);
        report.limit(&format!("{name}, whyfast / wrk"), sides, Bound::AtMost, 1.0);
        Ok(())
    }

    /// Runs all arms in every repetition.
    fn repeat(&self, row: &str, arms: &[Arm<'_>], report: &mut Report) -> Result<Values> {
        let mut values = Values::default();
        let order: Vec<&Arm<'_>> = arms.iter().collect();
        for repetition in 0..self.setting.repetitions {
            for arm in rotated(&order, repetition) {
                let run = (arm.run)().with_context(|| format!("{row}, {}", arm.name))?;
                eprintln!(
                    "{repetition}: {row}, {}: {:.2} µs/request, {:.0} requests/s",
                    arm.name, run.cpu_us_per_request, run.requests_per_second
                );
                let (cpu, rate) = (run.cpu_us_per_request, run.requests_per_second);
                values.cpu.entry(arm.name).or_default().push(cpu);
                values.rate.entry(arm.name).or_default().push(rate);
            }
        }
        for (arm, cpu) in &values.cpu {
            report.figure(format!("{row}, {arm}"), "µs of CPU/request", cpu.clone());
        }
        Ok(values)
    }
}

impl Values {
    /// CPU times of ours and of another; empty where that did not run.
    fn cpu(&self, other: &str) -> (&[f64], &[f64]) {
        let of = |arm: &str| self.cpu.get(arm).map_or(&[][..], Vec::as_slice);
        (of(OURS), of(other))
    }

    /// Adds the rates of all arms, where all count over the same time.
    fn report_rates(&self, row: &str, report: &mut Report) {
        for (arm, rate) in &self.rate {
            report.figure(format!("{row}, {arm}"), "requests/s", rate.clone());
        }
    }

    /// Rates of ours and of another; empty where that did not run.
    fn rate(&self, other: &str) -> (&[f64], &[f64]) {
        (self.rate_of(OURS), self.rate_of(other))
    }

    fn rate_of(&self, arm: &str) -> &[f64] {
        self.rate.get(arm).map_or(&[], Vec::as_slice)
    }
}

fn arm<'a>(name: &'static str, run: impl Fn() -> Result<Run> + 'a) -> Arm<'a> {
    Arm {
        name,
        run: Box::new(run),
    }
}

/// A program of a package; says so where it is missing.
fn found(program: &str, package: &str, report: &mut Report) -> Option<PathBuf> {
    let path = command::find(program, &[]);
    if path.is_none() {
        let why = format!("{program} is not installed");
        let remedy = format!("apt-get install {package}");
        report.not_measured(&format!("what is held against {program}"), why, &remedy);
    }
    path
}

/// Takes as many descriptors as this process may have, for its children too.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // What is missing then is said by the row that needs it.
    let _unchanged = setrlimit(Resource::Nofile, limit);
}

const OURS: &str = "whyfast";
const VERIFYING: &str = "whyfast verifying";
const WRK: &str = "wrk";
const OHA: &str = "oha";
const H2LOAD: &str = "h2load";
const SHOWN: &str = "shown";
const HIDDEN: &str = "not shown";
/// What every session of TLS is pinned to, on both sides.
const VERSION: &str = "TLSv1.3";
const CIPHER: &str = "TLS_AES_128_GCM_SHA256";
const GROUP: &str = "X25519";
/// Long against the clock tick that the client's CPU time is exact to.
const SECONDS: u32 = 3;
/// As long as a second of CPU time, for the same reason.
const HANDSHAKES: u32 = 3000;
/// Connections that do nearly nothing, and the time between two requests of each.
const IDLE: u64 = 10_000;
const IDLE_MS: u32 = 2000;

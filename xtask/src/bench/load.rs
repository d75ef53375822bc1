//! `bench load`: CPU time of our load generator per request, against wrk on the same server.

use std::collections::BTreeMap;

use anyhow::Result;

use super::report::{Bound, Report};
use super::servers::Server;
use super::{Setting, clients, rotated};
use crate::command;

pub(crate) fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let Some(wrk) = command::find("wrk", &[]) else {
        let remedy = "apt-get install wrk";
        report.not_measured("load against wrk", "wrk is not installed", remedy);
        return Ok(());
    };
    let server = Server::start(setting)?;
    let mut cpu: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut rate: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for repetition in 0..setting.repetitions {
        for client in rotated(&[OURS, THEIRS], repetition) {
            let run = if client == OURS {
                clients::whyfast(&setting.whyfast, setting.client_cpu, &server.url, SECONDS)?
            } else {
                clients::wrk(&wrk, setting.client_cpu, &server.url, SECONDS)?
            };
            eprintln!(
                "{repetition}: {client}: {:.2} µs/request, {:.0} requests/s",
                run.cpu_us_per_request, run.requests_per_second
            );
            cpu.entry(client).or_default().push(run.cpu_us_per_request);
            rate.entry(client)
                .or_default()
                .push(run.requests_per_second);
        }
    }
    let name = |client: &str| format!("{}, {client}", server.name);
    for (client, values) in &cpu {
        report.figure(name(client), "µs of client CPU/request", values.clone());
    }
    for (client, values) in &rate {
        report.figure(name(client), "requests/s", values.clone());
    }
    report.limit(
        "client CPU, whyfast load / wrk",
        (&cpu[OURS], &cpu[THEIRS]),
        Bound::AtMost,
        0.9,
    );
    Ok(())
}

const OURS: &str = "whyfast load";
const THEIRS: &str = "wrk";
/// Long against the clock tick that the client's CPU time is exact to.
const SECONDS: u32 = 3;

//! `whyfast doctor`: what this machine can measure, and the remedy for what it cannot.

mod kernel;

use std::fmt::Write as _;
use std::fs;

use recording::{Host, exit_code};
use serde::Serialize;

use crate::args::{DoctorArgs, Format};
use crate::compare::cookbook::Cookbook;
use crate::machine::{self, CpuList, cores, split_cpus};
use crate::output::Output;
use crate::spawn::find_program;

/// Everything that was looked at.
#[derive(Debug, Serialize)]
struct Examination {
    host: Host,
    checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    what: String,
    outcome: Outcome,
    found: String,
    /// What to do; `null` where there is nothing to do.
    remedy: Option<String>,
}

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Ok,
    /// Works, less well.
    Warn,
    /// Cannot be measured.
    Missing,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Missing => "MISSING",
        }
    }
}

/// Examines the machine. Exits with 6 where the kernel cannot be profiled.
pub(crate) fn doctor(args: &DoctorArgs) -> anyhow::Result<u8> {
    let output = Output::open(args.output.output.as_deref())?;
    let mut checks = kernel::checks();
    checks.extend([cpus(), clocksource(), governor(), descriptors(), ports()]);
    let cookbook = Cookbook::built_in();
    let names = cookbook.names().into_iter();
    checks.extend(names.filter_map(|name| server(&cookbook, name).ok()));
    let examination = Examination {
        host: machine::host(),
        checks,
    };
    let text = match args.output.format {
        Format::Html => as_html(&examination),
        Format::Json => serde_json::to_string_pretty(&examination)? + "\n",
        Format::Text => as_text(&examination)?,
        Format::Markdown => as_markdown(&examination)?,
    };
    output.write(&text)?;
    let can = examination.checks[0].outcome == Outcome::Ok;
    Ok(if can {
        exit_code::DONE
    } else {
        exit_code::CANNOT_MEASURE
    })
}

fn as_text(examination: &Examination) -> anyhow::Result<String> {
    let host = &examination.host;
    let mut text = format!(
        "{} {}, {} CPUs{}\n\n",
        host.kernel,
        host.arch,
        host.cpus,
        host.cpu_model
            .as_ref()
            .map_or_else(String::new, |m| format!(", {}", reports::clean(m)))
    );
    for check in &examination.checks {
        let mark = check.outcome.word();
        writeln!(
            text,
            "{mark:<8} {}: {}",
            check.what,
            reports::clean(&check.found)
        )?;
        if let Some(remedy) = &check.remedy {
            writeln!(text, "{:<8} -> {remedy}", "")?;
        }
    }
    Ok(text)
}

fn as_html(examination: &Examination) -> String {
    let rows: Vec<[&str; 4]> = examination
        .checks
        .iter()
        .map(|check| {
            let remedy = check.remedy.as_deref().unwrap_or("");
            [&check.what, check.outcome.word(), &check.found, remedy]
        })
        .collect();
    reports::html::table(
        "doctor",
        &examination.host.hostname,
        ["check", "outcome", "found", "remedy"],
        &rows,
    )
}

fn as_markdown(examination: &Examination) -> anyhow::Result<String> {
    let mut text = String::from("| check | outcome | found | remedy |\n|---|---|---|---|\n");
    for check in &examination.checks {
        let cell = |text: &str| {
            reports::clean(text)
                .replace('|', "\\|")
                .replace('<', "&lt;")
        };
        writeln!(
            text,
            "| {} | {} | {} | {} |",
            cell(&check.what),
            check.outcome.word(),
            cell(&check.found),
            cell(check.remedy.as_deref().unwrap_or(""))
        )?;
    }
    Ok(text)
}

fn check(what: &str, outcome: Outcome, found: impl Into<String>, remedy: Option<&str>) -> Check {
    Check {
        what: what.into(),
        outcome,
        found: found.into(),
        remedy: remedy.map(str::to_owned),
    }
}

fn cpus() -> Check {
    let Ok(allowed) = CpuList::allowed() else {
        return check(
            "CPUs",
            Outcome::Warn,
            "the affinity mask cannot be read",
            None,
        );
    };
    let split = split_cpus(&cores(&allowed));
    let found = format!("servers on {}, client on {}", split.server, split.client);
    if split.disjoint {
        check("CPUs", Outcome::Ok, found, None)
    } else {
        let remedy = "give this machine a second CPU; until then compare CPU per request";
        check("CPUs", Outcome::Warn, found, Some(remedy))
    }
}

fn clocksource() -> Check {
    let host = machine::host();
    match host.clocksource.as_deref() {
        Some(
            source @ ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page"),
        ) => check("clock source", Outcome::Ok, source, None),
        Some(source) => check(
            "clock source",
            Outcome::Warn,
            format!("{source}: reading the clock is a system call here"),
            Some("boot with clocksource=tsc where the CPU has an invariant TSC"),
        ),
        None => check("clock source", Outcome::Warn, "unknown", None),
    }
}

fn governor() -> Check {
    match machine::host().governor.as_deref() {
        Some("performance") | None => {
            let found = machine::host()
                .governor
                .unwrap_or_else(|| "none (not ours to set)".into());
            check("frequency governor", Outcome::Ok, found, None)
        }
        Some(other) => check(
            "frequency governor",
            Outcome::Warn,
            format!("{other}: the frequency changes during rounds"),
            Some("cpupower frequency-set -g performance"),
        ),
    }
}

fn descriptors() -> Check {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    match limit.maximum {
        Some(maximum) if maximum < 16_384 => check(
            "open files",
            Outcome::Warn,
            format!("at most {maximum} per process, so at most about as many connections"),
            Some("ulimit -Hn 1048576, or LimitNOFILE= in the unit file"),
        ),
        maximum => check(
            "open files",
            Outcome::Ok,
            maximum.map_or_else(|| "unlimited".into(), |maximum| maximum.to_string()),
            None,
        ),
    }
}

fn ports() -> Check {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut bounds = text
        .split_whitespace()
        .filter_map(|bound| bound.parse::<u32>().ok());
    let (Some(low), Some(high)) = (bounds.next(), bounds.next()) else {
        return check(
            "local ports",
            Outcome::Warn,
            "the range cannot be read",
            None,
        );
    };
    let count = high.saturating_sub(low) + 1;
    let found = format!("{low} to {high}: {count} connections to one address");
    if count < 20_000 {
        let remedy = "sysctl net.ipv4.ip_local_port_range=\"10000 65535\"";
        check("local ports", Outcome::Warn, found, Some(remedy))
    } else {
        check("local ports", Outcome::Ok, found, None)
    }
}

fn server(cookbook: &Cookbook, name: &str) -> anyhow::Result<Check> {
    let what = format!("recipe {name}");
    Ok(match cookbook.lacks(name)? {
        None => {
            let programs = cookbook.programs(name)?;
            let paths: Vec<String> = programs
                .iter()
                .filter_map(|recipe| find_program(recipe.program.as_ref()))
                .map(|path| path.display().to_string())
                .collect();
            check(&what, Outcome::Ok, paths.join(", "), None)
        }
        Some(lacks) => check(&what, Outcome::Warn, "not usable yet", Some(&lacks)),
    })
}

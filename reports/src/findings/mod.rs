//! Findings: rules over the evidence of one arm, each with the numbers that triggered it.
//!
//! It owns the rules, one file per family, and how sure a finding may be. A finding never says more
//! than was measured: a cost that was not timed is `null`, and what the counters cannot see is a
//! caveat.

mod advice;
mod connections;
mod event_loop;
mod facts;
mod files;
mod runtime;
mod sending;
mod threads;

use recording::{Confidence, Detail, Finding, FindingNumber, Recording};

use advice::{Advice, Server};
use facts::Facts;

/// Every finding of every arm, dearest first, then the surest.
pub fn find(recording: &Recording) -> Vec<Finding> {
    let mut findings: Vec<Finding> = recording
        .arms
        .iter()
        .filter_map(|arm| Facts::of(recording, arm))
        .flat_map(|facts| of_arm(&facts))
        .collect();
    let cost = |finding: &Finding| finding.cost_ns_per_request.unwrap_or(0.0);
    findings.sort_by(|x, y| {
        let dearest = cost(y).total_cmp(&cost(x));
        dearest.then(y.confidence.cmp(&x.confidence))
    });
    findings
}

/// The identifiers of all rules, with what each is about.
pub fn rules() -> Vec<(&'static str, &'static str)> {
    FAMILIES
        .iter()
        .flat_map(|family| family.iter())
        .map(|rule| (rule.id, rule.about))
        .collect()
}

/// What rules advise for the servers that they know: the rule, the server, and what to change there.
/// Words of a configuration stand between backquotes.
pub fn advice() -> Vec<(&'static str, &'static str, &'static str)> {
    let rules = FAMILIES.iter().flat_map(|family| family.iter());
    rules
        .flat_map(|rule| {
            let servers = rule.advice.servers.iter();
            servers.map(|(server, change)| (rule.id, server.name(), *change))
        })
        .collect()
}

/// One rule.
struct Rule {
    id: &'static str,
    /// What it is about, in one line.
    about: &'static str,
    /// The likely cause of what it finds.
    cause: &'static str,
    advice: Advice,
    check: fn(&Facts<'_>) -> Option<Found>,
}

/// What a rule found.
struct Found {
    title: String,
    numbers: Vec<FindingNumber>,
    cost_ns: Option<f64>,
    calls: Vec<String>,
    /// As sure as the pattern alone can be.
    confidence: Confidence,
    caveat: String,
}

fn of_arm(facts: &Facts<'_>) -> Vec<Finding> {
    let comms: Vec<&str> = facts
        .profiles()
        .flat_map(|profile| &profile.processes)
        .filter_map(|process| process.comm.as_deref())
        .collect();
    let server = Server::of(facts.arm, &comms);
    let rules = FAMILIES.iter().flat_map(|family| family.iter());
    rules
        .filter_map(|rule| {
            let found = (rule.check)(facts)?;
            Some(finding(facts, rule, server, found))
        })
        .collect()
}

fn finding(facts: &Facts<'_>, rule: &Rule, server: Server, found: Found) -> Finding {
    let mut caveats = vec![found.caveat];
    let mut confidence = found.confidence;
    if found.cost_ns.is_some() && facts.detail < Detail::Sched {
        confidence = confidence.min(Confidence::Likely);
        caveats.push("the cost is wall time inside the calls".to_owned());
    }
    if found.cost_ns.is_none() && !found.calls.is_empty() {
        confidence = confidence.min(Confidence::Likely);
    }
    if !facts.is_solid() {
        confidence = Confidence::Possible;
        caveats.push("few requests, or events were lost".to_owned());
    }
    caveats.retain(|caveat| !caveat.is_empty());
    Finding {
        id: rule.id.to_owned(),
        arm: facts.arm.name.clone(),
        title: found.title,
        evidence: found.numbers,
        cost_ns_per_request: found.cost_ns,
        calls: found.calls,
        cause: rule.cause.to_owned(),
        change: rule.advice.for_server(server).to_owned(),
        confidence,
        caveat: caveats.join("; "),
    }
}

/// A number with the limit that it passed.
fn number(name: &str, value: f64, limit: f64) -> FindingNumber {
    FindingNumber {
        name: name.to_owned(),
        value,
        limit: Some(limit),
        unit: String::new(),
    }
}

/// A number that explains.
fn detail(name: &str, value: f64, unit: &str) -> FindingNumber {
    FindingNumber {
        name: name.to_owned(),
        value,
        limit: None,
        unit: unit.to_owned(),
    }
}

const FAMILIES: [&[Rule]; 6] = [
    &connections::RULES,
    &event_loop::RULES,
    &files::RULES,
    &runtime::RULES,
    &sending::RULES,
    &threads::RULES,
];

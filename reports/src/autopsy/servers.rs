//! Blocks into servers, and servers into ratios.

use std::collections::{BTreeMap, HashMap, HashSet};

use recording::{ExaminedRatio, ExaminedServer, ForeignLoad, Unread};

use super::lines::Lines;
use super::tool::{self, Block};
use super::{Source, heading, settings};
use crate::statistics::unpaired_ratio;

/// A block with what stands around it.
#[derive(Debug)]
struct Placed {
    block: Block,
    heading: Option<String>,
    address: Option<String>,
    /// Which of the sources.
    source: usize,
}

/// All servers of the sources, and the blocks that could not be read.
pub(super) fn find(sources: &[Source<'_>]) -> (Vec<ExaminedServer>, Vec<Unread>) {
    let mut placed = Vec::new();
    let mut unread = Vec::new();
    let texts: Vec<Lines<'_>> = sources
        .iter()
        .map(|source| Lines::of(source.text))
        .collect();
    for (source, lines) in texts.iter().enumerate() {
        scan(lines, source, &mut placed, &mut unread);
    }
    let names = names(&placed, &texts, sources);
    let mut servers: Vec<ExaminedServer> = Vec::new();
    for (placed, name) in placed.into_iter().zip(names) {
        let known = servers.iter().position(|server| server.name == name);
        let at = known.unwrap_or_else(|| {
            servers.push(ExaminedServer {
                name,
                loads: Vec::new(),
                calls: Vec::new(),
                settings: BTreeMap::new(),
            });
            servers.len() - 1
        });
        match placed.block {
            Block::Load(load) => servers[at].loads.push(*load),
            Block::Calls(table) => servers[at].calls.push(table),
        }
    }
    for lines in &texts {
        for (word, found) in settings::read(lines) {
            let owners = servers.iter_mut().filter(|server| {
                // A chain of servers has the settings of each.
                heading::names_in(&server.name).any(|(_, name)| name == word)
            });
            for server in owners {
                server.settings.extend(found.clone());
            }
        }
    }
    (servers, unread)
}

/// Every server against the first, for each load that both got.
pub(super) fn ratios(servers: &[ExaminedServer]) -> Vec<ExaminedRatio> {
    let Some((first, others)) = servers.split_first() else {
        return Vec::new();
    };
    let conditions = by_condition(first);
    let several = conditions.len() > 1;
    let mut ratios = Vec::new();
    for other in others {
        let theirs = by_condition(other);
        for (condition, a) in &conditions {
            let Some(b) = theirs.get(condition) else {
                continue;
            };
            if let Some(ratio) = unpaired_ratio(a, b, LEVEL) {
                ratios.push(ExaminedRatio {
                    load: if several {
                        condition.to_string()
                    } else {
                        String::new()
                    },
                    a: first.name.clone(),
                    b: other.name.clone(),
                    ratio: ratio.ratio,
                    interval: ratio.interval,
                    level: LEVEL,
                    runs: ratio.pairs,
                });
            }
        }
    }
    ratios
}

/// What makes two runs the same experiment: connections `c`, requests in flight on each `m`, and
/// requests on each before it is opened anew `K`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Condition {
    connections: Option<u64>,
    streams: Option<u64>,
    pub(super) requests_per_connection: Option<u64>,
}

impl Condition {
    fn of(load: &ForeignLoad) -> Self {
        Self {
            connections: load.connections,
            streams: load.streams,
            requests_per_connection: load.requests_per_connection,
        }
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            self.connections.map(|n| format!("c={n}")),
            self.streams.map(|n| format!("m={n}")),
            self.requests_per_connection.map(|n| format!("K={n}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        write!(formatter, "{}", parts.join(" "))
    }
}

/// The runs of a server, those under the same load together.
pub(super) fn loads_by_condition(
    server: &ExaminedServer,
) -> BTreeMap<Condition, Vec<&ForeignLoad>> {
    let mut found: BTreeMap<Condition, Vec<&ForeignLoad>> = BTreeMap::new();
    for load in &server.loads {
        found.entry(Condition::of(load)).or_default().push(load);
    }
    found
}

/// The throughput of every run that answered anything, by load.
pub(super) fn by_condition(server: &ExaminedServer) -> BTreeMap<Condition, Vec<f64>> {
    let rates = |loads: Vec<&ForeignLoad>| -> Vec<f64> {
        let rates = loads.into_iter().map(|load| load.rate_rps);
        rates.filter(|rate| *rate > 0.0).collect()
    };
    loads_by_condition(server)
        .into_iter()
        .map(|(condition, loads)| (condition, rates(loads)))
        .filter(|(_, rates)| !rates.is_empty())
        .collect()
}

fn scan(lines: &Lines<'_>, source: usize, placed: &mut Vec<Placed>, unread: &mut Vec<Unread>) {
    let mut at = 0;
    let mut from = 0;
    let mut last_heading = None;
    while at < lines.count() {
        match tool::read(lines, at) {
            Some(Ok((mut block, end))) => {
                last_heading = heading::above(lines, from, at).or(last_heading);
                let mut address = None;
                if let Block::Load(load) = &mut block {
                    load.command = heading::command(lines, from, at, &load.tool);
                    complete(load);
                    address = load.url.as_deref().and_then(heading::address);
                }
                placed.push(Placed {
                    block,
                    heading: last_heading.clone(),
                    address,
                    source,
                });
                at = end;
                from = end;
            }
            Some(Err(why)) => {
                unread.push(why);
                at += 1;
            }
            None => at += 1,
        }
    }
}

/// What only the command says.
fn complete(load: &mut ForeignLoad) {
    let Some(command) = &load.command else { return };
    let words: Vec<&str> = command.split_whitespace().collect();
    let option = |names: &[&str]| {
        words.iter().enumerate().find_map(|(at, word)| {
            let name = names.iter().find(|name| word.starts_with(**name))?;
            let rest = word[name.len()..].trim_start_matches('=');
            let value = if rest.is_empty() {
                words.get(at + 1)?
            } else {
                rest
            };
            super::number::count(value)
        })
    };
    if load.url.is_none() {
        let url = words.iter().find(|word| word.contains("://"));
        load.url = url.map(|url| (*url).to_owned());
    }
    match load.tool.as_str() {
        "h2load" => {
            load.connections = load.connections.or_else(|| option(&["-c", "--clients"]));
            load.streams = load
                .streams
                .or_else(|| option(&["-m", "--max-concurrent-streams"]));
        }
        "hey" | "oha" => load.connections = load.connections.or_else(|| option(&["-c"])),
        _ => {}
    }
}

/// The name of each block: its heading, unless one heading stands above runs against several
/// addresses, whose names are then those of who listens there. Without a heading the address tells
/// servers apart, and where that is the same in several files, the file does.
fn names(placed: &[Placed], texts: &[Lines<'_>], sources: &[Source<'_>]) -> Vec<String> {
    let mut addresses: HashMap<Option<&str>, HashSet<&str>> = HashMap::new();
    let mut files: HashMap<Option<&str>, HashSet<usize>> = HashMap::new();
    for block in placed {
        let known = addresses.entry(block.heading.as_deref()).or_default();
        known.extend(block.address.as_deref());
        files
            .entry(block.address.as_deref())
            .or_default()
            .insert(block.source);
    }
    let is_shared = |heading: &Option<String>| addresses[&heading.as_deref()].len() > 1;
    let is_elsewhere = |block: &Placed| files[&block.address.as_deref()].len() > 1;
    let name = |block: &Placed| match (&block.heading, &block.address) {
        (Some(heading), None) => heading.clone(),
        (Some(heading), Some(_)) if !is_shared(&block.heading) => heading.clone(),
        (heading, Some(address)) if heading.is_some() || !is_elsewhere(block) => {
            heading::listener(&texts[block.source], address)
                .map_or_else(|| address.clone(), |name| format!("{name} ({address})"))
        }
        _ => sources[block.source].name.to_owned(),
    };
    placed.iter().map(name).collect()
}

/// Level of the intervals: that of a headline.
const LEVEL: f64 = 0.99;

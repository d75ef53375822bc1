//! Reading what other tools printed: what was run, what follows from it, and what does not.
//!
//! Blocks of output may stand in prose: a forum post, a gist. What can be read in more than one way
//! is not read, and said so.

mod heading;
mod lines;
mod number;
mod rule;
mod servers;
mod settings;
mod tool;

use recording::{AUTOPSY_SCHEMA, Autopsy, ExaminedServer, ForeignLoad, Statement, StatementKind};

/// A text to examine.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Names the server of blocks that nothing else names.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
}

/// Examines texts together; `recipes` are the servers that whyfast can start itself. `None` where
/// there is no block of any tool in them.
pub fn examine(sources: &[Source<'_>], recipes: &[&str]) -> Option<Autopsy> {
    let (servers, unread) = servers::find(sources);
    if servers.is_empty() && unread.is_empty() {
        return None;
    }
    let statements = rule::all(&servers);
    Some(Autopsy {
        schema: AUTOPSY_SCHEMA.to_owned(),
        ratios: servers::ratios(&servers),
        verdict: verdict(&servers, &statements),
        command: command(&servers, recipes),
        statements,
        servers,
        unread,
    })
}

/// Calls for each response, where a table of calls says both.
pub(crate) fn calls_per_response(server: &ExaminedServer) -> Option<f64> {
    rule::calls_per_response(server)
}

/// The runs of a server, those under the same load together, each load in words.
pub(crate) fn conditions(server: &ExaminedServer) -> Vec<(String, Vec<&ForeignLoad>)> {
    let named = servers::loads_by_condition(server)
        .into_iter()
        .map(|(condition, loads)| (condition.to_string(), loads));
    named.collect()
}

fn verdict(servers: &[ExaminedServer], statements: &[Statement]) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    for reason in statements
        .iter()
        .filter_map(|statement| statement.refuses.as_deref())
    {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let mut bounds = statements
        .iter()
        .filter(|statement| statement.rule == "counts-explain")
        .map(|statement| statement.text.split(':').next().unwrap_or_default());
    let bound = bounds
        .next_back()
        .map_or(String::new(), |text| format!("; {text}"));
    if servers.len() < 2 {
        "one server: there is nothing to compare it with".to_owned()
    } else if !reasons.is_empty() {
        format!("not comparable: {}{bound}", reasons.join(", "))
    } else {
        let single = statements
            .iter()
            .any(|statement| statement.rule == "one-run");
        let runs = if single {
            "single runs, which have no interval"
        } else {
            "the printed figures"
        };
        format!("nothing in the output forbids the comparison, which rests on {runs}{bound}")
    }
}

/// The command that would settle it, for servers that whyfast knows how to start.
fn command(servers: &[ExaminedServer], recipes: &[&str]) -> Option<String> {
    if servers.len() < 2 {
        return None;
    }
    let arms: Vec<String> = servers
        .iter()
        .map(|server| {
            let names: Vec<&str> = heading::names_in(&server.name)
                .map(|(_, name)| name)
                .collect();
            match names.as_slice() {
                [name] if recipes.contains(name) => (*name).to_owned(),
                [] => "'NAME=cmd:COMMAND {port}'".to_owned(),
                names => format!("'{}=cmd:COMMAND {{port}}'", names.join("-")),
            }
        })
        .collect();
    let connections = servers
        .iter()
        .flat_map(|server| &server.loads)
        .find_map(|load| load.connections);
    let load = connections.map_or(String::new(), |connections| format!(" -c {connections}"));
    Some(format!(
        "whyfast compare {}{load} --publish",
        arms.join(" ")
    ))
}

/// A statement that forbids a comparison, with the reason in a few words.
fn refusing(mut statement: Statement, why: &str) -> Statement {
    statement.refuses = Some(why.to_owned());
    statement
}

fn statement(
    rule: &str,
    kind: StatementKind,
    servers: &[&ExaminedServer],
    text: String,
) -> Statement {
    Statement {
        rule: rule.to_owned(),
        kind,
        servers: servers.iter().map(|server| server.name.clone()).collect(),
        text,
        refuses: None,
    }
}

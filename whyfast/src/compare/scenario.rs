//! Scenarios: which load a comparison runs, as a TOML file says and the command line changes.

mod published;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use recording::{Protocol, Published, ScenarioTls, Unfair};
use serde::Deserialize;

use crate::args::duration;
use crate::args_scenario::{Encryption, ScenarioArgs};
use crate::compare::certificate::KeyKind;
use crate::failure::Failure;
use crate::verbs::load::header;

/// A scenario as its TOML file has it: the sizes of an indication, those of the publication (`full`), and
/// what the publication did unfairly (`as_published`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScenarioFile {
    /// One line for `whyfast list`.
    pub(crate) summary: String,
    #[serde(default = "http1")]
    protocol: Protocol,
    /// What is requested, and where the body is served; named after its size where it is left out.
    path: Option<String>,
    body_bytes: u64,
    #[serde(default)]
    body: BodyKind,
    /// Servers that are compared where the command line names none.
    #[serde(default)]
    pub(crate) arms: Vec<String>,
    /// Further ones, as far as their programs are installed.
    #[serde(default)]
    pub(crate) optional_arms: Vec<String>,
    connections: u32,
    #[serde(default = "one")]
    client_threads: u32,
    /// Requests in flight on each connection.
    streams: Option<u32>,
    /// Requests on one connection.
    requests_per_connection: Option<u64>,
    /// Requests of a round, which then has no duration.
    requests: Option<u64>,
    #[serde(default, deserialize_with = "time")]
    duration: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    warmup: Option<Duration>,
    /// Limit on one request.
    #[serde(default, deserialize_with = "time")]
    timeout: Option<Duration>,
    pairs: Option<u32>,
    /// Header lines, `Name: value`.
    #[serde(default)]
    request_headers: Vec<String>,
    tls: Option<TlsTable>,
    #[serde(default)]
    full: Changes,
    as_published: Option<Changes>,
    /// Figures of the publication: a name, or in a file of the user's own the path of another one.
    published: Option<String>,
}

/// What the body is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BodyKind {
    /// One letter over and over.
    #[default]
    Fill,
    /// A page of HTML that compresses the way real ones do.
    Page,
}

/// How connections are encrypted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsTable {
    #[serde(default)]
    key: KeyKind,
    version: Option<Version>,
    #[serde(default)]
    resumption: bool,
    #[serde(default)]
    ciphers: Vec<String>,
    #[serde(default)]
    groups: Vec<String>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Version {
    #[serde(rename = "1.2")]
    Tls12,
    #[serde(rename = "1.3")]
    Tls13,
}

/// What `--full`, `--as-published` and the command line change.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Changes {
    arms: Option<Vec<String>>,
    connections: Option<u32>,
    client_threads: Option<u32>,
    streams: Option<u32>,
    requests_per_connection: Option<u64>,
    requests: Option<u64>,
    #[serde(default, deserialize_with = "time")]
    duration: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    warmup: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    timeout: Option<Duration>,
    pairs: Option<u32>,
    request_headers: Option<Vec<String>>,
    tls: Option<TlsTable>,
    /// Of `as_published` alone.
    #[serde(default)]
    unfair: Vec<Unfair>,
}

/// A scenario with everything chosen that does not depend on the protocol of the comparison.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) name: String,
    pub(crate) protocol: Protocol,
    pub(crate) path: String,
    pub(crate) body_bytes: u64,
    pub(crate) body: BodyKind,
    pub(crate) arms: Vec<String>,
    pub(crate) optional_arms: Vec<String>,
    pub(crate) connections: u32,
    pub(crate) client_threads: u32,
    pub(crate) streams: Option<u32>,
    pub(crate) requests_per_connection: Option<u64>,
    pub(crate) requests: Option<u64>,
    pub(crate) duration: Option<Duration>,
    pub(crate) warmup: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) pairs: Option<u32>,
    pub(crate) request_headers: Vec<(String, String)>,
    pub(crate) tls: Option<ScenarioTls>,
    /// The kind of key that `tls` names.
    pub(crate) key: KeyKind,
    pub(crate) as_published: bool,
    pub(crate) unfair: Vec<Unfair>,
    pub(crate) published: Option<Published>,
}

/// The names of all built-in scenarios.
pub(crate) fn names() -> Vec<&'static str> {
    BUILT_IN.iter().map(|(name, _)| *name).collect()
}

/// A built-in scenario, or a TOML file; with its name.
pub(crate) fn read(name: &str) -> anyhow::Result<(String, ScenarioFile)> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        let file = toml::from_str(text).with_context(|| format!("built-in scenario {name}"))?;
        return Ok((name.to_owned(), file));
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Err(Failure::usage(format!(
            "no scenario is called {name:?}; there are {}, or name a .toml file",
            names().join(", ")
        )));
    }
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {name}"))?;
    let file: ScenarioFile = toml::from_str(&text)
        .map_err(|error| Failure::usage(format!("scenario {name}: {error}")))?;
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    Ok((stem.to_string_lossy().into_owned(), file))
}

/// The scenario that the command line asks for.
pub(crate) fn choose(args: &ScenarioArgs) -> anyhow::Result<Chosen> {
    let spec = args.scenario.as_deref().unwrap_or(DEFAULT);
    let (name, file) = read(spec)?;
    let usage = |what: String| Failure::usage(format!("scenario {name}: {what}"));
    let published = match &file.published {
        None => None,
        Some(figures) => published::read(spec, figures)?,
    };
    let (full, as_published) = (file.full.clone(), file.as_published.clone());
    let mut chosen = file.base(&name).map_err(&usage)?;
    chosen.published = published;
    if args.full {
        chosen.change(full).map_err(&usage)?;
    }
    if args.as_published {
        let Some(changes) = as_published else {
            return Err(usage(
                "it says nothing of how it was published ([as_published]), so there is no \
                 --as-published"
                    .to_owned(),
            ));
        };
        chosen.as_published = true;
        chosen.change(changes).map_err(&usage)?;
    }
    chosen.change(typed(args)).map_err(&usage)?;
    chosen.encrypt(&args.encryption).map_err(&usage)?;
    chosen.check().map_err(&usage)?;
    Ok(chosen)
}

/// What the command line changes, but for TLS.
fn typed(args: &ScenarioArgs) -> Changes {
    Changes {
        connections: args.connections,
        client_threads: args.threads,
        streams: args.streams,
        requests_per_connection: args.requests_per_connection,
        requests: args.requests,
        duration: args.duration,
        warmup: args.warmup,
        request_headers: (!args.header.is_empty()).then(|| args.header.clone()),
        ..Changes::default()
    }
}

impl ScenarioFile {
    /// The file without its changes.
    fn base(self, name: &str) -> Result<Chosen, String> {
        if !self.full.unfair.is_empty() {
            return Err("what was unfair belongs to [as_published], not to [full]".to_owned());
        }
        let default_path = || format!("/{}b", self.body_bytes);
        let mut chosen = Chosen {
            name: name.to_owned(),
            protocol: self.protocol,
            path: self.path.clone().unwrap_or_else(default_path),
            body_bytes: self.body_bytes,
            body: self.body,
            arms: self.arms,
            optional_arms: self.optional_arms,
            connections: self.connections,
            client_threads: self.client_threads,
            streams: self.streams,
            requests_per_connection: self.requests_per_connection,
            requests: None,
            duration: None,
            warmup: self.warmup,
            timeout: self.timeout,
            pairs: self.pairs,
            request_headers: headers(&self.request_headers)?,
            tls: None,
            key: KeyKind::default(),
            as_published: false,
            unfair: Vec::new(),
            published: None,
        };
        chosen.change(Changes {
            requests: self.requests,
            duration: self.duration,
            tls: self.tls,
            ..Changes::default()
        })?;
        Ok(chosen)
    }
}

impl Chosen {
    /// Whether whyfast's own server can be an arm of it.
    pub(crate) fn is_plain(&self) -> bool {
        self.protocol == Protocol::Http1 && self.tls.is_none()
    }

    fn change(&mut self, changes: Changes) -> Result<(), String> {
        let keep = |changed: Option<u32>, value: &mut u32| *value = changed.unwrap_or(*value);
        keep(changes.connections, &mut self.connections);
        keep(changes.client_threads, &mut self.client_threads);
        self.streams = changes.streams.or(self.streams);
        self.requests_per_connection = changes
            .requests_per_connection
            .or(self.requests_per_connection);
        match (changes.requests, changes.duration) {
            (Some(_), Some(_)) => {
                return Err(
                    "requests and duration are two ends for one round; give one of them".to_owned(),
                );
            }
            (None, None) => {}
            (Some(_), None) => {
                (self.requests, self.duration, self.warmup) = (changes.requests, None, None);
            }
            (None, Some(_)) => (self.requests, self.duration) = (None, changes.duration),
        }
        self.warmup = changes.warmup.or(self.warmup);
        self.timeout = changes.timeout.or(self.timeout);
        self.pairs = changes.pairs.or(self.pairs);
        if let Some(lines) = &changes.request_headers {
            self.request_headers = headers(lines)?;
        }
        if let Some(arms) = changes.arms {
            self.arms = arms;
            self.optional_arms.clear();
        }
        if let Some(tls) = changes.tls {
            self.key = tls.key;
            self.tls = Some(tls.stored());
        }
        self.unfair.extend(changes.unfair);
        Ok(())
    }

    /// What the command line says of TLS.
    fn encrypt(&mut self, asked: &Encryption) -> Result<(), String> {
        if let Some(key) = asked.tls_key {
            self.key = key;
            let tls = self.tls.get_or_insert_with(|| TlsTable::default().stored());
            key.name().clone_into(&mut tls.key);
        }
        let Some(tls) = &mut self.tls else {
            return if asked.changes_sessions() {
                Err(
                    "its connections are in clear; --tls-key rsa-2048 encrypts them first"
                        .to_owned(),
                )
            } else {
                Ok(())
            };
        };
        if !asked.ciphers.is_empty() {
            tls.ciphers.clone_from(&asked.ciphers);
        }
        if !asked.groups.is_empty() {
            tls.groups.clone_from(&asked.groups);
        }
        if let Some(which) = &asked.resumption {
            tls.resumption = which == "resume";
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.body_bytes > MAX_BODY {
            return Err(format!("body_bytes is at most {MAX_BODY}"));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
        let names = self.path.strip_prefix('/').unwrap_or("").split('/');
        for name in names {
            if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
                return Err(format!(
                    "path {:?} names no file: write /NAME or /FOLDER/NAME, of letters, digits and \
                     -_.~, no name with a dot in front",
                    self.path
                ));
            }
        }
        match self.pairs {
            Some(0) => Err("pairs must be at least 1".to_owned()),
            _ => Ok(()),
        }
    }
}

impl TlsTable {
    fn stored(self) -> ScenarioTls {
        let version = self.version.map(|version| match version {
            Version::Tls12 => "1.2",
            Version::Tls13 => "1.3",
        });
        ScenarioTls {
            key: self.key.name().to_owned(),
            version: version.map(str::to_owned),
            resumption: self.resumption,
            ciphers: self.ciphers,
            groups: self.groups,
        }
    }
}

/// `Name: value` lines.
fn headers(lines: &[String]) -> Result<Vec<(String, String)>, String> {
    let split = |line: &String| header(line).map_err(|error| error.to_string());
    lines.iter().map(split).collect()
}

fn time<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    duration(&text)
        .map(Some)
        .map_err(|error| serde::de::Error::custom(format!("{text:?}: {error}")))
}

fn http1() -> Protocol {
    Protocol::Http1
}

fn one() -> u32 {
    1
}

/// The scenario of a comparison that names none.
const DEFAULT: &str = "static-1b";

/// A body that is made in memory and written once.
const MAX_BODY: u64 = 1 << 30;

/// The built-in scenarios.
const BUILT_IN: &[(&str, &str)] = &[
    (
        "cache-hello",
        include_str!("../../scenarios/cache-hello.toml"),
    ),
    (
        "h2-tls13-page",
        include_str!("../../scenarios/h2-tls13-page.toml"),
    ),
    ("static-1b", include_str!("../../scenarios/static-1b.toml")),
    (
        "tls-new-connections",
        include_str!("../../scenarios/tls-new-connections.toml"),
    ),
    (
        "tls-terminator-keepalive",
        include_str!("../../scenarios/tls-terminator-keepalive.toml"),
    ),
];

#[cfg(test)]
pub(crate) mod tests;

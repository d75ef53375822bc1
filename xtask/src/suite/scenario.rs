//! The scenarios as their files in this repository have them, as far as a suite has to know them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// A scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scenario {
    pub(super) name: String,
    file: File,
}

/// Its file; what is not named here is whyfast's own business.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct File {
    arms: Vec<String>,
    #[serde(default)]
    optional_arms: Vec<String>,
    requests: Option<u64>,
    published: String,
    #[serde(default)]
    as_published: AsPublished,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct AsPublished {
    arms: Option<Vec<String>>,
}

impl Scenario {
    /// The arms that have to be there, and those that may.
    pub(super) fn arms(&self, as_published: bool) -> (Vec<String>, Vec<String>) {
        match &self.file.as_published.arms {
            Some(arms) if as_published => (arms.clone(), Vec::new()),
            _ => (self.file.arms.clone(), self.file.optional_arms.clone()),
        }
    }

    /// The options of a short run.
    pub(super) fn quick(&self, check: bool) -> Vec<&'static str> {
        let mut options = vec!["--pairs", if check { "1" } else { "3" }];
        // Those by a number of requests are short by themselves.
        if self.file.requests.is_none() {
            let duration = if check { "1s" } else { "2s" };
            options.extend(["--duration", duration, "--warmup", "300ms"]);
        }
        options
    }
}

/// The scenarios of these names, or all.
pub(super) fn wanted(root: &Path, names: &[String]) -> Result<Vec<Scenario>> {
    let all = all(root)?;
    if names.is_empty() || names.iter().any(|name| name == "all") {
        return Ok(all);
    }
    let known: Vec<&str> = all.iter().map(|scenario| scenario.name.as_str()).collect();
    for name in names {
        if !known.contains(&name.as_str()) {
            bail!(
                "no scenario is called {name:?}; there are {}, and all",
                known.join(", ")
            );
        }
    }
    let is_named = |scenario: &Scenario| names.contains(&scenario.name);
    Ok(all.into_iter().filter(is_named).collect())
}

/// Every scenario that repeats a publication, by name.
fn all(root: &Path) -> Result<Vec<Scenario>> {
    let folder = root.join("whyfast/scenarios");
    let entries =
        fs::read_dir(&folder).with_context(|| format!("failed to read {}", folder.display()))?;
    let mut all = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if let Some(name) = name.strip_suffix(".toml") {
            all.push(Scenario {
                name: name.to_owned(),
                file: read(&path)?,
            });
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// A TOML file of this repository.
pub(super) fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text =
        fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("failed to understand {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    /// The five are there under their names, each with two arms and more; another name is refused, and the
    /// names are told.
    #[test]
    fn the_five_are_there() {
        let root = tree::root();
        let all = wanted(&root, &["all".to_owned()]).unwrap();
        let names: Vec<&str> = all.iter().map(|scenario| scenario.name.as_str()).collect();
        let five = [
            "cache-hello",
            "h2-tls13-page",
            "static-1b",
            "tls-new-connections",
            "tls-terminator-keepalive",
        ];
        assert_eq!(names, five);
        for scenario in &all {
            let ways = [false, true].map(|as_published| scenario.arms(as_published).0.len());
            assert!(ways.iter().all(|arms| *arms >= 2), "{scenario:?}");
        }
        let one = wanted(&root, &["static-1b".to_owned()]).unwrap();
        assert_eq!(one.len(), 1);
        let error = wanted(&root, &["static".to_owned()])
            .unwrap_err()
            .to_string();
        assert!(five.iter().all(|name| error.contains(name)), "{error}");
    }

    /// Rounds by a number of requests keep it; others are made short.
    #[test]
    fn quick_runs_are_short() {
        let root = tree::root();
        for scenario in wanted(&root, &[]).unwrap() {
            let timed = scenario.quick(true).contains(&"--duration");
            assert_eq!(timed, scenario.file.requests.is_none(), "{scenario:?}");
        }
    }
}

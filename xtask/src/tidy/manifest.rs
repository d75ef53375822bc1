//! Rules about `Cargo.toml` files: which crate may use which, and that the workspace rules.

use toml::{Table, Value};

use super::Violation;

/// Everything in one manifest that breaks a rule.
pub(crate) fn check(path: &str, content: &str) -> Vec<Violation> {
    let manifest: Table = match content.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Violation::new(path, 0, format!("not TOML: {error}"))],
    };
    let Some(package) = manifest.get("package") else {
        return Vec::new();
    };
    let name = package.get("name").and_then(Value::as_str).unwrap_or("");
    let mut violations = directions(path, name, &manifest);
    violations.extend(inheritance(path, package, &manifest));
    violations
}

/// Dependencies point one way.
fn directions(path: &str, name: &str, manifest: &Table) -> Vec<Violation> {
    let Some((_, allowed)) = ALLOWED.iter().find(|(package, _)| *package == name) else {
        let text = format!("{name} is not in the list of crates and what they may use");
        return vec![Violation::new(path, 0, text)];
    };
    let mut violations = Vec::new();
    for used in ours(manifest) {
        if !allowed.contains(&used) {
            let text = match allowed {
                [] => format!("{name} uses {used}, but may use none of our crates"),
                _ => format!(
                    "{name} uses {used}, but may only use {}",
                    allowed.join(", ")
                ),
            };
            violations.push(Violation::new(path, 0, text));
        }
    }
    violations
}

/// Our crates among the dependencies, those for one target included; tests may use any.
fn ours(manifest: &Table) -> Vec<&str> {
    let plain = manifest.get("dependencies").into_iter();
    let targets = manifest.get("target").and_then(Value::as_table);
    let of_targets = targets
        .into_iter()
        .flat_map(Table::values)
        .filter_map(|target| target.get("dependencies"));
    let names = plain
        .chain(of_targets)
        .filter_map(Value::as_table)
        .flat_map(Table::keys);
    names
        .map(String::as_str)
        .filter(|name| ALLOWED.iter().any(|(package, _)| package == name))
        .collect()
}

/// Lints and facts about the project are said once, in the workspace.
fn inheritance(path: &str, package: &Value, manifest: &Table) -> Vec<Violation> {
    let inherits = |value: Option<&Value>| {
        value
            .and_then(|value| value.get("workspace"))
            .and_then(Value::as_bool)
            == Some(true)
    };
    let mut violations = Vec::new();
    if !inherits(manifest.get("lints")) {
        violations.push(Violation::new(path, 0, "lacks `[lints] workspace = true`"));
    }
    for key in ["version", "edition", "rust-version", "publish"] {
        if !inherits(package.get(key)) {
            let text = format!("lacks `{key}.workspace = true`");
            violations.push(Violation::new(path, 0, text));
        }
    }
    violations
}

/// Which of our crates a crate may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("loadgen", &["recording"]),
    ("profiler", &["profiler-common", "recording"]),
    ("profiler-common", &[]),
    ("profiler-ebpf", &["profiler-common"]),
    ("recording", &[]),
    ("reports", &["recording"]),
    ("testserver", &["recording"]),
    ("vm-init", &[]),
    (
        "whyfast",
        &["loadgen", "profiler", "recording", "reports", "testserver"],
    ),
    ("xtask", &["recording"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, rest: &str) -> Vec<String> {
        let content = format!(
            "[package]\nname = \"{name}\"\nversion.workspace = true\nedition.workspace = true\n\
             rust-version.workspace = true\npublish.workspace = true\n[lints]\nworkspace = true\n{rest}"
        );
        let violations = check("a/Cargo.toml", &content);
        violations
            .into_iter()
            .map(|violation| violation.text)
            .collect()
    }

    /// A dependency against the direction is found, also for one target only; tests may use any.
    #[test]
    fn wrong_directions() {
        let uses = "[dependencies]\nwhyfast.workspace = true\n";
        assert_eq!(
            manifest("xtask", uses),
            ["xtask uses whyfast, but may only use recording"]
        );
        let target = "[target.'cfg(unix)'.dependencies]\nprofiler.workspace = true\n";
        assert_eq!(
            manifest("recording", target),
            ["recording uses profiler, but may use none of our crates"]
        );
        let tests = "[dev-dependencies]\ntestserver.workspace = true\n";
        assert_eq!(manifest("loadgen", tests), [""; 0]);
        let allowed = "[dependencies]\nrecording.workspace = true\nserde = \"1\"\n";
        assert_eq!(manifest("reports", allowed), [""; 0]);
    }

    /// A new crate has to be given its place.
    #[test]
    fn unknown_crates() {
        assert_eq!(
            manifest("new", ""),
            ["new is not in the list of crates and what they may use"]
        );
    }

    /// A manifest with settings of its own is found.
    #[test]
    fn settings_of_its_own() {
        let content = "[package]\nname = \"reports\"\nversion = \"1.0.0\"\nedition.workspace = true\n\
                       rust-version.workspace = true\npublish.workspace = true\n";
        let violations = check("reports/Cargo.toml", content);
        let texts: Vec<String> = violations
            .into_iter()
            .map(|violation| violation.text)
            .collect();
        assert_eq!(
            texts,
            [
                "lacks `[lints] workspace = true`",
                "lacks `version.workspace = true`"
            ]
        );
    }
}

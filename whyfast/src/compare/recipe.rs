//! Recipes: how to start a known server, with which settings, and which package brings it.

use std::collections::BTreeMap;

use anyhow::Context as _;
use recording::{ConfigFile, Setting};
use serde::Deserialize;

use crate::failure::Failure;

/// A recipe as its TOML file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recipe {
    /// Name of the program.
    pub(crate) program: String,
    /// The Debian package that brings it.
    pub(crate) package: String,
    /// Arguments that make it print its version.
    pub(crate) version: Vec<String>,
    /// Command line, with placeholders.
    pub(crate) command: Vec<String>,
    /// Configuration files, each a template beside the recipe.
    config: Vec<String>,
    /// The variant that the bare name means.
    pub(crate) default_variant: String,
    pub(crate) variants: BTreeMap<String, Variant>,
}

/// A named set of settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variant {
    /// One line for `whyfast list`.
    pub(crate) summary: String,
    /// Placeholders of the templates.
    pub(crate) values: BTreeMap<String, String>,
    /// The settings that matter, in words that are the same for every server.
    pub(crate) settings: BTreeMap<String, String>,
}

/// The built-in recipes by name.
const BUILT_IN: &[(&str, &str)] = &[
    ("h2o", include_str!("../../recipes/h2o.toml")),
    ("nginx", include_str!("../../recipes/nginx.toml")),
];

/// Their templates by file name.
const TEMPLATES: &[(&str, &str)] = &[
    ("h2o.conf", include_str!("../../recipes/h2o.conf")),
    ("nginx.conf", include_str!("../../recipes/nginx.conf")),
];

/// The names of all recipes.
pub(crate) fn names() -> Vec<&'static str> {
    BUILT_IN.iter().map(|(name, _)| *name).collect()
}

/// A recipe by its name.
pub(crate) fn find(name: &str) -> anyhow::Result<Recipe> {
    let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
        return Err(Failure::usage(format!(
            "no recipe is called {name:?}; there are {}. Another server is an arm as a command: \
             {name}=cmd:COMMAND",
            names().join(", ")
        )));
    };
    toml::from_str(text).with_context(|| format!("failed to read the built-in recipe {name}"))
}

/// A recipe with a variant chosen.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) recipe: Recipe,
    variant: Variant,
}

/// Chooses a variant of a recipe.
pub(crate) fn choose(name: &str, variant: Option<&str>) -> anyhow::Result<Chosen> {
    let recipe = find(name)?;
    let wanted = variant.unwrap_or(&recipe.default_variant);
    let Some(variant) = recipe.variants.get(wanted).cloned() else {
        let known: Vec<&str> = recipe.variants.keys().map(String::as_str).collect();
        return Err(Failure::usage(format!(
            "recipe {name} has no variant {wanted:?}; it has {}",
            known.join(", ")
        )));
    };
    Ok(Chosen { recipe, variant })
}

impl Chosen {
    /// The configuration files with the values of the variant filled in; what differs from round
    /// to round (port, folders, CPUs) stays a placeholder.
    pub(crate) fn config(&self) -> Vec<ConfigFile> {
        let values: Vec<(&str, &str)> = self
            .variant
            .values
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let text = |name: &String| {
            TEMPLATES
                .iter()
                .find(|(known, _)| known == name)
                .map_or("", |(_, text)| *text)
        };
        let files = self.recipe.config.iter();
        files
            .map(|name| ConfigFile {
                name: name.clone(),
                text: fill(text(name), &values),
            })
            .collect()
    }

    /// The settings that matter.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        self.variant
            .settings
            .iter()
            .map(|(key, value)| Setting {
                key: key.clone(),
                value: value.clone(),
            })
            .collect()
    }
}

/// Replaces `{key}` by its value, once: a value is not looked at again.
pub(crate) fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        filled.push_str(&rest[..open]);
        rest = &rest[open..];
        let known = values.iter().find_map(|(key, value)| {
            let after = rest[1..].strip_prefix(key)?.strip_prefix('}')?;
            Some((value, after))
        });
        if let Some((value, after)) = known {
            filled.push_str(value);
            rest = after;
        } else {
            filled.push('{');
            rest = &rest[1..];
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every built-in recipe reads, and its variants leave only the placeholders of a round.
    #[test]
    fn built_in_recipes_are_complete() {
        let of_a_round = ["cpus", "dir", "port", "program", "root", "workers"];
        let values: Vec<(&str, &str)> = of_a_round.iter().map(|key| (*key, "VALUE")).collect();
        for name in names() {
            for variant in find(name).unwrap().variants.keys() {
                let chosen = choose(name, Some(variant)).unwrap();
                let config = chosen.config();
                assert_eq!(config.len(), chosen.recipe.config.len(), "{name}");
                for file in config {
                    let text = fill(&file.text, &values);
                    let left = text
                        .split('{')
                        .skip(1)
                        .find(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
                    assert_eq!(left, None, "{name}:{variant}");
                    assert!(text.contains("VALUE"));
                }
            }
            assert!(choose(name, None).is_ok());
        }
    }

    /// Unknown braces stay, and a value is not expanded again.
    #[test]
    fn fill_replaces_once() {
        let values = [("port", "{dir}"), ("dir", "d")];
        assert_eq!(fill("a {port} { {dir}{x}", &values), "a {dir} { d{x}");
    }

    /// A wrong name names the right ones.
    #[test]
    fn unknown_names_list_the_known() {
        assert!(
            find("apache")
                .unwrap_err()
                .to_string()
                .contains("h2o, nginx")
        );
        assert!(
            choose("nginx", Some("x"))
                .unwrap_err()
                .to_string()
                .contains("default, seed")
        );
    }
}

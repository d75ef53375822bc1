//! Recipes: how to start a known server or a chain of them, with which settings, and what has to be
//! installed for it. Pure: where recipes come from is the cookbook's business.

use std::collections::BTreeMap;

use recording::{ConfigFile, Setting};
use serde::Deserialize;

use crate::compare::fact::FactPattern;
use crate::compare::template::{fill, is_word, ports_in};
use crate::compare::transport::Transport;

/// A recipe as its TOML file has it.
#[derive(Clone, Debug)]
pub(crate) enum Recipe {
    /// Several programs that requests pass through.
    Chain(ChainRecipe),
    /// One program.
    Program(Box<ProgramRecipe>),
}

/// How one program is started.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgramRecipe {
    /// Name of the program.
    pub(crate) program: String,
    /// The Debian packages that bring it; empty where none does.
    package: String,
    /// How it is had where no package brings it.
    install: Option<String>,
    /// Modules of npm that it needs.
    #[serde(default)]
    pub(crate) modules: Vec<String>,
    /// Arguments that make it print its version.
    pub(crate) version: Vec<String>,
    /// What else to keep of what it prints then, by the name of the setting.
    #[serde(default)]
    pub(crate) facts: BTreeMap<String, FactPattern>,
    /// Command line, with placeholders.
    command: Vec<String>,
    /// Configuration files, each a template beside the recipe.
    config: Vec<String>,
    /// Variables of its environment, with placeholders.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Placeholders of the templates by transport; without the table it speaks HTTP/1.1 in clear.
    transport: Option<BTreeMap<String, BTreeMap<String, String>>>,
    /// The variant that the bare name means.
    default_variant: String,
    variants: BTreeMap<String, Variant>,
}

/// A named set of settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    /// One line for `whyfast list`.
    summary: String,
    /// Placeholders of the templates.
    #[serde(default)]
    values: BTreeMap<String, String>,
    /// The settings that matter, in words that are the same for every server.
    #[serde(default)]
    settings: BTreeMap<String, String>,
}

/// Several programs, the client's end first.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChainRecipe {
    pub(crate) hop: Vec<HopRecipe>,
    default_variant: String,
    variants: BTreeMap<String, ChainVariant>,
}

/// One program of a chain.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HopRecipe {
    /// Its part (`terminator`, `cache`, `origin`).
    pub(crate) name: String,
    /// The recipe of its program.
    pub(crate) recipe: String,
}

/// Which variant each hop has.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChainVariant {
    /// One line for `whyfast list`.
    summary: String,
    /// Variants by hop; the others have the default of their recipe.
    #[serde(default)]
    hops: BTreeMap<String, String>,
}

/// Why a recipe cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecipeError {
    /// It is no TOML, or has fields that there are not.
    #[error("{0}")]
    Parse(#[from] Box<toml::de::Error>),
    /// It contradicts itself.
    #[error("{0}")]
    Wrong(String),
    /// It has no such variant.
    #[error("it has no variant {wanted:?}; it has {known}")]
    Variant { wanted: String, known: String },
    /// It does not speak what the scenario asks for.
    #[error("it cannot speak {wanted}; it speaks {known}")]
    Transport { wanted: Transport, known: String },
}

impl Recipe {
    /// Reads and checks a recipe.
    pub(crate) fn parse(text: &str) -> Result<Self, RecipeError> {
        let table: toml::Table = toml::from_str(text).map_err(Box::new)?;
        let recipe = if table.contains_key("hop") {
            Self::Chain(toml::from_str(text).map_err(Box::new)?)
        } else {
            Self::Program(toml::from_str(text).map_err(Box::new)?)
        };
        match &recipe {
            Self::Chain(chain) => chain.check()?,
            Self::Program(program) => program.check()?,
        }
        let (default, variants) = (recipe.default_variant(), recipe.variants());
        if !variants.iter().any(|(name, _)| *name == default) {
            let text = format!("default_variant {default:?} is none of its variants");
            return Err(RecipeError::Wrong(text));
        }
        Ok(recipe)
    }

    /// The variant that the bare name means.
    pub(crate) fn default_variant(&self) -> &str {
        match self {
            Self::Chain(chain) => &chain.default_variant,
            Self::Program(program) => &program.default_variant,
        }
    }

    /// Names of the variants with their summaries.
    pub(crate) fn variants(&self) -> Vec<(&str, &str)> {
        match self {
            Self::Chain(chain) => summaries(&chain.variants, |variant| &variant.summary),
            Self::Program(program) => summaries(&program.variants, |variant| &variant.summary),
        }
    }
}

fn summaries<V>(
    variants: &BTreeMap<String, V>,
    summary: impl Fn(&V) -> &String,
) -> Vec<(&str, &str)> {
    let variants = variants.iter();
    variants
        .map(|(name, variant)| (name.as_str(), summary(variant).as_str()))
        .collect()
}

impl ProgramRecipe {
    /// The files that stand beside it.
    pub(crate) fn templates(&self) -> &[String] {
        &self.config
    }

    /// How it is installed, for people.
    pub(crate) fn how_to_install(&self) -> String {
        match &self.install {
            Some(install) => install.clone(),
            None => format!("install it with `apt-get install {}`", self.package),
        }
    }

    /// With one of its variants and for a transport; `template` is the text of a file beside it.
    pub(crate) fn choose(
        &self,
        variant: Option<&str>,
        transport: Transport,
        template: impl Fn(&str) -> Option<String>,
    ) -> Result<ChosenProgram, RecipeError> {
        let wanted = variant.unwrap_or(&self.default_variant);
        let variant = pick(&self.variants, wanted)?;
        let of_variant = pairs(&variant.values);
        // A value of the transport may have placeholders of the variant.
        let of_transport: Vec<(String, String)> = self
            .values_of(transport)?
            .iter()
            .map(|(key, value)| (key.clone(), fill(value, &of_variant)))
            .collect();
        let mut values: Vec<(&str, &str)> = of_transport
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        values.extend(of_variant);
        let mut config = Vec::new();
        for name in &self.config {
            let text = template(name)
                .ok_or_else(|| RecipeError::Wrong(format!("its template {name} is missing")))?;
            config.push(ConfigFile {
                name: name.clone(),
                text: fill(&text, &values),
            });
        }
        let arguments = self.command.iter().skip(1);
        let settings = variant.settings.iter();
        Ok(ChosenProgram {
            arguments: arguments.map(|text| fill(text, &values)).collect(),
            config,
            environment: self.environment.clone().into_iter().collect(),
            settings: settings
                .map(|(key, value)| Setting {
                    key: key.clone(),
                    value: value.clone(),
                })
                .collect(),
            recipe: self.clone(),
        })
    }

    /// The placeholders of a transport.
    fn values_of(&self, wanted: Transport) -> Result<BTreeMap<String, String>, RecipeError> {
        let Some(transports) = &self.transport else {
            return match wanted {
                Transport::CLEAR => Ok(BTreeMap::new()),
                _ => Err(RecipeError::Transport {
                    wanted,
                    known: Transport::CLEAR.key().to_owned(),
                }),
            };
        };
        transports.get(wanted.key()).cloned().ok_or_else(|| {
            let known: Vec<&str> = transports.keys().map(String::as_str).collect();
            RecipeError::Transport {
                wanted,
                known: known.join(", "),
            }
        })
    }

    fn check(&self) -> Result<(), RecipeError> {
        let wrong = |text: String| Err(RecipeError::Wrong(text));
        if self.command.first().map(String::as_str) != Some("{program}") {
            return wrong("command has to begin with \"{program}\"".to_owned());
        }
        if self.package.is_empty() && self.install.is_none() {
            return wrong("without a package it has to say how to install it".to_owned());
        }
        if let Some(name) = self.config.iter().find(|name| !is_plain(name)) {
            return wrong(format!(
                "config {name:?} is not the name of a file beside the recipe"
            ));
        }
        let mut transports = self.transport.iter().flat_map(BTreeMap::keys);
        match transports.find(|key| !Transport::is_key(key)) {
            None => Ok(()),
            Some(key) => wrong(format!("transport.{key}: there are clear, h2, h2c and tls")),
        }
    }
}

impl ChainRecipe {
    /// The variant of each hop, in the order of the hops.
    pub(crate) fn choose(
        &self,
        variant: Option<&str>,
    ) -> Result<Vec<(&HopRecipe, Option<&str>)>, RecipeError> {
        let wanted = variant.unwrap_or(&self.default_variant);
        let variant = pick(&self.variants, wanted)?;
        let hops = self.hop.iter();
        Ok(hops
            .map(|hop| (hop, variant.hops.get(&hop.name).map(String::as_str)))
            .collect())
    }

    fn check(&self) -> Result<(), RecipeError> {
        let wrong = |text: String| Err(RecipeError::Wrong(text));
        if self.hop.len() < 2 {
            return wrong("a chain has two hops or more".to_owned());
        }
        for (index, hop) in self.hop.iter().enumerate() {
            if !is_word(&hop.name) {
                return wrong(format!(
                    "hop {:?}: a name has small letters, digits and underscores",
                    hop.name
                ));
            }
            if self.hop[..index].iter().any(|other| other.name == hop.name) {
                return wrong(format!("two hops are called {:?}", hop.name));
            }
        }
        for (name, variant) in &self.variants {
            let known = |hop: &&String| self.hop.iter().any(|other| other.name == **hop);
            if let Some(hop) = variant.hops.keys().find(|hop| !known(hop)) {
                return wrong(format!(
                    "variant {name} names a hop {hop:?} that it has not"
                ));
            }
        }
        Ok(())
    }
}

/// A program with a variant and a transport chosen.
#[derive(Clone, Debug)]
pub(crate) struct ChosenProgram {
    pub(crate) recipe: ProgramRecipe,
    /// Its arguments; what differs from round to round stays a placeholder.
    pub(crate) arguments: Vec<String>,
    /// Its configuration files; what differs from round to round (port, folders, CPUs) stays a
    /// placeholder.
    pub(crate) config: Vec<ConfigFile>,
    /// Variables of its environment, likewise.
    pub(crate) environment: Vec<(String, String)>,
    /// The settings that matter.
    pub(crate) settings: Vec<Setting>,
}

impl ChosenProgram {
    /// The hops whose ports it asks for, `None` for the next one.
    pub(crate) fn asks_for(&self) -> Vec<Option<String>> {
        let files = self.config.iter().map(|file| &file.text);
        let environment = self.environment.iter().map(|(_, value)| value);
        let texts = files.chain(&self.arguments).chain(environment);
        texts.flat_map(|text| ports_in(text)).collect()
    }
}

fn pick<'a, V>(variants: &'a BTreeMap<String, V>, wanted: &str) -> Result<&'a V, RecipeError> {
    variants.get(wanted).ok_or_else(|| {
        let known: Vec<&str> = variants.keys().map(String::as_str).collect();
        RecipeError::Variant {
            wanted: wanted.to_owned(),
            known: known.join(", "),
        }
    })
}

fn pairs(values: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    let values = values.iter();
    values
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect()
}

/// Whether it is the name of a file in the folder itself.
fn is_plain(name: &str) -> bool {
    !name.starts_with('.')
        && !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = r#"
program = "server"
package = "server-package"
version = ["-v"]
command = ["{program}", "-c", "{dir}/server.conf"]
config = ["server.conf"]
default_variant = "a"

[transport.clear]
listen = "{port}{more}"

[transport.tls]
listen = "{port} {cert}"

[variants.a]
summary = "one"
values = { more = " fast" }
settings = { "file cache" = "on" }
"#;

    fn program(text: &str) -> ProgramRecipe {
        match Recipe::parse(text).unwrap() {
            Recipe::Program(program) => *program,
            Recipe::Chain(_) => panic!("it has no hops"),
        }
    }

    fn wrong(text: &str) -> String {
        Recipe::parse(text).unwrap_err().to_string()
    }

    /// A transport that is not there is refused with those that are.
    #[test]
    fn transports_fill_templates() {
        let recipe = program(PROGRAM);
        let template = |_: &str| Some("listen {listen}; {port}".to_owned());
        let tls = |tls, http2| Transport { tls, http2 };
        let text = |transport| {
            let chosen = recipe.choose(None, transport, template).unwrap();
            chosen.config[0].text.clone()
        };
        assert_eq!(text(Transport::CLEAR), "listen {port} fast; {port}");
        assert_eq!(text(tls(true, false)), "listen {port} {cert}; {port}");
        let error = recipe.choose(None, tls(true, true), template).unwrap_err();
        assert_eq!(
            error.to_string(),
            "it cannot speak HTTP/2 over TLS (h2); it speaks clear, tls"
        );
        let error = recipe.choose(Some("b"), Transport::CLEAR, template);
        assert_eq!(
            error.unwrap_err().to_string(),
            "it has no variant \"b\"; it has a"
        );
        let error = recipe.choose(None, Transport::CLEAR, |_| None).unwrap_err();
        assert_eq!(error.to_string(), "its template server.conf is missing");
    }

    /// Without a table of transports a recipe speaks HTTP/1.1 in clear alone.
    #[test]
    fn clear_is_the_default_transport() {
        let begin = PROGRAM.find("[transport.clear]").unwrap();
        let end = PROGRAM.find("[variants.a]").unwrap();
        let recipe = program(&format!("{}{}", &PROGRAM[..begin], &PROGRAM[end..]));
        let choose = |transport| recipe.choose(None, transport, |_| Some(String::new()));
        for transport in Transport::ALL {
            assert_eq!(choose(transport).is_ok(), transport == Transport::CLEAR);
        }
    }

    /// What a recipe may not say is refused with what was found.
    #[test]
    fn contradictions_are_refused() {
        let with = |old: &str, new: &str| {
            assert!(PROGRAM.contains(old), "{old}");
            wrong(&PROGRAM.replace(old, new))
        };
        for name in ["../server.conf", "/etc/passwd", ".hidden", "", "a b"] {
            let text = with("[\"server.conf\"]", &format!("[{name:?}]"));
            assert!(text.contains("not the name of a file beside"), "{text}");
        }
        let text = with("transport.clear", "transport.quic");
        assert!(text.contains("there are clear, h2, h2c and tls"), "{text}");
        let text = with("default_variant = \"a\"", "default_variant = \"z\"");
        assert!(text.contains("\"z\" is none of its variants"), "{text}");
        let text = with("[\"{program}\", ", "[\"rm\", ");
        assert!(text.contains("begin with \"{program}\""), "{text}");
        let text = with("program = \"server\"", "program = \"server\"\nprogramm = 1");
        assert!(text.contains("programm"), "{text}");
        assert!(wrong("not toml").contains("TOML parse error"));
    }

    /// Hops have different names that can stand in placeholders, and variants name only them.
    #[test]
    fn chains_are_checked() {
        let chain = |first: &str, second: &str, named: &str| {
            format!(
                "default_variant = \"a\"\n[[hop]]\nname = \"{first}\"\nrecipe = \"x\"\n\
                 [[hop]]\nname = \"{second}\"\nrecipe = \"y\"\n\
                 [variants.a]\nsummary = \"one\"\nhops = {{ {named} = \"v\" }}\n"
            )
        };
        let Recipe::Chain(recipe) = Recipe::parse(&chain("front", "origin", "origin")).unwrap()
        else {
            panic!("it has hops");
        };
        let chosen = recipe.choose(None).unwrap();
        let chosen: Vec<(&str, Option<&str>)> = chosen
            .iter()
            .map(|(hop, variant)| (hop.recipe.as_str(), *variant))
            .collect();
        assert_eq!(chosen, [("x", None), ("y", Some("v"))]);
        for (first, second, named, what) in [
            ("a", "a", "a", "two hops are called"),
            ("A b", "c", "c", "a name has small letters"),
            ("a", "b", "c", "names a hop \"c\""),
        ] {
            let text = wrong(&chain(first, second, named));
            assert!(text.contains(what), "{text}");
        }
    }
}

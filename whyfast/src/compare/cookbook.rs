//! Where recipes come from: those that are built in, and a folder of the user's own.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::compare::recipe::{ChosenProgram, ProgramRecipe, Recipe, RecipeError};
use crate::compare::recipe_folder::{self, RecipeFolder};
use crate::compare::transport::Transport;
use crate::compare::{built_in, npm};
use crate::failure::Failure;
use crate::spawn::find_program;

/// All recipes that can be named.
#[derive(Clone, Debug)]
pub(crate) struct Cookbook {
    /// The user's own folder.
    own: Option<RecipeFolder>,
}

/// A program of an arm with everything about it chosen.
#[derive(Clone, Debug)]
pub(crate) struct ChosenHop {
    /// Its part in the chain; empty where the arm is one program.
    pub(crate) name: String,
    pub(crate) program: ChosenProgram,
    /// The folder of its recipe, where that is the user's own.
    pub(crate) folder: Option<PathBuf>,
}

impl Cookbook {
    /// The recipes that are built in.
    pub(crate) fn built_in() -> Self {
        Self { own: None }
    }

    /// Those, and the ones in a folder, which come first.
    pub(crate) fn open(folder: Option<&Path>) -> anyhow::Result<Self> {
        let own = folder.map(RecipeFolder::open).transpose()?;
        Ok(Self { own })
    }

    /// The names of all recipes, sorted.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.own_names().collect();
        for name in built_in::names() {
            names.push(name);
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The folder of a recipe of the user's own.
    pub(crate) fn own_folder(&self, name: &str) -> Option<PathBuf> {
        self.own.as_ref()?.of_recipe(name)
    }

    /// Names in the user's folder that are also built in: the user's recipe is used.
    pub(crate) fn hidden(&self) -> Vec<&str> {
        let is_built_in = |name: &&str| built_in::recipe(name).is_some();
        self.own_names().filter(is_built_in).collect()
    }

    fn own_names(&self) -> impl Iterator<Item = &str> {
        let own = self.own.iter().flat_map(RecipeFolder::names);
        own.map(String::as_str)
    }

    /// A recipe by its name.
    pub(crate) fn find(&self, name: &str) -> anyhow::Result<Recipe> {
        if let Some(folder) = self.own_folder(name) {
            let path = folder.join(recipe_folder::FILE);
            let wrong = |why: String| Failure::usage(format!("recipe {}: {why}", path.display()));
            let text = recipe_folder::read(&folder, recipe_folder::FILE)
                .map_err(|why| wrong(why.to_string()))?;
            return Recipe::parse(&text).map_err(|error| wrong(error.to_string()));
        }
        let Some(text) = built_in::recipe(name) else {
            return Err(Failure::usage(format!(
                "no recipe is called {name:?}; there are {}. Another server is an arm as a command: \
                 {name}=cmd:COMMAND",
                self.names().join(", ")
            )));
        };
        Recipe::parse(text).with_context(|| format!("failed to read the built-in recipe {name}"))
    }

    /// The recipes of the programs that a recipe starts, the client's end first.
    pub(crate) fn programs(&self, name: &str) -> anyhow::Result<Vec<ProgramRecipe>> {
        let hops = match self.find(name)? {
            Recipe::Program(recipe) => return Ok(vec![*recipe]),
            Recipe::Chain(chain) => chain.hop,
        };
        let mut programs = Vec::new();
        for hop in hops {
            if let Recipe::Program(recipe) = self.find(&hop.recipe)? {
                programs.push(*recipe);
            }
        }
        Ok(programs)
    }

    /// What has to be installed before a recipe can be used, one sentence each; `None` where nothing
    /// has.
    pub(crate) fn lacks(&self, name: &str) -> anyhow::Result<Option<String>> {
        let folder = self.own_folder(name);
        let mut lacks: Vec<String> = Vec::new();
        for recipe in self.programs(name)? {
            let lack = if find_program(recipe.program.as_ref()).is_none() {
                format!("no {}; {}", recipe.program, recipe.how_to_install())
            } else if let Err(missing) = npm::find(&recipe.modules, folder.as_deref()) {
                missing.to_string()
            } else {
                continue;
            };
            if !lacks.contains(&lack) {
                lacks.push(lack);
            }
        }
        Ok((!lacks.is_empty()).then(|| lacks.join("; ")))
    }

    /// The programs of a recipe with everything chosen, the client's end first.
    pub(crate) fn choose(
        &self,
        name: &str,
        variant: Option<&str>,
        transport: Transport,
    ) -> anyhow::Result<Vec<ChosenHop>> {
        let hops = match self.find(name)? {
            Recipe::Program(recipe) => {
                let hop = self.choose_program(name, "", &recipe, variant, transport)?;
                vec![hop]
            }
            Recipe::Chain(chain) => {
                let chosen = chain.choose(variant);
                let chosen = chosen.map_err(|error| usage(name, &error))?;
                let mut hops = Vec::new();
                for (hop, variant) in chosen {
                    let Recipe::Program(recipe) = self.find(&hop.recipe)? else {
                        return Err(Failure::usage(format!(
                            "recipe {name}: its hop {} is {}, a chain itself; name the programs of \
                             that one",
                            hop.name, hop.recipe
                        )));
                    };
                    // Between hops all is clear, on loopback.
                    let transport = if hops.is_empty() {
                        transport
                    } else {
                        Transport::CLEAR
                    };
                    hops.push(self.choose_program(
                        &hop.recipe,
                        &hop.name,
                        &recipe,
                        variant,
                        transport,
                    )?);
                }
                hops
            }
        };
        check_ports(name, &hops)?;
        Ok(hops)
    }

    fn choose_program(
        &self,
        recipe_name: &str,
        hop: &str,
        recipe: &ProgramRecipe,
        variant: Option<&str>,
        transport: Transport,
    ) -> anyhow::Result<ChosenHop> {
        let folder = self.own_folder(recipe_name);
        // Read first, so that what is wrong with a file is said as it is.
        let mut texts = Vec::new();
        for template in recipe.templates() {
            let text = match &folder {
                Some(folder) => recipe_folder::read(folder, template).map_err(|why| {
                    let path = folder.join(template);
                    Failure::usage(format!(
                        "recipe {recipe_name}: template {}: {why}",
                        path.display()
                    ))
                })?,
                None => built_in::template(recipe_name, template)
                    .with_context(|| format!("recipe {recipe_name} has no template {template}"))?
                    .to_owned(),
            };
            texts.push((template, text));
        }
        let text_of = |wanted: &str| {
            let mut texts = texts.iter();
            texts.find_map(|(name, text)| (name.as_str() == wanted).then(|| text.clone()))
        };
        let program = recipe
            .choose(variant, transport, text_of)
            .map_err(|error| usage(recipe_name, &error))?;
        Ok(ChosenHop {
            name: hop.to_owned(),
            program,
            folder,
        })
    }
}

fn usage(name: &str, error: &RecipeError) -> anyhow::Error {
    Failure::usage(format!("recipe {name}: {error}"))
}

/// Each hop may ask for the ports of those that are started before it: the ones behind it.
fn check_ports(name: &str, hops: &[ChosenHop]) -> anyhow::Result<()> {
    for (index, hop) in hops.iter().enumerate() {
        let behind = &hops[index + 1..];
        for wanted in hop.program.asks_for() {
            let known = match &wanted {
                None => !behind.is_empty(),
                Some(wanted) => behind.iter().any(|other| other.name == *wanted),
            };
            if known {
                continue;
            }
            return Err(Failure::usage(match wanted {
                None => format!(
                    "recipe {name}: {} passes requests on, and there is nothing behind it; it is a \
                     part of chains such as hitch-haproxy-nginx",
                    hop.program.recipe.program
                ),
                Some(wanted) => format!(
                    "recipe {name}: {} asks for {{port_{wanted}}}, and no hop behind it is called so",
                    hop.program.recipe.program
                ),
            }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::template::fill;

    /// What is filled in for a round.
    const OF_A_ROUND: [&str; 11] = [
        "cert", "cpus", "dir", "file", "key", "pem", "port", "program", "root", "upstream",
        "workers",
    ];

    /// The first word in braces that a server would see.
    fn left_over(text: &str) -> Option<&str> {
        let mut words = text.split('{').skip(1);
        words.find_map(|rest| {
            let word = rest.split_once('}')?.0;
            let is_word =
                !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            is_word.then_some(word)
        })
    }

    /// Every built-in recipe reads, and each of its variants is complete for each transport that it
    /// speaks: only the placeholders of a round are left, and JavaScript's own.
    #[test]
    fn built_in_recipes_are_complete() {
        let values: Vec<(&str, &str)> = OF_A_ROUND.iter().map(|key| (*key, "VALUE")).collect();
        let cookbook = Cookbook::built_in();
        for name in cookbook.names() {
            let recipe = cookbook.find(name).unwrap();
            let Recipe::Program(program) = &recipe else {
                continue;
            };
            let mut spoken = 0;
            for (variant, summary) in recipe.variants() {
                assert!(!summary.is_empty(), "{name}:{variant}");
                for transport in Transport::ALL {
                    let chosen =
                        cookbook.choose_program(name, "", program, Some(variant), transport);
                    let chosen = match chosen {
                        Ok(chosen) => chosen,
                        Err(error) if error.to_string().contains("it cannot speak") => continue,
                        Err(error) => panic!("{name}:{variant} {transport}: {error}"),
                    };
                    spoken += 1;
                    let files = chosen.program.config.iter().map(|file| &file.text);
                    for text in files.chain(&chosen.program.arguments) {
                        let filled = fill(&text.replace("${", "$("), &values);
                        assert_eq!(left_over(&filled), None, "{name}:{variant} {transport}");
                    }
                    assert!(!chosen.program.settings.is_empty(), "{name}:{variant}");
                }
            }
            assert!(spoken > 0, "{name} speaks nothing");
        }
    }

    /// Every built-in chain can be chosen over TLS, and its hops are those that it names.
    #[test]
    fn built_in_chains_are_complete() {
        let cookbook = Cookbook::built_in();
        let tls = Transport {
            tls: true,
            http2: false,
        };
        let mut chains = 0;
        for name in cookbook.names() {
            let recipe = cookbook.find(name).unwrap();
            let Recipe::Chain(chain) = &recipe else {
                continue;
            };
            chains += 1;
            for (variant, _) in recipe.variants() {
                let hops = cookbook.choose(name, Some(variant), tls).unwrap();
                let names: Vec<&str> = hops.iter().map(|hop| hop.name.as_str()).collect();
                let wanted: Vec<&str> = chain.hop.iter().map(|hop| hop.name.as_str()).collect();
                assert_eq!(names, wanted);
                assert!(hops.last().unwrap().program.asks_for().is_empty());
            }
        }
        assert!(chains >= 6);
    }

    /// A program that passes requests on is no server by itself, and a transport is refused by name.
    #[test]
    fn what_cannot_be_is_refused() {
        let cookbook = Cookbook::built_in();
        let refused = |name: &str, variant: Option<&str>, transport: Transport| {
            let error = cookbook.choose(name, variant, transport).unwrap_err();
            let code = crate::failure::exit_code_of(&error);
            assert_eq!(code, recording::exit_code::USAGE, "{error}");
            error.to_string()
        };
        let tls = Transport {
            tls: true,
            http2: false,
        };
        let text = refused("hitch", None, tls);
        assert!(text.contains("hitch passes requests on"), "{text}");
        let text = refused("nginx", Some("proxy"), Transport::CLEAR);
        assert!(text.contains("nothing behind it"), "{text}");
        let text = refused("hitch-haproxy-nginx", None, Transport::CLEAR);
        assert!(
            text.contains("recipe hitch: it cannot speak HTTP/1.1 in clear"),
            "{text}"
        );
        let text = refused("apache", None, Transport::CLEAR);
        assert!(text.contains("caddy, express,"), "{text}");
        let text = refused("nginx", Some("x"), Transport::CLEAR);
        assert!(text.contains("default, new-connections"), "{text}");
    }
}

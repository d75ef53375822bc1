//! What the arms of scenarios need: programs, the packages that bring them, and modules of Node.js.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::scenario::{Scenario, read};
use crate::command;
use crate::packages::{self, Package};

/// A recipe as its file has it: a program, or a chain of other recipes.
#[derive(Clone, Debug, Deserialize)]
struct Recipe {
    program: Option<String>,
    #[serde(default)]
    package: String,
    /// What brings it where no package does.
    install: Option<String>,
    #[serde(default)]
    modules: Vec<String>,
    #[serde(default)]
    hop: Vec<Hop>,
}

#[derive(Clone, Debug, Deserialize)]
struct Hop {
    recipe: String,
}

/// Something that is not here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lack {
    /// A program, the packages that bring it, and what brings it where there is no package.
    Program {
        program: String,
        packages: Vec<String>,
        otherwise: Option<String>,
    },
    /// A module of Node.js.
    Module(String),
}

impl Lack {
    /// What is missing and what brings it.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Program {
                program,
                packages,
                otherwise,
            } => match (packages.is_empty(), otherwise) {
                (false, _) => format!("{program} (apt-get install {})", packages.join(" ")),
                (true, Some(how)) => format!("{program} ({how})"),
                (true, None) => program.clone(),
            },
            Self::Module(module) => {
                format!("the module {module} of Node.js (npm install --prefix {MODULES} {module})")
            }
        }
    }
}

/// What is missing, by arm.
#[derive(Clone, Debug)]
pub(super) struct Needs {
    root: PathBuf,
    by_arm: BTreeMap<String, Vec<Lack>>,
}

impl Needs {
    /// Of every arm of the scenarios.
    pub(super) fn of(root: &Path, scenarios: &[Scenario], as_published: bool) -> Result<Self> {
        let mut needs = Self {
            root: root.to_owned(),
            by_arm: BTreeMap::new(),
        };
        for scenario in scenarios {
            let (required, optional) = scenario.arms(as_published);
            for arm in required.into_iter().chain(optional) {
                let lacks = needs.lacks(recipe_of(&arm))?;
                needs.by_arm.insert(arm, lacks);
            }
        }
        Ok(needs)
    }

    fn recipe(&self, name: &str) -> Result<Recipe> {
        let folder = self.root.join("whyfast/recipes").join(name);
        read(&folder.join("recipe.toml"))
    }

    /// The programs of an arm.
    pub(super) fn programs(&self, arm: &str) -> Result<BTreeSet<String>> {
        let recipe = self.recipe(recipe_of(arm))?;
        let mut programs: BTreeSet<String> = recipe.program.into_iter().collect();
        for hop in &recipe.hop {
            programs.extend(self.programs(&hop.recipe)?);
        }
        Ok(programs)
    }

    /// What a recipe lacks.
    fn lacks(&self, name: &str) -> Result<Vec<Lack>> {
        let recipe = self.recipe(name)?;
        let mut lacks = BTreeSet::new();
        for hop in &recipe.hop {
            lacks.extend(self.lacks(&hop.recipe)?);
        }
        if let Some(program) = recipe.program
            && command::find(&program, &SYSTEM.map(PathBuf::from)).is_none()
        {
            lacks.insert(Lack::Program {
                program,
                packages: recipe
                    .package
                    .split(' ')
                    .filter(|p| !p.is_empty())
                    .map(str::to_owned)
                    .collect(),
                otherwise: recipe.install,
            });
        }
        let path = self.node_path();
        for module in recipe.modules {
            let here = |folder: PathBuf| folder.join(&module).join("package.json").is_file();
            if !std::env::split_paths(&path).any(here) {
                lacks.insert(Lack::Module(module));
            }
        }
        Ok(lacks.into_iter().collect())
    }

    /// Whether an arm can be run.
    pub(super) fn has(&self, arm: &str) -> bool {
        self.by_arm.get(arm).is_some_and(Vec::is_empty)
    }

    /// What these arms lack, each thing once.
    pub(super) fn lacking(&self, arms: &[String]) -> Vec<Lack> {
        let lacks = arms.iter().filter_map(|arm| self.by_arm.get(arm));
        let lacks: BTreeSet<&Lack> = lacks.flatten().collect();
        lacks.into_iter().cloned().collect()
    }

    /// A line for each arm that cannot be run.
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        for (arm, lacks) in self.by_arm.iter().filter(|(_, lacks)| !lacks.is_empty()) {
            let lacks: Vec<String> = lacks.iter().map(Lack::describe).collect();
            writeln!(text, "{arm} lacks {}", lacks.join(", ")).expect("a string can grow");
        }
        text
    }

    /// Brings what is missing, as far as packages and npm have it.
    pub(super) fn install(&self) -> Result<()> {
        let all: BTreeSet<&Lack> = self.by_arm.values().flatten().collect();
        let mut wanted = BTreeSet::new();
        let mut modules = Vec::new();
        for lack in all {
            match lack {
                Lack::Program { packages, .. } => {
                    wanted.extend(packages.iter().map(String::as_str));
                }
                Lack::Module(module) => modules.push(module.as_str()),
            }
        }
        if !modules.is_empty() && command::find("npm", &[]).is_none() {
            wanted.insert("npm");
        }
        let purpose = "a server of the suite";
        let wanted: Vec<Package<'_>> = wanted
            .into_iter()
            .map(|name| Package { name, purpose })
            .collect();
        if !wanted.is_empty() {
            packages::install(&wanted)?;
        }
        if !modules.is_empty() {
            let folder = self.root.join(MODULES);
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("failed to make {}", folder.display()))?;
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-audit", "--no-fund", "--prefix"]);
            command::run(npm.arg(&folder).args(modules))?;
        }
        Ok(())
    }

    /// The folders in which Node.js looks: ours, and those that it was told.
    pub(super) fn node_path(&self) -> OsString {
        let own = self.root.join(MODULES).join("node_modules");
        let told = std::env::var_os("NODE_PATH").unwrap_or_default();
        let system = SYSTEM_MODULES.map(PathBuf::from);
        let told = std::env::split_paths(&told).filter(|path| path.is_absolute());
        let all: Vec<PathBuf> = told.chain([own]).chain(system).collect();
        std::env::join_paths(&all).unwrap_or_default()
    }
}

/// The recipe of an arm, without its variant.
fn recipe_of(arm: &str) -> &str {
    arm.split(':').next().unwrap_or(arm)
}

/// Where modules of Node.js are installed.
const MODULES: &str = "target/suite/node";
/// Where whyfast looks for servers besides `PATH`.
pub(super) const SYSTEM: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
/// Where packages of the system and `npm install --global` keep modules.
const SYSTEM_MODULES: [&str; 3] = [
    "/usr/local/lib/node_modules",
    "/usr/lib/node_modules",
    "/usr/share/nodejs",
];

#[cfg(test)]
mod tests {
    use super::super::scenario::wanted;
    use super::*;
    use crate::tree;

    /// Every arm of every scenario has a recipe whose programs are known, chains included.
    #[test]
    fn recipes_of_all_arms_are_read() {
        let root = tree::root();
        let scenarios = wanted(&root, &[]).unwrap();
        for as_published in [false, true] {
            let needs = Needs::of(&root, &scenarios, as_published).unwrap();
            assert!(needs.by_arm.len() >= 5, "{needs:?}");
        }
        let needs = Needs::of(&root, &scenarios, false).unwrap();
        let nuster = needs.lacks("nuster-nginx").unwrap();
        // No distribution has it, so what is said is how it is built.
        if let Some(lack) = nuster
            .iter()
            .find(|lack| lack.describe().starts_with("nuster"))
        {
            assert!(lack.describe().contains("build it"), "{lack:?}");
        }
    }

    /// What is missing is named with the package, the module or the words that bring it.
    #[test]
    fn lacks_are_named_with_what_brings_them() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let folder = root.path().join("whyfast/recipes").join(name);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("recipe.toml"), text).unwrap();
        };
        write(
            "one",
            "program = 'no-such-program-one'\npackage = 'one one-tls'",
        );
        write(
            "two",
            "program = 'sh'\npackage = 'dash'\nmodules = ['no-such-module']",
        );
        write(
            "three",
            "program = 'no-such-program-three'\ninstall = 'build it'",
        );
        write(
            "all",
            "[[hop]]\nname = 'a'\nrecipe = 'one'\n[[hop]]\nname = 'b'\nrecipe = 'two'",
        );
        let needs = Needs {
            root: root.path().to_owned(),
            by_arm: BTreeMap::new(),
        };
        let said = |name: &str| -> Vec<String> {
            let lacks = needs.lacks(name).unwrap();
            lacks.iter().map(Lack::describe).collect()
        };
        let module = "the module no-such-module of Node.js (npm install --prefix target/suite/node no-such-module)";
        let one = "no-such-program-one (apt-get install one one-tls)";
        assert_eq!(said("all"), [one, module]);
        assert_eq!(said("three"), ["no-such-program-three (build it)"]);
        assert!(needs.lacks("unknown").is_err());
    }
}

//! Modules of npm that a server needs: where they are, and how they are had.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use recording::Setting;

/// Modules that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The value of `NODE_PATH`.
    pub(crate) node_path: String,
    /// Their versions.
    pub(crate) versions: Vec<Setting>,
}

/// The modules that were not found, and the folders that were looked in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "node finds no module {} in {}; install it with `npm install --prefix DIR {}` and name the folder with \
     NODE_PATH=DIR/node_modules",
    .missing.join(", "),
    .looked.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
    .missing.join(" ")
)]
pub(crate) struct Missing {
    missing: Vec<String>,
    looked: Vec<PathBuf>,
}

/// Looks for modules where `NODE_PATH` says, in the recipe's own folder and where the system keeps them.
pub(crate) fn find(modules: &[String], recipe_folder: Option<&Path>) -> Result<Found, Missing> {
    let named = env::var_os("NODE_PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&named)
        .filter(|path| path.is_absolute())
        .collect();
    folders.extend(recipe_folder.map(|folder| folder.join("node_modules")));
    folders.extend(SYSTEM.map(PathBuf::from));
    find_in(modules, folders)
}

fn find_in(modules: &[String], folders: Vec<PathBuf>) -> Result<Found, Missing> {
    let mut used: Vec<&PathBuf> = Vec::new();
    let mut versions = Vec::new();
    let mut missing = Vec::new();
    for module in modules {
        let found = folders.iter().find_map(|folder| {
            let about = fs::read(folder.join(module).join("package.json")).ok()?;
            let about: serde_json::Value = serde_json::from_slice(&about).ok()?;
            Some((folder, about.get("version")?.as_str()?.to_owned()))
        });
        match found {
            None => missing.push(module.clone()),
            Some((folder, version)) => {
                if !used.contains(&folder) {
                    used.push(folder);
                }
                versions.push(Setting {
                    key: format!("npm {module}"),
                    value: reports::clean(&version),
                });
            }
        }
    }
    if !missing.is_empty() {
        return Err(Missing {
            missing,
            looked: folders,
        });
    }
    let paths: Vec<String> = used.iter().map(|path| path.display().to_string()).collect();
    Ok(Found {
        node_path: paths.join(":"),
        versions,
    })
}

/// Where packages of the system and `npm install --global` keep modules.
const SYSTEM: [&str; 3] = [
    "/usr/local/lib/node_modules",
    "/usr/lib/node_modules",
    "/usr/share/nodejs",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn module(folder: &Path, name: &str, text: &str) {
        fs::create_dir_all(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("package.json"), text).unwrap();
    }

    /// Each module is found in the first folder that has it, with its version.
    #[test]
    fn modules_are_found_in_order() {
        let [a, b] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        module(a.path(), "express", r#"{"version": "5.1.0"}"#);
        module(b.path(), "express", r#"{"version": "4.0.0"}"#);
        module(b.path(), "spdy", r#"{"version": "4.0.2"}"#);
        let folders = [a.path(), b.path()].map(Path::to_owned);
        let modules = ["express", "spdy"].map(str::to_owned);
        let found = find_in(&modules, folders.to_vec()).unwrap();
        let versions: Vec<&str> = found.versions.iter().map(|s| s.value.as_str()).collect();
        assert_eq!(versions, ["5.1.0", "4.0.2"]);
        let both = format!("{}:{}", a.path().display(), b.path().display());
        assert_eq!(found.node_path, both);
    }

    /// What is missing is named with the command that brings it; a broken package is missing too.
    #[test]
    fn missing_modules_are_named() {
        let folder = tempfile::tempdir().unwrap();
        module(folder.path(), "express", "{");
        let modules = ["express", "spdy"].map(str::to_owned);
        let error = find_in(&modules, vec![folder.path().to_owned()]).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("npm install --prefix DIR express spdy"),
            "{text}"
        );
        assert!(text.contains(folder.path().to_str().unwrap()), "{text}");
    }
}

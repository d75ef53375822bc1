//! A folder of recipes of the user's own. What is in it is not trusted: it may be read by whoever whyfast
//! runs as, root included, and ends up in recordings.

use std::fs;
use std::path::{Path, PathBuf};

use crate::compare::arms::is_name;
use crate::failure::Failure;

/// A folder with a folder for each recipe.
#[derive(Clone, Debug)]
pub(crate) struct RecipeFolder {
    path: PathBuf,
    names: Vec<String>,
}

impl RecipeFolder {
    /// Looks which recipes are in a folder.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Self> {
        let wrong = |what: String| {
            let hint = "a recipe is a folder in it with a recipe.toml";
            Failure::usage(format!("--recipes {}: {what}; {hint}", folder.display()))
        };
        let failed = |error: std::io::Error| wrong(error.to_string());
        let path = folder.canonicalize().map_err(failed)?;
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.path().join(FILE).symlink_metadata().is_err() {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            if !is_name(&name) {
                let name = reports::clean(&name);
                return Err(wrong(format!("the folder {name:?} is no name of a recipe")));
            }
            names.push(name);
        }
        if names.is_empty() {
            return Err(wrong("there is no recipe in it".to_owned()));
        }
        names.sort();
        Ok(Self { path, names })
    }

    /// The names of the recipes, sorted.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The folder of a recipe.
    pub(crate) fn of_recipe(&self, name: &str) -> Option<PathBuf> {
        let is_here = self.names.iter().any(|own| own == name);
        is_here.then(|| self.path.join(name))
    }
}

/// The text of a file that has to be in the folder itself, also through links.
pub(crate) fn read(folder: &Path, name: &str) -> Result<String, ReadError> {
    let path = folder.join(name).canonicalize()?;
    if !path.starts_with(folder) {
        return Err(ReadError::Outside(path));
    }
    let about = path.metadata()?;
    if !about.is_file() {
        return Err(ReadError::NoFile);
    }
    if about.len() > LONGEST {
        return Err(ReadError::Long(about.len()));
    }
    String::from_utf8(fs::read(&path)?).map_err(|_bytes| ReadError::NoText)
}

/// Why a file of a recipe cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{} bytes are more than the {LONGEST} that a recipe's file may have", .0)]
    Long(u64),
    #[error("it is no file")]
    NoFile,
    #[error("it is no UTF-8")]
    NoText,
    #[error("it leads out of the recipe's folder, to {}", .0.display())]
    Outside(PathBuf),
}

/// The file of a recipe in its folder.
pub(crate) const FILE: &str = "recipe.toml";

/// Bytes of a recipe or a template: more than any configuration written by hand.
const LONGEST: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cookbook::Cookbook;
    use crate::compare::transport::Transport;

    const OWN: &str = "program = \"sh\"\npackage = \"dash\"\nversion = []\n\
                       command = [\"{program}\"]\nconfig = [\"own.conf\"]\ndefault_variant = \"a\"\n\
                       [variants.a]\nsummary = \"mine\"\nsettings = { shell = \"yes\" }\n";

    fn own(folder: &Path, name: &str) -> PathBuf {
        let folder = folder.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("recipe.toml"), OWN).unwrap();
        fs::write(folder.join("own.conf"), "port {port}").unwrap();
        folder
    }

    /// A recipe of the user's own is used like a built-in one, and instead of one of its name.
    #[test]
    fn own_recipes_come_first() {
        let folder = tempfile::tempdir().unwrap();
        own(folder.path(), "mine");
        own(folder.path(), "nginx");
        let cookbook = Cookbook::open(Some(folder.path())).unwrap();
        assert_eq!(cookbook.hidden(), ["nginx"]);
        assert!(cookbook.names().contains(&"mine"));
        assert_eq!(
            cookbook
                .names()
                .iter()
                .filter(|name| **name == "nginx")
                .count(),
            1
        );
        for name in ["mine", "nginx"] {
            let hops = cookbook.choose(name, None, Transport::CLEAR).unwrap();
            assert_eq!(hops[0].program.config[0].text, "port {port}");
        }
        // A chain of one's own may have built-in programs in it.
        let chain = folder.path().join("chain");
        fs::create_dir(&chain).unwrap();
        let text = "default_variant = \"a\"\n[[hop]]\nname = \"front\"\nrecipe = \"haproxy\"\n\
                    [[hop]]\nname = \"back\"\nrecipe = \"mine\"\n\
                    [variants.a]\nsummary = \"s\"\nhops = { front = \"cache\" }\n";
        fs::write(chain.join("recipe.toml"), text).unwrap();
        let cookbook = Cookbook::open(Some(folder.path())).unwrap();
        let hops = cookbook.choose("chain", None, Transport::CLEAR).unwrap();
        assert_eq!(hops.len(), 2);
    }

    /// A folder that is none, files that lead elsewhere, are missing, huge or no text are refused with
    /// their name.
    #[test]
    fn hostile_folders_are_refused() {
        let refused = |spoil: &dyn Fn(&Path)| {
            let folder = tempfile::tempdir().unwrap();
            spoil(&own(folder.path(), "mine"));
            let cookbook = Cookbook::open(Some(folder.path())).unwrap();
            let error = cookbook.choose("mine", None, Transport::CLEAR).unwrap_err();
            let code = crate::failure::exit_code_of(&error);
            assert_eq!(code, recording::exit_code::USAGE, "{error}");
            error.to_string()
        };
        let replace = |folder: &Path, bytes: &[u8]| {
            fs::write(folder.join("own.conf"), bytes).unwrap();
        };
        let text = refused(&|folder| {
            fs::remove_file(folder.join("own.conf")).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", folder.join("own.conf")).unwrap();
        });
        assert!(
            text.contains("leads out of the recipe's folder, to /etc/passwd"),
            "{text}"
        );
        let text = refused(&|folder| fs::remove_file(folder.join("own.conf")).unwrap());
        assert!(text.contains("own.conf: No such file"), "{text}");
        let text = refused(&|folder| replace(folder, &[0xff, 0xfe]));
        assert!(text.contains("it is no UTF-8"), "{text}");
        let text = refused(&|folder| replace(folder, &vec![b'x'; 2 << 20]));
        assert!(text.contains("2097152 bytes are more than"), "{text}");
        let text = refused(&|folder| {
            fs::remove_file(folder.join("own.conf")).unwrap();
            fs::create_dir(folder.join("own.conf")).unwrap();
        });
        assert!(text.contains("it is no file"), "{text}");
        let text = refused(&|folder| fs::write(folder.join("recipe.toml"), "x =").unwrap());
        assert!(
            text.contains("mine/recipe.toml: TOML parse error"),
            "{text}"
        );
    }

    /// A folder without recipes, or that is none, says what it should be.
    #[test]
    fn folders_without_recipes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| Cookbook::open(Some(path)).unwrap_err().to_string();
        let text = refused(folder.path());
        assert!(
            text.contains("there is no recipe in it; a recipe is a folder"),
            "{text}"
        );
        let text = refused(&folder.path().join("nowhere"));
        assert!(text.contains("No such file"), "{text}");
        own(folder.path(), "two words");
        let text = refused(folder.path());
        assert!(
            text.contains("\"two words\" is no name of a recipe"),
            "{text}"
        );
    }
}

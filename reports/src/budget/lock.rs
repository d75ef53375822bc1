//! The file `syscalls.lock`: sorted text that is committed and reviewed like code.
//!
//! ```text
//! [nginx static-1b x86_64]  # nginx/1.22.1
//! hard openat <= 0
//! epoll_wait               1.0000  errors 0  bytes -
//! recvfrom    socket       1.0000  errors 0  bytes 70
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use recording::CallBudget;

use super::{Fixed, Limit};
use crate::clean::clean;
use crate::layout::WRITES;

/// A lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// Comments above the first section, without their `#`; the line that whyfast writes is none.
    pub preface: Vec<String>,
    /// The sections.
    pub sections: BTreeMap<Key, Section>,
}

/// What a section is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Name of the arm.
    pub arm: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Architecture (`uname -m`).
    pub arch: String,
}

/// The counts of one server under one load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Version of the server that was measured.
    pub version: Option<String>,
    /// Comments of people, without their `#`.
    pub notes: Vec<String>,
    /// Limits.
    pub limits: Vec<Limit>,
    /// What is locked.
    pub calls: BTreeMap<CallKey, Figures>,
}

/// A call, and the kind of descriptor where calls are told apart by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallKey {
    /// The name; `ABI:name` for a call that is not of the machine's own ABI.
    pub name: String,
    /// `socket`, `file`...
    pub on: Option<String>,
}

/// What one call costs a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Calls per request.
    pub count: Fixed,
    /// Of them, those that fail, by error.
    pub errors: BTreeMap<String, Fixed>,
    /// Bytes per call that does not fail.
    pub bytes: Option<Fixed>,
}

/// A lock file that cannot be read, or a name that cannot stand in one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// A line is not what it has to be.
    #[error("line {line}: {what}: {found}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong, and what would be right.
        what: String,
        /// The line, cleaned.
        found: String,
    },
    /// A name would not be read back.
    #[error(
        "{name:?} cannot stand in a lock file, where a name is one word without brackets and control \
         characters; give the arm another one (name=ARM)"
    )]
    Name {
        /// The name.
        name: String,
    },
}

impl Lock {
    /// Reads a lock file.
    pub fn parse(text: &str) -> Result<Self, LockError> {
        let mut lock = Self::default();
        let mut current: Option<Key> = None;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            let wrong = |what: String| LockError::Line {
                line: index + 1,
                what,
                found: crate::clean::clean_to(line, 80),
            };
            if line.starts_with('[') {
                let (key, version) = heading(line).map_err(wrong)?;
                let section = Section {
                    version,
                    ..Section::default()
                };
                if lock.sections.insert(key.clone(), section).is_some() {
                    return Err(wrong("this section is there twice".to_owned()));
                }
                current = Some(key);
                continue;
            }
            let section = current.as_ref().and_then(|key| lock.sections.get_mut(key));
            match (line.strip_prefix('#'), section) {
                (Some(comment), None) if is_ours(comment) => {}
                (Some(comment), None) => lock.preface.push(comment.trim().to_owned()),
                (Some(comment), Some(section)) => section.notes.push(comment.trim().to_owned()),
                (None, _) if line.is_empty() => {}
                (None, None) => {
                    return Err(wrong(
                        "this stands above the first section, [arm scenario arch]".to_owned(),
                    ));
                }
                (None, Some(section)) => section.add_line(line).map_err(wrong)?,
            }
        }
        Ok(lock)
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in HEADER {
            writeln!(formatter, "#{line}")?;
        }
        for comment in &self.preface {
            writeln!(formatter, "{}", commented(comment))?;
        }
        for (key, section) in &self.sections {
            let version = section
                .version
                .as_deref()
                .map_or(String::new(), |version| format!("  {}", commented(version)));
            write!(formatter, "\n[{key}]{version}\n{section}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.arm, self.scenario, self.arch)
    }
}

impl Key {
    /// A key whose names can be read back.
    pub fn new(arm: &str, scenario: &str, arch: &str) -> Result<Self, LockError> {
        Ok(Self {
            arm: checked(arm, "")?,
            scenario: checked(scenario, "")?,
            arch: checked(arch, "")?,
        })
    }
}

impl CallKey {
    /// A key whose names can be read back.
    pub fn new(name: &str, on: Option<&str>) -> Result<Self, LockError> {
        // Such a line is read as a limit.
        if ["hard", "soft"].contains(&name) {
            return Err(LockError::Name {
                name: name.to_owned(),
            });
        }
        Ok(Self {
            name: checked(name, "#")?,
            on: on.map(|on| checked(on, "#")).transpose()?,
        })
    }

    /// Whether a metric of a limit means this call: its name, or its name and kind.
    pub(super) fn is_meant_by(&self, metric: &str) -> bool {
        let with_kind = || metric.strip_prefix(&self.name)?.strip_prefix('.');
        metric == self.name || with_kind().is_some_and(|kind| self.on.as_deref() == Some(kind))
    }
}

impl Figures {
    /// As the data model has it.
    pub(super) fn to_budget(&self) -> CallBudget {
        CallBudget {
            per_request: self.count.value(),
            errors_per_request: self
                .errors
                .iter()
                .map(|(name, count)| (name.clone(), count.value()))
                .collect(),
            bytes_per_call: self.bytes.map(Fixed::value),
        }
    }
}

impl Section {
    /// Takes over one line that is neither a heading nor a comment.
    fn add_line(&mut self, line: &str) -> Result<(), String> {
        let (content, comment) = match line.split_once('#') {
            Some((content, comment)) => (content, Some(comment.trim())),
            None => (line, None),
        };
        let words: Vec<&str> = content.split_whitespace().collect();
        if matches!(words[..], ["hard" | "soft", ..]) {
            self.limits.push(Limit::parse(&words, comment)?);
            return Ok(());
        }
        let (key, figures) = call_line(&words)?;
        match self.calls.insert(key, figures) {
            None => Ok(()),
            Some(_) => Err("this call is there twice".to_owned()),
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(formatter, "{}", commented(note))?;
        }
        for limit in &self.limits {
            let comment = limit
                .comment
                .as_deref()
                .map_or(String::new(), |comment| format!("  {}", commented(comment)));
            writeln!(formatter, "{limit}{comment}")?;
        }
        for (key, figures) in &self.calls {
            let on = key.on.as_deref().unwrap_or("");
            let bytes = figures.bytes.map_or("-".to_owned(), Fixed::short);
            writeln!(
                formatter,
                "{:<22} {on:<8} {:>9}  errors {}  bytes {bytes}",
                key.name,
                figures.count.to_string(),
                errors(&figures.errors)
            )?;
        }
        Ok(())
    }
}

fn errors(errors: &BTreeMap<String, Fixed>) -> String {
    if errors.is_empty() {
        return "0".to_owned();
    }
    let mut text = String::new();
    for (name, count) in errors {
        let comma = if text.is_empty() { "" } else { "," };
        write!(text, "{comma}{name}={count}").expect(WRITES);
    }
    text
}

/// `[arm scenario arch]`, and the version behind it as a comment.
fn heading(line: &str) -> Result<(Key, Option<String>), String> {
    let form = || "a section begins with [arm scenario arch]".to_owned();
    let (inside, rest) = line[1..].split_once(']').ok_or_else(form)?;
    let rest = rest.trim();
    let version = match rest.strip_prefix('#').map(str::trim) {
        Some(version) => Some(clean(version)).filter(|version| !version.is_empty()),
        None if rest.is_empty() => None,
        None => return Err(form()),
    };
    let words: Vec<&str> = inside.split_whitespace().collect();
    let [arm, scenario, arch] = words[..] else {
        return Err(form());
    };
    let key = Key::new(arm, scenario, arch).map_err(|error| error.to_string())?;
    Ok((key, version))
}

/// `name [kind] count errors ERRORS bytes BYTES`.
fn call_line(words: &[&str]) -> Result<(CallKey, Figures), String> {
    let form = || "a call reads: recvfrom socket 1.0000 errors 0 bytes 70".to_owned();
    let (name, on, count, failed, bytes) = match *words {
        [name, count, "errors", failed, "bytes", bytes] => (name, None, count, failed, bytes),
        [name, on, count, "errors", failed, "bytes", bytes] => {
            (name, Some(on), count, failed, bytes)
        }
        _ => return Err(form()),
    };
    let number = |text: &str| {
        text.parse::<Fixed>()
            .map_err(|error| format!("{}: {error}", clean(text)))
    };
    let mut figures = Figures {
        count: number(count)?,
        ..Figures::default()
    };
    if failed != "0" {
        for part in failed.split(',') {
            let (errno, count) = part.split_once('=').ok_or_else(form)?;
            let errno = error_name(errno).map_err(|error| error.to_string())?;
            figures.errors.insert(errno, number(count)?);
        }
    }
    if bytes != "-" {
        figures.bytes = Some(number(bytes)?);
    }
    let key = CallKey::new(name, on).map_err(|error| error.to_string())?;
    Ok((key, figures))
}

/// The name of an error that can be read back.
pub(super) fn error_name(name: &str) -> Result<String, LockError> {
    checked(name, "#=,")
}

/// A name that is one word of a line, and shows all that it is; without the characters that mean
/// something where it stands.
fn checked(name: &str, meaning: &str) -> Result<String, LockError> {
    let wrong = |c: char| c.is_whitespace() || "[]".contains(c) || meaning.contains(c);
    if name.is_empty() || name.contains(wrong) || clean(name) != name {
        return Err(LockError::Name { name: clean(name) });
    }
    Ok(name.to_owned())
}

/// A comment as a line of its own or at the end of one.
fn commented(comment: &str) -> String {
    format!("# {comment}").trim_end().to_owned()
}

fn is_ours(comment: &str) -> bool {
    HEADER.iter().any(|line| line.trim() == comment.trim())
}

/// What stands above every lock file, without its `#`.
const HEADER: [&str; 2] = [
    " syscalls.lock: system calls per request, exact, from `whyfast compare --lock-step`. Review it like",
    " code; `whyfast gate --bless` takes over what was measured and keeps comments and limits.",
];

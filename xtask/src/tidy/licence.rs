//! Licences of everything that is linked: only ones that ask for no more than a notice.

use super::Violation;
use crate::tree::{Metadata, Package};

/// Every package that is not ours and whose licence is not allowed.
pub(crate) fn check(metadata: &Metadata) -> Vec<Violation> {
    let foreign = metadata
        .packages
        .iter()
        .filter(|package| !metadata.workspace_members.contains(&package.id));
    foreign.filter_map(refusal).collect()
}

fn refusal(package: &Package) -> Option<Violation> {
    let text = match (&package.license, &package.license_file) {
        (Some(expression), _) if is_allowed(expression) => return None,
        (Some(expression), _) => format!("licence {expression:?} is not allowed"),
        (None, Some(file)) => format!("licence only as a file ({file}): read it, then list it"),
        (None, None) => "no licence".to_owned(),
    };
    let name = format!("{} {}", package.name, package.version);
    Some(Violation::new(&name, 0, text))
}

/// Whether an SPDX expression can be fulfilled with allowed licences. The old way of writing a
/// choice, with a slash, is understood.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words };
    parser.choice() == Some(true) && parser.words.is_empty()
}

struct Parser<'a> {
    words: &'a [&'a str],
}

impl<'a> Parser<'a> {
    /// `a OR b`: one of them is enough.
    fn choice(&mut self) -> Option<bool> {
        let mut allowed = self.conjunction()?;
        while self.take("OR") {
            allowed |= self.conjunction()?;
        }
        Some(allowed)
    }

    /// `a AND b`: each of them is needed.
    fn conjunction(&mut self) -> Option<bool> {
        let mut allowed = self.licence()?;
        while self.take("AND") {
            allowed &= self.licence()?;
        }
        Some(allowed)
    }

    fn licence(&mut self) -> Option<bool> {
        if self.take("(") {
            let allowed = self.choice()?;
            return self.take(")").then_some(allowed);
        }
        let name = self.next()?;
        // An exception only ever permits more.
        if self.take("WITH") {
            self.next()?;
        }
        Some(ALLOWED.contains(&name))
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.words.first() == Some(&word);
        if is_next {
            self.words = &self.words[1..];
        }
        is_next
    }

    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }
}

const ALLOWED: [&str; 15] = [
    "0BSD",
    "Apache-2.0",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    // Asks for the sources of the files under it alone, which are published unchanged.
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Expressions are weighed as SPDX means them, and what cannot be read is not allowed.
    #[test]
    fn expressions() {
        for (expression, allowed) in [
            ("MIT", true),
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0-only OR MIT", true),
            ("MIT AND Unicode-3.0", true),
            ("(MIT OR GPL-2.0-only) AND ISC", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("GPL-3.0-only", false),
            ("MIT AND GPL-3.0-only", false),
            ("MIT OR", false),
            ("(MIT", false),
            ("MIT MIT", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression), allowed, "{expression:?}");
        }
    }

    /// A foreign package without an allowed licence is found; our own are not looked at.
    #[test]
    fn packages() {
        let json = r#"{"packages":[
            {"id":"ours","name":"ours","version":"1.0.0","license":null,"license_file":null,
             "targets":[]},
            {"id":"a","name":"a","version":"1.0.0","license":"GPL-3.0-only","license_file":null,
             "targets":[]},
            {"id":"b","name":"b","version":"2.0.0","license":null,"license_file":null,
             "targets":[]}],
            "workspace_members":["ours"]}"#;
        let metadata = serde_json::from_str(json).expect("well-formed");
        let found: Vec<String> = check(&metadata).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "a 1.0.0: licence \"GPL-3.0-only\" is not allowed",
                "b 2.0.0: no licence"
            ]
        );
    }
}

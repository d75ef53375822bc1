//! Facts that programs print of themselves: libraries, modules.

use serde::Deserialize;

/// Which line of what a program prints about itself to keep.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FactPattern {
    /// What stands before it.
    after: String,
    /// Keep only the words that contain this.
    words: Option<String>,
}

impl FactPattern {
    /// What the first line that has it says.
    pub(crate) fn find(&self, text: &str) -> Option<String> {
        let rest = text
            .lines()
            .find_map(|line| Some(line.split_once(self.after.as_str())?.1.trim()))?;
        let Some(part) = &self.words else {
            return Some(rest.to_owned());
        };
        let words = rest.split_whitespace().filter(|word| word.contains(part));
        Some(words.collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fact is the rest of its line, or the words of it that are asked for (the lines are those of
    /// nginx 1.22).
    #[test]
    fn facts_are_found() {
        let said = "built with OpenSSL 3.0.22\nconfigure arguments: --with-threads --with-http_v2_module\n";
        let find = |after: &str, words: Option<&str>| {
            let (after, words) = (after.to_owned(), words.map(str::to_owned));
            FactPattern { after, words }.find(said)
        };
        assert_eq!(find("built with", None).unwrap(), "OpenSSL 3.0.22");
        assert_eq!(
            find("arguments:", Some("_module")).unwrap(),
            "--with-http_v2_module"
        );
        assert_eq!(find("nothing", None), None);
    }
}

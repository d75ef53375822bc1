//! Placeholders in the texts of recipes: `{port}`, `{port_origin}`, values of a variant.

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

/// The ports of other hops that a text asks for, `None` for that of the next.
pub(crate) fn ports_in(text: &str) -> Vec<Option<String>> {
    let parts = text.split('{').skip(1);
    let names = parts.filter_map(|part| Some(part.split_once('}')?.0));
    names
        .filter_map(|name| {
            if name == "upstream" {
                return Some(None);
            }
            let hop = name.strip_prefix("port_").filter(|hop| is_word(hop))?;
            Some(Some(hop.to_owned()))
        })
        .collect()
}

/// Names of hops are parts of placeholders.
pub(crate) fn is_word(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unknown braces stay, and a value is not expanded again.
    #[test]
    fn fill_replaces_once() {
        let values = [("port", "{dir}"), ("dir", "d")];
        assert_eq!(fill("a {port} { {dir}{x}", &values), "a {dir} { d{x}");
    }

    /// Ports of other hops are found wherever they stand.
    #[test]
    fn ports_of_hops_are_found() {
        let found = ports_in("a {upstream} {port} {port_origin} {port_}{ {port_x y}");
        assert_eq!(found, [None, Some("origin".to_owned())]);
    }
}

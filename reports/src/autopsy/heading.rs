//! Whose output a block is: the heading above it, and the address that was requested.

use super::lines::Lines;

/// The last line above `at`, not above `from`, that reads like the name of a server.
pub(super) fn above(lines: &Lines<'_>, from: usize, at: usize) -> Option<String> {
    (from..at).rev().find_map(|at| heading(lines.at(at)))
}

/// The command of the tool, as somebody pasted it above its output.
pub(super) fn command(lines: &Lines<'_>, from: usize, at: usize, tool: &str) -> Option<String> {
    let first = from.max(at.saturating_sub(COMMAND_LINES));
    (first..=at).rev().find_map(|at| {
        let line = lines.at(at);
        let words: Vec<&str> = line.split_whitespace().collect();
        let program = words.iter().position(|word| {
            let name = word.rsplit('/').next().unwrap_or(word);
            name == tool || (tool == "Parallel::Benchmark" && name == "perl")
        })?;
        let has_options = words[program + 1..].iter().any(|word| is_argument(word));
        has_options.then(|| words[first_assignment(&words, program)..].join(" "))
    })
}

/// Host and port that a command or a URL names.
pub(super) fn address(text: &str) -> Option<String> {
    let url = text.split_whitespace().find(|word| word.contains("://"))?;
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    (!authority.is_empty()).then(|| authority.to_owned())
}

/// The server that the text says listens on the port of an address: the known name that stands
/// nearest to `:PORT`.
pub(super) fn listener(lines: &Lines<'_>, address: &str) -> Option<String> {
    let (_, port) = address.rsplit_once(':')?;
    let mark = format!(":{port}");
    (0..lines.count()).find_map(|at| {
        let line = lines.at(at);
        let mark_at = line.find(&mark)?;
        let is_whole = !line[mark_at + mark.len()..].starts_with(|c: char| c.is_ascii_digit());
        if !is_whole || line.contains("://") {
            return None;
        }
        let names = names_in(line);
        let nearest = names.min_by_key(|(position, _)| position.abs_diff(mark_at))?;
        Some(nearest.1.to_owned())
    })
}

/// The servers that a text names, in its order.
pub(super) fn names_in(text: &str) -> impl Iterator<Item = (usize, &'static str)> {
    let lower = text.to_ascii_lowercase();
    let mut found: Vec<(usize, &'static str)> = KNOWN
        .iter()
        .filter_map(|&name| Some((word_at(&lower, name)?, name)))
        .collect();
    found.sort_unstable();
    found.into_iter()
}

fn heading(line: &str) -> Option<String> {
    let text = line.trim_start_matches('#').trim();
    let length = text.chars().count();
    let begins = text.starts_with(|c: char| c.is_alphanumeric());
    let ends = !text.ends_with(['.', ';', ':', ',', '{', '}', '\\']);
    let is_prose = text.split_whitespace().count() > HEADING_WORDS;
    let is_code = text.contains(['=', ';', '{', '}', '"', '\'', '`', '$', '\t', '@'])
        || text.contains("://")
        || text.contains(": ")
        || text.contains("()");
    let compares = [" vs ", " vs. ", " versus "]
        .iter()
        .any(|word| text.contains(word));
    if length == 0
        || length > HEADING_CHARACTERS
        || !begins
        || !ends
        || is_prose
        || is_code
        || compares
    {
        return None;
    }
    names_in(text).next()?;
    Some(without_run(text).to_owned())
}

/// `nginx run 2` is the second run of `nginx`.
fn without_run(text: &str) -> &str {
    let words: Vec<&str> = text.split(' ').collect();
    let [.., word, number] = words.as_slice() else {
        return text;
    };
    let is_run = ["run", "test", "round", "#"].contains(&word.to_ascii_lowercase().as_str())
        && number
            .trim_start_matches('#')
            .bytes()
            .all(|byte| byte.is_ascii_digit());
    if is_run {
        text[..text.len() - word.len() - number.len() - 1].trim_end_matches([' ', '-', ','])
    } else {
        text
    }
}

/// Where a name stands as a word of its own.
fn word_at(text: &str, name: &str) -> Option<usize> {
    text.match_indices(name).map(|(at, _)| at).find(|&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        // In a path it is a file.
        is_edge(before) && is_edge(after) && !(before == Some('/') && text.starts_with('/'))
    })
}

fn is_argument(word: &str) -> bool {
    word.starts_with('-') || word.contains("://")
}

/// Assignments in front of a program belong to its command.
fn first_assignment(words: &[&str], program: usize) -> usize {
    let assignments = words[..program].iter().rev().take_while(|word| {
        word.split_once('=').is_some_and(|(name, _)| {
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        })
    });
    program - assignments.count()
}

const HEADING_CHARACTERS: usize = 90;
const HEADING_WORDS: usize = 12;
/// A command stands this far above the output that it made.
const COMMAND_LINES: usize = 40;
/// Servers, proxies, caches and frameworks that people compare.
const KNOWN: [&str; 30] = [
    "nginx",
    "h2o",
    "caddy",
    "haproxy",
    "hitch",
    "stud",
    "node",
    "node.js",
    "express",
    "apache",
    "httpd",
    "lighttpd",
    "varnish",
    "nuster",
    "envoy",
    "traefik",
    "openresty",
    "angie",
    "tengine",
    "litespeed",
    "openlitespeed",
    "freenginx",
    "iis",
    "deno",
    "bun",
    "actix",
    "hyper",
    "puma",
    "squid",
    "stunnel",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands above a block names its server; prose, code and shells do not.
    #[test]
    fn headings() {
        for (line, expected) in [
            ("Nginx", Some("Nginx")),
            ("## h2o", Some("h2o")),
            (
                "Caddy 0.11.5 HTTP/2 HTTPS run 2",
                Some("Caddy 0.11.5 HTTP/2 HTTPS"),
            ),
            (
                "Nginx/SPDY Module -> Node.js/Express.js",
                Some("Nginx/SPDY Module -> Node.js/Express.js"),
            ),
            ("nginx version: nginx/1.6.2", None),
            ("Nginx vs h2o (http/1.1)", None),
            ("user nginx;", None),
            ("I ran nginx on my laptop.", None),
            ("$ nginx -V", None),
            ("var app = express();", None),
            ("Results", None),
        ] {
            assert_eq!(heading(line).as_deref(), expected, "{line}");
        }
    }

    /// A diagram says who listens where.
    #[test]
    fn listeners() {
        let lines = Lines::of(
            "[ client ] --> [ :8443 stud ] --> [ :8888 haproxy ]\n| --> [ :9443 haproxy ]",
        );
        assert_eq!(listener(&lines, "www01:8443").as_deref(), Some("stud"));
        assert_eq!(listener(&lines, "www01:9443").as_deref(), Some("haproxy"));
        assert_eq!(listener(&lines, "www01:844"), None);
        assert_eq!(
            address("perl b.pl https://www01:8443/x?y"),
            Some("www01:8443".to_owned())
        );
    }

    /// A command is found with the assignments in front of it.
    #[test]
    fn commands() {
        let lines = Lines::of(
            "[me@host wrk]$ ./wrk -t 2 -c 10 http://a/1\nRunning 10s\n$ K=1 T=10 perl b.pl https://b/\n",
        );
        assert_eq!(
            command(&lines, 0, 1, "wrk").as_deref(),
            Some("./wrk -t 2 -c 10 http://a/1")
        );
        assert_eq!(
            command(&lines, 0, 3, "Parallel::Benchmark").as_deref(),
            Some("K=1 T=10 perl b.pl https://b/")
        );
    }
}

//! Settings of servers that somebody pasted beside the results.

use std::collections::BTreeMap;

use super::lines::Lines;

/// The settings that matter when servers are compared, as far as the lines have them, by server.
pub(super) fn read(lines: &Lines<'_>) -> BTreeMap<&'static str, BTreeMap<String, String>> {
    let mut found: BTreeMap<&'static str, BTreeMap<String, String>> = BTreeMap::new();
    for at in 0..lines.count() {
        let line = lines.at(at);
        for (server, key, separator) in KNOWN {
            let value = line
                .strip_prefix(key)
                .filter(|rest| rest.starts_with(separator))
                .map(|rest| {
                    rest.trim_start_matches(separator)
                        .trim()
                        .trim_end_matches(';')
                        .trim()
                });
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                let settings = found.entry(server).or_default();
                settings
                    .entry(key.to_owned())
                    .or_insert_with(|| value.to_owned());
            }
        }
    }
    found
}

/// Server, setting, and what stands between it and its value.
const KNOWN: [(&str, &str, char); 16] = [
    ("nginx", "worker_processes", ' '),
    ("nginx", "access_log", ' '),
    ("nginx", "open_file_cache", ' '),
    ("nginx", "sendfile", ' '),
    ("nginx", "tcp_nopush", ' '),
    ("nginx", "keepalive_requests", ' '),
    ("nginx", "keepalive_timeout", ' '),
    ("nginx", "multi_accept", ' '),
    ("nginx", "ssl_session_cache", ' '),
    ("nginx", "proxy_cache", ' '),
    ("h2o", "num-threads", ':'),
    ("h2o", "max-connections", ':'),
    ("haproxy", "nbproc", ' '),
    ("haproxy", "nbthread", ' '),
    ("haproxy", "option", ' '),
    ("stud", "workers", ' '),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings are found where they are set, and nowhere else.
    #[test]
    fn settings_are_found() {
        let text = "http {\n    keepalive_requests 1000000;\n  open_file_cache_valid 60s;\n}\nnum-threads: 4\n";
        let found = read(&Lines::of(text));
        assert_eq!(found["nginx"]["keepalive_requests"], "1000000");
        assert_eq!(found["h2o"]["num-threads"], "4");
        assert!(!found["nginx"].contains_key("open_file_cache"));
    }
}

//! What is spoken on the connections to a server.

use std::fmt;

/// What a scenario speaks to the first hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transport {
    /// Whether connections are encrypted.
    pub(crate) tls: bool,
    /// Whether requests are HTTP/2, else HTTP/1.1.
    pub(crate) http2: bool,
}

impl Transport {
    /// What hops speak to one another.
    pub(crate) const CLEAR: Self = Self {
        tls: false,
        http2: false,
    };

    /// Every transport, in the order of messages.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 4] = [
        Self::CLEAR,
        Self {
            tls: false,
            http2: true,
        },
        Self {
            tls: true,
            http2: false,
        },
        Self {
            tls: true,
            http2: true,
        },
    ];

    /// The key of the recipe's table.
    pub(crate) fn key(self) -> &'static str {
        match (self.tls, self.http2) {
            (false, false) => "clear",
            (false, true) => "h2c",
            (true, false) => "tls",
            (true, true) => "h2",
        }
    }

    /// Whether a recipe may have a table of this name.
    pub(crate) fn is_key(key: &str) -> bool {
        matches!(key, "clear" | "h2" | "h2c" | "tls")
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.tls, self.http2) {
            (false, false) => "HTTP/1.1 in clear (clear)",
            (false, true) => "HTTP/2 in clear (h2c)",
            (true, false) => "HTTP/1.1 over TLS (tls)",
            (true, true) => "HTTP/2 over TLS (h2)",
        })
    }
}

//! What a load says of the protocols under it: TLS and HTTP/2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::LatencyHistogram;

/// A version of HTTP, and how it is begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HttpVersion {
    /// HTTP/1.1.
    #[default]
    #[serde(rename = "http/1.1")]
    Http1,
    /// HTTP/2: chosen by ALPN over TLS, by prior knowledge in clear.
    #[serde(rename = "h2")]
    Http2,
    /// HTTP/2 in clear, asked for with Upgrade on HTTP/1.1.
    #[serde(rename = "h2c-upgrade")]
    Http2Upgrade,
}

impl HttpVersion {
    /// Whether it is the one that a load speaks where nothing else was asked for.
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands out references"
    )]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The word that people know it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::Http2Upgrade => "HTTP/2 by Upgrade",
        }
    }
}

/// What was asked of TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TlsPlan {
    /// Whether the certificate of the server had to be valid.
    pub verified: bool,
    /// Handshakes that offered to resume a session, percent.
    pub resumed_percent: u8,
}

/// What TLS did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsReport {
    /// Full handshakes of the whole run, those that opened the connections before the window
    /// included.
    pub full_handshakes: u64,
    /// Handshakes of the whole run that resumed a session.
    pub resumed_handshakes: u64,
    /// Of the full ones, those that needed another round because the server wanted another group.
    pub retried_handshakes: u64,
    /// Handshakes of the whole run that failed.
    pub failed_handshakes: u64,
    /// Handshakes of the whole run whose request went with the first bytes (0-RTT) and was taken by
    /// the server; `null` where that was not asked for.
    pub early_data_handshakes: Option<u64>,
    /// Handshakes of the whole run whose request went with the first bytes and was refused, so that
    /// it followed the handshake once more; `null` where that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_data_refused: Option<u64>,
    /// Time from the established connection to the end of the handshake, over the whole run;
    /// `null` when none succeeded.
    pub handshake_time: Option<LatencyHistogram>,
    /// What was negotiated, the most frequent first.
    pub negotiated: Vec<TlsNegotiated>,
    /// Bytes of the measured window before encryption.
    pub clear_sent_bytes: u64,
    /// Bytes of the measured window after decryption.
    pub clear_received_bytes: u64,
}

/// Sessions of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TlsNegotiated {
    /// `TLSv1.3`.
    pub version: String,
    /// Cipher suite, as IANA names it.
    pub cipher: String,
    /// Group of the key exchange; `null` where a resumed session needed none.
    pub group: Option<String>,
    /// Kind of key in the certificate of the server: `ECDSA P-256`.
    pub certificate_key: String,
    /// Protocol by ALPN; `null` where the server chose none.
    pub alpn: Option<String>,
    /// How many.
    pub count: u64,
}

/// What HTTP/2 did in the measured window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Http2Report {
    /// Most streams in flight on one connection at the same time: what was asked for, unless the
    /// server allows fewer.
    pub streams_max: u32,
    /// Smallest limit on concurrent streams that the server set; `null` when it set none.
    pub stream_limit: Option<u32>,
    /// Bytes of header blocks received, as they came.
    pub header_bytes: u64,
    /// Bytes of the same fields without compression (names and values).
    pub header_decoded_bytes: u64,
    /// Header blocks received.
    pub header_blocks: u64,
    /// Requests sent once more because the server refused their streams.
    pub refused_retries: u64,
    /// Requests sent once more because the server said that it takes no more on the connection.
    pub goaway_retries: u64,
    /// Connections that the server said it would close (GOAWAY).
    pub goaways: u64,
    /// Streams that the server reset.
    pub resets: u64,
    /// Changes of settings after the first ones.
    pub settings_changes: u64,
    /// Pings answered.
    pub pings: u64,
    /// Time that connections could not send bodies because the server's window of the connection
    /// was used up, ns, over all connections.
    pub connection_stalled_ns: u64,
    /// Time that requests could not send their body because the server's window of the stream was
    /// used up, ns, over all streams.
    pub stream_stalled_ns: u64,
    /// Bytes of padding received.
    pub padding_bytes: u64,
}

impl Http2Report {
    /// Adds the report of another thread.
    pub fn merge(&mut self, other: &Self) {
        let limits = self.stream_limit.into_iter().chain(other.stream_limit);
        *self = Self {
            streams_max: self.streams_max.max(other.streams_max),
            stream_limit: limits.min(),
            header_bytes: self.header_bytes + other.header_bytes,
            header_decoded_bytes: self.header_decoded_bytes + other.header_decoded_bytes,
            header_blocks: self.header_blocks + other.header_blocks,
            refused_retries: self.refused_retries + other.refused_retries,
            goaway_retries: self.goaway_retries + other.goaway_retries,
            goaways: self.goaways + other.goaways,
            resets: self.resets + other.resets,
            settings_changes: self.settings_changes + other.settings_changes,
            pings: self.pings + other.pings,
            connection_stalled_ns: self.connection_stalled_ns + other.connection_stalled_ns,
            stream_stalled_ns: self.stream_stalled_ns + other.stream_stalled_ns,
            padding_bytes: self.padding_bytes + other.padding_bytes,
        };
    }
}

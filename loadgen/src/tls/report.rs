//! What was negotiated, counted.

use hdrhistogram::Histogram;
use recording::{LatencyHistogram, TlsNegotiated, TlsReport};
use rustls::{CommonState, HandshakeKind};

use super::session::Session;
use super::{certificate, names};
use crate::tally::{self, ClearTraffic};

/// Handshakes of one thread over the whole run: those that open its connections come before the
/// window.
#[derive(Debug)]
pub(crate) struct TlsTally {
    full: u64,
    retried: u64,
    resumed: u64,
    failed: u64,
    /// Those whose early data the server took, and those whose it refused; none where it was not
    /// asked for.
    early: Option<(u64, u64)>,
    /// From the established connection to the end of the handshake, ns.
    time: Histogram<u64>,
    /// Kinds of sessions; one server and one set of settings make one or two.
    negotiated: Vec<TlsNegotiated>,
    /// The last certificate and its key, since reading one takes longer than comparing two.
    certificate: Vec<u8>,
    key: String,
}

impl TlsTally {
    /// Nothing counted, with room for every handshake up to the timeout.
    pub(crate) fn new(timeout_ns: u64, early_data: bool) -> Self {
        Self {
            early: early_data.then_some((0, 0)),
            full: 0,
            retried: 0,
            resumed: 0,
            failed: 0,
            time: tally::histogram(timeout_ns),
            negotiated: Vec::new(),
            certificate: Vec::new(),
            key: String::new(),
        }
    }

    /// Counts a handshake that has ended well.
    pub(crate) fn add(&mut self, session: &Session, time_ns: u64) {
        tally::record(&mut self.time, time_ns);
        let facts = session.facts();
        match facts.handshake_kind() {
            Some(HandshakeKind::Resumed) => self.resumed += 1,
            Some(HandshakeKind::FullWithHelloRetryRequest) => {
                self.full += 1;
                self.retried += 1;
            }
            Some(HandshakeKind::Full) | None => self.full += 1,
        }
        if let (Some((taken, refused)), Some(was_taken)) = (&mut self.early, session.early_data()) {
            let count = if was_taken { taken } else { refused };
            *count += 1;
        }
        self.update_key(facts);
        let kind = kind_of(facts, self.key.clone());
        self.add_kind(&kind);
    }

    /// Counts sessions of a kind.
    fn add_kind(&mut self, kind: &TlsNegotiated) {
        let same = |known: &&mut TlsNegotiated| {
            TlsNegotiated {
                count: kind.count,
                ..(**known).clone()
            } == *kind
        };
        match self.negotiated.iter_mut().find(same) {
            Some(known) => known.count += kind.count,
            None => self.negotiated.push(kind.clone()),
        }
    }

    /// Counts a handshake that failed.
    pub(crate) fn add_failure(&mut self) {
        self.failed += 1;
    }

    /// Adds what another thread counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.full += other.full;
        self.retried += other.retried;
        self.resumed += other.resumed;
        self.failed += other.failed;
        if let Some((taken, refused)) = other.early {
            let mine = self.early.get_or_insert((0, 0));
            *mine = (mine.0 + taken, mine.1 + refused);
        }
        tally::add(&mut self.time, &other.time);
        for theirs in &other.negotiated {
            self.add_kind(theirs);
        }
    }

    /// The part of a recording, with the clear bytes of the measured window.
    pub(crate) fn report(&self, clear: ClearTraffic) -> TlsReport {
        let mut negotiated = self.negotiated.clone();
        negotiated.sort_by_key(|kind| std::cmp::Reverse(kind.count));
        TlsReport {
            full_handshakes: self.full,
            resumed_handshakes: self.resumed,
            retried_handshakes: self.retried,
            failed_handshakes: self.failed,
            early_data_handshakes: self.early.map(|(taken, _)| taken),
            early_data_refused: self.early.map(|(_, refused)| refused),
            handshake_time: LatencyHistogram::from_hdr(&self.time),
            negotiated,
            clear_sent_bytes: clear.sent_bytes,
            clear_received_bytes: clear.received_bytes,
        }
    }

    fn update_key(&mut self, facts: &CommonState) {
        let leaf = leaf(facts);
        if self.key.is_empty() || leaf != self.certificate {
            self.certificate = leaf.to_vec();
            self.key = certificate::key_type(leaf);
        }
    }
}

/// What one session has negotiated.
pub(crate) fn negotiated(facts: &CommonState) -> TlsNegotiated {
    kind_of(facts, certificate::key_type(leaf(facts)))
}

/// The kind of a session, with the key of the certificate in words.
fn kind_of(facts: &CommonState, certificate_key: String) -> TlsNegotiated {
    let cipher = facts
        .negotiated_cipher_suite()
        .map_or("unknown", |suite| names::suite_name(suite.suite()));
    let version = facts
        .protocol_version()
        .map_or("unknown", names::version_name);
    let group = facts
        .negotiated_key_exchange_group()
        .map(|group| names::group_name(group.name()).to_owned());
    let alpn = facts.alpn_protocol();
    TlsNegotiated {
        version: version.to_owned(),
        cipher: cipher.to_owned(),
        group,
        certificate_key,
        alpn: alpn.map(|alpn| String::from_utf8_lossy(alpn).into_owned()),
        count: 1,
    }
}

/// The certificate of the server itself; empty where a resumed session has none.
fn leaf(facts: &CommonState) -> &[u8] {
    let leaf = facts.peer_certificates().and_then(<[_]>::first);
    leaf.map_or(&[], |leaf| leaf.as_ref())
}

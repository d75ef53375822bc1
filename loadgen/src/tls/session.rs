//! One TLS session without a socket.

use std::fmt;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
use rustls::{ClientConfig, CommonState, Error};

/// A client session.
pub(crate) struct Session {
    connection: UnbufferedClientConnection,
    /// Bytes of a record whose end has not come.
    kept: Vec<u8>,
    /// Clear bytes that came with the end of the handshake.
    early: Vec<u8>,
    /// Bytes to write, from `written` on.
    outgoing: Vec<u8>,
    written: usize,
    is_secured: bool,
    zero_rtt: ZeroRtt,
}

/// What became of data that goes with the first bytes of a handshake (RFC 8446, section 2.3).
#[derive(Clone, Debug, PartialEq, Eq)]
enum ZeroRtt {
    /// The session takes none, or none was given.
    Unused,
    /// The session that is resumed takes some.
    Possible,
    /// Sent; the bytes are kept, because the server may refuse them.
    Sent(Vec<u8>),
    /// The server took it.
    Accepted,
    /// The server did not, and the same bytes follow the handshake.
    Refused,
}

/// What reading did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress<C> {
    /// Everything that is complete was read.
    Drained,
    /// The handshake has just ended; there may be more to read.
    Secured,
    /// The peer has ended the session in order.
    Closed,
    /// The reader of the clear bytes wants no more.
    Stopped(C),
}

impl Session {
    /// A session whose first bytes are ready to be written.
    pub(super) fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Error> {
        let mut session = Self {
            connection: UnbufferedClientConnection::new(config, name)?,
            kept: Vec::new(),
            early: Vec::new(),
            outgoing: Vec::new(),
            written: 0,
            is_secured: false,
            zero_rtt: ZeroRtt::Unused,
        };
        let mut nothing = [];
        let (_, progress) = session.read::<()>(&mut nothing, |_| None)?;
        debug_assert_eq!(progress, Progress::Drained);
        Ok(session)
    }

    /// Puts the bytes that are kept at the front of `buffer`; what is received goes behind them.
    pub(crate) fn prepare(&mut self, buffer: &mut [u8]) -> usize {
        let count = self.kept.len();
        buffer[..count].copy_from_slice(&self.kept);
        self.kept.clear();
        count
    }

    /// Keeps what was not read for the next time.
    pub(crate) fn keep(&mut self, rest: &[u8]) {
        self.kept.extend_from_slice(rest);
    }

    /// Reads records off the front of `input` and hands their contents to `sink`. Returns how many
    /// bytes it used.
    pub(crate) fn read<C>(
        &mut self,
        input: &mut [u8],
        mut sink: impl FnMut(&[u8]) -> Option<C>,
    ) -> Result<(usize, Progress<C>), Error> {
        let mut used = 0;
        if self.is_secured && !self.early.is_empty() {
            let early = std::mem::take(&mut self.early);
            if let Some(stop) = sink(&early) {
                return Ok((used, Progress::Stopped(stop)));
            }
        }
        loop {
            if !self.is_secured && !self.connection.is_handshaking() {
                self.is_secured = true;
                self.repeat_if_refused()?;
                return Ok((used, Progress::Secured));
            }
            let UnbufferedStatus { discard, state } =
                self.connection.process_tls_records(&mut input[used..]);
            match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    let mut extra = 0;
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        extra += record.discard;
                        if !self.is_secured {
                            self.early.extend_from_slice(record.payload);
                        } else if let Some(stop) = sink(record.payload) {
                            return Ok((used + discard + extra, Progress::Stopped(stop)));
                        }
                    }
                    used += extra;
                }
                ConnectionState::EncodeTlsData(data) => {
                    let start = self.outgoing.len();
                    encode(data, &mut self.outgoing);
                    let is_end = self.outgoing.len() - start == END_OF_EARLY_DATA_BYTES;
                    if is_end && matches!(self.zero_rtt, ZeroRtt::Sent(_)) {
                        self.zero_rtt = ZeroRtt::Accepted;
                    }
                }
                // Everything to be transmitted is in `outgoing`, which is written in order.
                ConnectionState::TransmitTlsData(mut data) => {
                    if self.zero_rtt == ZeroRtt::Unused && data.may_encrypt_early_data().is_some() {
                        // Early data may go now or never, so the session stops here, once.
                        self.zero_rtt = ZeroRtt::Possible;
                        return Ok((used + discard, Progress::Drained));
                    }
                    data.done();
                }
                ConnectionState::PeerClosed | ConnectionState::Closed => {
                    return Ok((used + discard, Progress::Closed));
                }
                // Blocked on more bytes, or ready to write.
                _ => {
                    used += discard;
                    if !self.is_secured && !self.connection.is_handshaking() {
                        continue;
                    }
                    return Ok((used, Progress::Drained));
                }
            }
            used += discard;
        }
    }

    /// Encrypts bytes and puts them behind what is to be written.
    pub(crate) fn encrypt(&mut self, clear: &[u8]) -> Result<(), Error> {
        loop {
            let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut []);
            match state? {
                // Renewed keys are announced first.
                ConnectionState::EncodeTlsData(data) => encode(data, &mut self.outgoing),
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::WriteTraffic(mut traffic) => {
                    let records = clear.len() / RECORD_BYTES + 1;
                    let guess = clear.len() + records * OVERHEAD_BYTES;
                    let mut result = Ok(());
                    append(&mut self.outgoing, guess, |to| {
                        traffic.encrypt(clear, to).map_err(|error| match error {
                            EncryptError::InsufficientSize(size) => Some(size.required_size),
                            EncryptError::EncryptExhausted => {
                                result = Err(Error::EncryptError);
                                None
                            }
                        })
                    });
                    return result;
                }
                state => return Err(Error::General(format!("cannot write while in {state:?}"))),
            }
        }
    }

    /// Whether data may go with the first bytes of the handshake, before any of them is written.
    pub(crate) fn takes_early_data(&self) -> bool {
        self.zero_rtt == ZeroRtt::Possible
    }

    /// Sends data with the first bytes of the handshake; returns how many bytes of it may.
    pub(crate) fn send_early_data(&mut self, clear: &[u8]) -> usize {
        let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut []);
        let Ok(ConnectionState::TransmitTlsData(mut data)) = state else {
            return 0;
        };
        let start = self.outgoing.len();
        if let Some(mut early) = data.may_encrypt_early_data() {
            let records = clear.len() / RECORD_BYTES + 1;
            let room = clear.len() + records * OVERHEAD_BYTES;
            append(&mut self.outgoing, room, |to| {
                early.encrypt(clear, to).map_err(|_exceeded| None)
            });
        }
        data.done();
        let taken = clear_bytes(self.outgoing.len() - start).min(clear.len());
        self.zero_rtt = if taken > 0 {
            ZeroRtt::Sent(clear[..taken].to_vec())
        } else {
            ZeroRtt::Unused
        };
        taken
    }

    /// Whether the server took what went with the first bytes; `None` where nothing did.
    pub(crate) fn early_data(&self) -> Option<bool> {
        match self.zero_rtt {
            ZeroRtt::Unused | ZeroRtt::Possible | ZeroRtt::Sent(_) => None,
            ZeroRtt::Accepted => Some(true),
            ZeroRtt::Refused => Some(false),
        }
    }

    /// Sends what the server refused once more, behind the handshake.
    fn repeat_if_refused(&mut self) -> Result<(), Error> {
        let ZeroRtt::Sent(clear) = &mut self.zero_rtt else {
            return Ok(());
        };
        let clear = std::mem::take(clear);
        self.zero_rtt = ZeroRtt::Refused;
        self.encrypt(&clear)
    }

    /// Says that nothing more will be sent.
    pub(crate) fn close_notify(&mut self) {
        let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut []);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            append(&mut self.outgoing, OVERHEAD_BYTES, |to| {
                traffic.queue_close_notify(to).map_err(|error| match error {
                    EncryptError::InsufficientSize(size) => Some(size.required_size),
                    EncryptError::EncryptExhausted => None,
                })
            });
        }
    }

    /// What is to be written to the socket.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.outgoing[self.written..]
    }

    /// So many of those bytes were written.
    pub(crate) fn sent(&mut self, count: usize) {
        self.written += count;
        if self.written == self.outgoing.len() {
            self.outgoing.clear();
            self.written = 0;
        }
    }

    /// What was negotiated.
    pub(super) fn facts(&self) -> &CommonState {
        &self.connection
    }

    /// The protocol that the server chose.
    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }
}

fn encode(mut data: EncodeTlsData<'_, ClientConnectionData>, out: &mut Vec<u8>) {
    append(out, HANDSHAKE_BYTES, |to| {
        data.encode(to).map_err(|error| match error {
            EncodeError::InsufficientSize(size) => Some(size.required_size),
            EncodeError::AlreadyEncoded => None,
        })
    });
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("is_secured", &self.is_secured)
            .finish_non_exhaustive()
    }
}

/// Appends what `write` writes, given room for `guess` bytes, or for as many as it asks for.
fn append(
    out: &mut Vec<u8>,
    guess: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) {
    let start = out.len();
    let mut room = guess;
    let count = loop {
        out.resize(start + room, 0);
        match write(&mut out[start..]) {
            Ok(count) => break count,
            Err(Some(required)) if required > room => room = required,
            Err(_) => break 0,
        }
    };
    out.truncate(start + count);
}

/// The clear bytes in records of TLS 1.3 that take so many bytes together, all but the last one full.
fn clear_bytes(encrypted: usize) -> usize {
    let records = encrypted.div_ceil(RECORD_BYTES + TLS13_OVERHEAD_BYTES);
    encrypted.saturating_sub(records * TLS13_OVERHEAD_BYTES)
}

/// What a record of TLS 1.3 adds: header, content type, and the tag of every suite that there is.
const TLS13_OVERHEAD_BYTES: usize = 5 + 1 + 16;
/// A record with an empty message of four bytes. A client sends it if, and only if, the server has
/// taken its early data (RFC 8446, section 4.5), and no other message of a client is as short:
/// rustls does not say it otherwise.
const END_OF_EARLY_DATA_BYTES: usize = 4 + TLS13_OVERHEAD_BYTES;
/// Larger than the messages of most handshakes.
const HANDSHAKE_BYTES: usize = 512;
/// Most clear bytes in one record.
const RECORD_BYTES: usize = 16 * 1024;
/// What a record adds at most: header, explicit nonce, content type and tag, rounded up.
const OVERHEAD_BYTES: usize = 64;

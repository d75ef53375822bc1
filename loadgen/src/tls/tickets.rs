//! Sessions that can be resumed: those of one client thread, newest first.
//!
//! rustls keeps eight tickets per server, too few for a thread with more connections than that.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// The sessions that one server, the only one of a run, has given to a thread.
#[derive(Debug)]
pub(super) struct Tickets {
    kept: Arc<Mutex<Kept>>,
    /// Whether they are given out; those of full handshakes are only collected.
    offer: bool,
}

#[derive(Debug)]
struct Kept {
    tls12: Option<Tls12ClientSessionValue>,
    tls13: VecDeque<Tls13ClientSessionValue>,
    max: usize,
}

impl Tickets {
    /// Two views of one store with room for `max` tickets: one that gives them out, one that only
    /// collects them.
    pub(super) fn pair(max: usize) -> (Self, Self) {
        let kept = Arc::new(Mutex::new(Kept {
            tls12: None,
            tls13: VecDeque::new(),
            max,
        }));
        let view = |offer| Self {
            kept: Arc::clone(&kept),
            offer,
        };
        (view(true), view(false))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // A panic elsewhere cannot leave it half changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    /// The first group is always tried first, so that every handshake costs the same.
    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.kept().tls12 = Some(value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.kept().tls12.clone().filter(|_| self.offer)
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.kept().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut kept = self.kept();
        kept.tls13.push_front(value);
        let max = kept.max;
        kept.tls13.truncate(max);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.offer.then(|| self.kept().tls13.pop_front()).flatten()
    }
}

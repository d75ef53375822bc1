//! The streams of one connection that carry a request.

use crate::check::BodyCheck;
use crate::protocol::Exchange;

use super::frame::ID_MAX;

/// One request and its response.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Its identifier; zero says that this place is free.
    pub(super) id: u32,
    pub(super) exchange: Exchange,
    /// Status of the final head; zero before it came.
    pub(super) status: u16,
    /// Body of the response that is still to come, where its length was said.
    pub(super) content_left: Option<u64>,
    pub(super) body: BodyCheck,
    /// What the server may still send, bytes.
    pub(super) receive_window: i64,
    /// What may be sent, bytes.
    pub(super) send_window: i64,
    /// Bytes of the body of the request that were put into frames.
    pub(super) sent: usize,
    /// Bytes of that body.
    pub(super) send_bytes: usize,
    /// The body itself, where requests differ.
    pub(super) own_body: Vec<u8>,
    /// Since when its window holds it back, ns; zero if it does not.
    pub(super) stalled_ns: u64,
}

/// Streams by identifier. A place is found by the low bits of an identifier; an identifier whose
/// place is taken is left out, as the protocol allows, so that there is nothing to search.
#[derive(Debug, Default)]
pub(super) struct Streams {
    places: Vec<Stream>,
    last_id: u32,
    count: u32,
}

impl Streams {
    /// Makes room for so many at a time.
    pub(super) fn make_room(&mut self, depth: u32) {
        let places = (2 * depth.max(1) as usize).next_power_of_two();
        if self.places.len() < places {
            self.places.resize_with(places, Stream::default);
        }
    }

    /// Forgets every stream, and begins to count anew.
    pub(super) fn clear(&mut self) {
        for stream in &mut self.places {
            stream.id = 0;
        }
        self.last_id = 0;
        self.count = 0;
    }

    /// How many there are.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The newest identifier; zero before the first one.
    pub(super) fn last_id(&self) -> u32 {
        self.last_id
    }

    /// Whether another one can be begun.
    #[inline]
    pub(super) fn has_ids(&self) -> bool {
        // Of the places that are passed over, none is passed twice.
        self.last_id as usize + 2 * self.places.len() < ID_MAX as usize
    }

    /// Begins a stream.
    #[inline]
    pub(super) fn open(&mut self, exchange: Exchange) -> &mut Stream {
        let mut id = if self.last_id == 0 {
            1
        } else {
            self.last_id + 2
        };
        while self.places[self.place(id)].id != 0 {
            id += 2;
        }
        self.last_id = id;
        self.count += 1;
        let place = self.place(id);
        let stream = &mut self.places[place];
        stream.id = id;
        stream.exchange = exchange;
        stream.status = 0;
        stream.content_left = None;
        stream.sent = 0;
        stream.send_bytes = 0;
        stream.stalled_ns = 0;
        stream
    }

    /// A stream that is there.
    #[inline]
    pub(super) fn get(&mut self, id: u32) -> Option<&mut Stream> {
        if self.places.is_empty() {
            return None;
        }
        let place = self.place(id);
        Some(&mut self.places[place]).filter(|stream| stream.id == id && id != 0)
    }

    /// Ends a stream.
    #[inline]
    pub(super) fn close(&mut self, id: u32) -> Option<Exchange> {
        let stream = self.get(id)?;
        stream.id = 0;
        let exchange = stream.exchange;
        self.count -= 1;
        Some(exchange)
    }

    /// Every stream, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.places.iter().filter(|stream| stream.id != 0)
    }

    /// Every stream, in no order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.places.iter_mut().filter(|stream| stream.id != 0)
    }

    /// The stream with the lowest identifier above `after`.
    pub(super) fn next_after(&self, after: u32) -> Option<u32> {
        self.iter()
            .map(|stream| stream.id)
            .filter(|id| *id > after)
            .min()
    }

    fn place(&self, id: u32) -> usize {
        (id as usize >> 1) & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Identifiers are odd and rise, and whoever is there is found, however long some stay.
        #[test]
        fn streams_are_found(depth in 1_u32..9, picks in prop::collection::vec(any::<prop::sample::Index>(), 1..200)) {
            let mut streams = Streams::default();
            streams.make_room(depth);
            let mut there: Vec<u32> = Vec::new();
            let mut last = 0;
            for pick in picks {
                if there.len() == depth as usize {
                    let id = there.swap_remove(pick.index(there.len()));
                    prop_assert!(streams.close(id).is_some());
                    prop_assert!(streams.close(id).is_none());
                }
                let id = streams.open(Exchange::default()).id;
                prop_assert!(id > last && id % 2 == 1);
                last = id;
                there.push(id);
                let found: HashSet<u32> = streams.iter().map(|stream| stream.id).collect();
                prop_assert_eq!(found, there.iter().copied().collect::<HashSet<_>>());
                prop_assert!(there.iter().all(|id| streams.get(*id).is_some()));
                prop_assert_eq!(streams.count() as usize, there.len());
            }
        }
    }
}

//! What one thread saw beside its counts: connections over time, how long they lived, its own
//! delays.

use hdrhistogram::Histogram;
use recording::LatencyHistogram;

use crate::run_queue;
use crate::tally;

/// What a client thread sees while it runs.
#[derive(Debug)]
pub(crate) struct Observer {
    /// Open connections, and since when so many.
    open: u32,
    since_ns: u64,
    /// Connections times nanoseconds of the present leg.
    open_ns: u128,
    /// Of every connection of the run.
    connect: Histogram<u64>,
    open_time: Histogram<u64>,
    connection_first_byte: Histogram<u64>,
    life: Histogram<u64>,
    loop_lag: Histogram<u64>,
    turns: u32,
    queued_at_start_ns: Option<u64>,
    /// Times at which connecting was put off.
    pub(crate) connects_delayed: u64,
}

/// What a client thread saw in a leg.
#[derive(Debug)]
pub(crate) struct Observed {
    /// Connections times nanoseconds.
    pub(crate) open_ns: u128,
    pub(crate) connect: Histogram<u64>,
    pub(crate) open_time: Histogram<u64>,
    pub(crate) connection_first_byte: Histogram<u64>,
    pub(crate) life: Histogram<u64>,
    pub(crate) loop_lag: Histogram<u64>,
    /// Time that the thread waited for a CPU.
    pub(crate) run_queue_ns: Option<u64>,
    pub(crate) connects_delayed: u64,
    /// Responses of each place for a connection.
    pub(crate) responses: Vec<f64>,
    /// Ages of what was in flight at the end.
    pub(crate) ages: Histogram<u64>,
    /// Requests that were due, and those of them that were not sent.
    pub(crate) due: u64,
    pub(crate) dropped: u64,
}

impl Observer {
    /// Nothing is open yet.
    pub(crate) fn new() -> Self {
        let empty = LatencyHistogram::recorder;
        Self {
            open: 0,
            since_ns: 0,
            open_ns: 0,
            connect: empty(),
            open_time: empty(),
            connection_first_byte: empty(),
            life: empty(),
            loop_lag: empty(),
            turns: 0,
            queued_at_start_ns: None,
            connects_delayed: 0,
        }
    }

    /// A connection was opened: it was established after `connect_ns`, and could carry requests
    /// after `open_ns`.
    pub(crate) fn opened(&mut self, now_ns: u64, connect_ns: u64, open_ns: u64) {
        self.add_up(now_ns);
        self.open += 1;
        tally::record(&mut self.connect, connect_ns);
        tally::record(&mut self.open_time, open_ns);
    }

    /// A connection was closed that was begun `lived_ns` ago; `None` if it brought no response.
    pub(crate) fn closed(&mut self, now_ns: u64, lived_ns: Option<u64>) {
        self.add_up(now_ns);
        self.open = self.open.saturating_sub(1);
        if let Some(lived_ns) = lived_ns {
            tally::record(&mut self.life, lived_ns);
        }
    }

    /// The first byte of the first response of a connection came.
    pub(crate) fn first_byte(&mut self, after_ns: u64) {
        tally::record(&mut self.connection_first_byte, after_ns);
    }

    /// Whether the time of this turn of the loop is to be taken: that of one in sixteen, so that
    /// reading the clock does not cost what is measured.
    #[inline]
    pub(crate) fn samples_turn(&mut self) -> bool {
        self.turns = self.turns.wrapping_add(1);
        self.turns.is_multiple_of(TURNS_PER_SAMPLE)
    }

    /// A turn took so long.
    pub(crate) fn turned(&mut self, took_ns: u64) {
        tally::record(&mut self.loop_lag, took_ns);
    }

    /// A leg begins.
    pub(crate) fn begin_leg(&mut self, now_ns: u64) {
        self.open_ns = 0;
        self.since_ns = now_ns;
        self.loop_lag.reset();
        self.connects_delayed = 0;
        self.queued_at_start_ns = run_queue::of_this_thread_ns();
    }

    /// A leg ends; the rest is filled in by those who know it.
    pub(crate) fn end_leg(&mut self, at_ns: u64) -> Observed {
        self.add_up(at_ns);
        let now_queued_ns = run_queue::of_this_thread_ns();
        let queued = now_queued_ns.zip(self.queued_at_start_ns);
        Observed {
            open_ns: self.open_ns,
            connect: self.connect.clone(),
            open_time: self.open_time.clone(),
            connection_first_byte: self.connection_first_byte.clone(),
            life: self.life.clone(),
            loop_lag: self.loop_lag.clone(),
            run_queue_ns: queued.map(|(end_ns, start_ns)| end_ns.saturating_sub(start_ns)),
            connects_delayed: self.connects_delayed,
            responses: Vec::new(),
            ages: LatencyHistogram::recorder(),
            due: 0,
            dropped: 0,
        }
    }

    fn add_up(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        self.open_ns += u128::from(self.open) * u128::from(passed_ns);
        self.since_ns = self.since_ns.max(now_ns);
    }
}

const TURNS_PER_SAMPLE: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections count for as long as they are open, within the leg.
    #[test]
    fn open_connections_are_weighted_by_time() {
        let mut observer = Observer::new();
        observer.opened(50, 10, 10);
        observer.begin_leg(100);
        observer.opened(150, 20, 25);
        observer.closed(180, Some(30));
        let seen = observer.end_leg(200);
        assert_eq!(seen.open_ns, 50 + 2 * 30 + 20);
        assert_eq!((seen.connect.len(), seen.life.len()), (2, 1));
    }
}

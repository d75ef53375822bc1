//! What one thread counted in one phase; plain integers, so that counting costs nothing.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use recording::{ConnectionCounts, FailureClass, Http2Report, LatencyHistogram, Ledger, Traffic};
use rustix::io::Errno;

use crate::plan::Plan;
use crate::protocol::Exchange;
use crate::violations::Violations;

/// Where in a request a failure happened, in the words of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailurePhase {
    /// Before there was an address.
    Resolve,
    /// Before the connection was there.
    Connect,
    /// In the handshake of TLS.
    Tls,
    /// While the request was written.
    Write,
    /// Before a byte of the response.
    FirstByte,
    /// Inside the head.
    Head,
    /// Inside the body.
    Body,
    /// Where the server broke the protocol.
    Protocol,
    /// After the last byte: the status.
    Check,
}

impl FailurePhase {
    /// The word of a recording.
    fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Write => "write",
            Self::FirstByte => "first_byte",
            Self::Head => "head",
            Self::Body => "body",
            Self::Protocol => "protocol",
            Self::Check => "check",
        }
    }
}

/// The class of an error of a socket.
pub(crate) fn class_of(errno: Errno) -> FailureClass {
    match errno {
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => FailureClass::AddressUnavailable,
        Errno::CONNREFUSED => FailureClass::Refused,
        Errno::CONNRESET | Errno::PIPE => FailureClass::Reset,
        Errno::TIMEDOUT => FailureClass::Timeout,
        _ => FailureClass::Os,
    }
}

/// Bytes before encryption and after decryption; in clear they are those of [`Traffic`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClearTraffic {
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
}

/// Counts of one thread in one phase.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) ledger: Ledger,
    pub(crate) connections: ConnectionCounts,
    pub(crate) interim: u64,
    pub(crate) traffic: Traffic,
    pub(crate) clear: ClearTraffic,
    pub(crate) http2: Http2Report,
    /// Latency of ok requests, ns: the slices that have ended.
    pub(crate) latency: Histogram<u64>,
    /// Time to connect, ns.
    pub(crate) connect_time: Histogram<u64>,
    /// Final responses by status code; one place for each of 0..=999.
    statuses: Box<[u64]>,
    /// From the first write to the last byte, where the latency begins when a request is due.
    pub(crate) service: Histogram<u64>,
    /// From when a request is due to its first write.
    pub(crate) lag: Histogram<u64>,
    pub(crate) split: Split,
    pub(crate) hashed_bodies: u64,
    /// Names and values of header lines of final responses.
    pub(crate) header_field_bytes: u64,
    /// Results by class; empty where all requests are alike.
    pub(crate) classes: Vec<ClassTally>,
    /// How the server broke the protocol.
    pub(crate) violations: Violations,
}

/// Responses that came in more than one read. Of all others the first byte and the last one were
/// read at once, so nothing has to be recorded of them.
#[derive(Debug)]
pub(crate) struct Split {
    /// From the first write to the last byte.
    pub(crate) service: Histogram<u64>,
    /// From the first write to the first byte.
    pub(crate) first_byte: Histogram<u64>,
    /// From the first byte to the last one.
    pub(crate) receive: Histogram<u64>,
}

/// Counts of one class of requests.
#[derive(Debug)]
pub(crate) struct ClassTally {
    pub(crate) ledger: Ledger,
    pub(crate) latency: Histogram<u64>,
}

impl Tally {
    /// Nothing counted, with room for every latency up to the timeout.
    pub(crate) fn new(timeout_ns: u64) -> Self {
        Self {
            ledger: Ledger::default(),
            connections: ConnectionCounts::default(),
            interim: 0,
            traffic: Traffic::default(),
            clear: ClearTraffic::default(),
            http2: Http2Report::default(),
            latency: histogram(timeout_ns),
            connect_time: histogram(timeout_ns),
            statuses: vec![0; STATUSES].into(),
            service: LatencyHistogram::recorder(),
            lag: LatencyHistogram::recorder(),
            split: Split {
                service: LatencyHistogram::recorder(),
                first_byte: LatencyHistogram::recorder(),
                receive: LatencyHistogram::recorder(),
            },
            hashed_bodies: 0,
            header_field_bytes: 0,
            classes: Vec::new(),
            violations: Violations::default(),
        }
    }

    /// Makes room for what the plan needs, so that counting never allocates.
    pub(crate) fn for_plan(plan: &Plan) -> Self {
        let room = || histogram(plan.timeout_ns);
        let mut tally = Self::new(plan.timeout_ns);
        tally.split = Split {
            service: room(),
            first_byte: room(),
            receive: room(),
        };
        if plan.shape.is_open_loop() {
            tally.service = room();
            tally.lag = room();
        }
        let classes = plan.mix.as_ref().map_or(0, |mix| mix.classes.len());
        let class = |_| ClassTally {
            ledger: Ledger::default(),
            latency: room(),
        };
        tally.classes = (0..classes).map(class).collect();
        tally
    }

    /// What `before` left in flight, `in_flight` in all, ends here.
    pub(crate) fn carry_in(&mut self, before: &Self, in_flight: u32) {
        self.ledger.carried_in = u64::from(in_flight);
        for (mine, theirs) in self.classes.iter_mut().zip(&before.classes) {
            mine.ledger.carried_in = theirs.ledger.sent + theirs.ledger.carried_in
                - theirs.ledger.ok
                - theirs.ledger.failed_total();
        }
    }

    /// What is in flight, `in_flight` in all, does not end here.
    pub(crate) fn leave_unfinished(&mut self, in_flight: u32) {
        self.ledger.unfinished = u64::from(in_flight);
        for class in &mut self.classes {
            let ledger = &mut class.ledger;
            ledger.unfinished = ledger.sent + ledger.carried_in - ledger.ok - ledger.failed_total();
        }
    }

    /// Counts a response that came in more than one read.
    #[cold]
    pub(crate) fn add_split(&mut self, service_ns: u64, first_byte_ns: u64) {
        record(&mut self.split.service, service_ns);
        record(&mut self.split.first_byte, first_byte_ns);
        record(&mut self.split.receive, service_ns - first_byte_ns);
    }

    /// Counts the final status of a response.
    #[inline]
    pub(crate) fn add_status(&mut self, status: u16) {
        self.statuses[usize::from(status)] += 1;
    }

    /// Counts a failed request.
    pub(crate) fn fail(&mut self, of: &Exchange, class: FailureClass, phase: FailurePhase) {
        self.ledger.fail(class, phase.name(), 1);
        if let Some(tally) = self.classes.get_mut(usize::from(of.class)) {
            tally.ledger.fail(class, phase.name(), 1);
        }
    }

    /// Adds what another thread counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.ledger.merge(&other.ledger);
        let (mine, theirs) = (&mut self.connections, &other.connections);
        mine.asked += theirs.asked;
        mine.open_at_start += theirs.open_at_start;
        mine.established += theirs.established;
        mine.closed_by_plan += theirs.closed_by_plan;
        mine.closed_idle += theirs.closed_idle;
        mine.closed_by_server += theirs.closed_by_server;
        mine.closed_by_failure += theirs.closed_by_failure;
        self.interim += other.interim;
        let (mine, theirs) = (&mut self.traffic, &other.traffic);
        mine.sent_bytes += theirs.sent_bytes;
        mine.received_bytes += theirs.received_bytes;
        mine.head_bytes += theirs.head_bytes;
        mine.body_bytes += theirs.body_bytes;
        self.http2.merge(&other.http2);
        self.clear.sent_bytes += other.clear.sent_bytes;
        self.clear.received_bytes += other.clear.received_bytes;
        add(&mut self.latency, &other.latency);
        add(&mut self.connect_time, &other.connect_time);
        for (mine, theirs) in self.statuses.iter_mut().zip(&other.statuses) {
            *mine += theirs;
        }
        add(&mut self.service, &other.service);
        add(&mut self.lag, &other.lag);
        add(&mut self.split.service, &other.split.service);
        add(&mut self.split.first_byte, &other.split.first_byte);
        add(&mut self.split.receive, &other.split.receive);
        self.violations.merge(&other.violations);
        self.hashed_bodies += other.hashed_bodies;
        self.header_field_bytes += other.header_field_bytes;
        for (place, theirs) in other.classes.iter().enumerate() {
            if self.classes.len() <= place {
                self.classes.push(ClassTally {
                    ledger: Ledger::default(),
                    latency: LatencyHistogram::recorder(),
                });
            }
            let mine = &mut self.classes[place];
            mine.ledger.merge(&theirs.ledger);
            add(&mut mine.latency, &theirs.latency);
        }
    }

    /// The statuses that were seen.
    pub(crate) fn statuses(&self) -> BTreeMap<u16, u64> {
        (0..)
            .zip(&self.statuses)
            .filter(|(_, count)| **count > 0)
            .map(|(s, c)| (s, *c))
            .collect()
    }
}

/// An empty histogram that need not grow for any value up to twice `timeout`, so that recording
/// never allocates; a late response may take a little longer than the timeout.
pub(crate) fn histogram(timeout_ns: u64) -> Histogram<u64> {
    let mut histogram = LatencyHistogram::recorder();
    record(&mut histogram, timeout_ns.saturating_mul(2));
    histogram.reset();
    histogram
}

/// Records a value.
#[inline]
pub(crate) fn record(histogram: &mut Histogram<u64>, value_ns: u64) {
    histogram
        .record(value_ns)
        .expect("a resizing histogram takes every value");
}

/// Adds a histogram.
pub(crate) fn add(sum: &mut Histogram<u64>, other: &Histogram<u64>) {
    sum.add(other)
        .expect("a resizing histogram takes every value");
}

const STATUSES: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    /// A fresh histogram has recorded nothing and does not grow below its bound.
    #[test]
    fn histogram_has_room() {
        let mut histogram = histogram(10_000_000_000);
        assert!(histogram.is_empty());
        assert_eq!(histogram.max(), 0);
        let places = histogram.distinct_values();
        record(&mut histogram, 20_000_000_000);
        record(&mut histogram, 1);
        assert_eq!(histogram.distinct_values(), places);
        assert_eq!((histogram.min(), histogram.len()), (1, 2));
    }

    /// Every value counts, however many there are, and they take no more room.
    #[test]
    fn values_are_not_capped() {
        let mut histogram = histogram(1_000_000_000);
        let places = histogram.distinct_values();
        for value_ns in 0..2_000_000 {
            record(&mut histogram, 1_000 + value_ns);
        }
        assert_eq!(
            (histogram.len(), histogram.distinct_values()),
            (2_000_000, places)
        );
    }

    /// Errors of sockets fall into the classes that people can act on.
    #[test]
    fn errors_have_classes() {
        assert_eq!(class_of(Errno::CONNREFUSED), FailureClass::Refused);
        assert_eq!(
            class_of(Errno::ADDRNOTAVAIL),
            FailureClass::AddressUnavailable
        );
        assert_eq!(class_of(Errno::PIPE), FailureClass::Reset);
        assert_eq!(class_of(Errno::NETUNREACH), FailureClass::Os);
    }
}

//! Time inside TLS libraries: which ones the target has, the probes on their functions, and what those
//! counted.

mod binary;
mod libraries;

use std::collections::{BTreeMap, BTreeSet};

use profiler_common::{TIME_BUCKETS, TLS_FUNCTIONS, TLS_ROWS, TlsRow, is_handshake};
use recording::{
    Log2Histogram, NotMeasured, TimeStats, TlsFunction, TlsLibrary, TlsPurpose, TlsTime,
};

use self::libraries::{FileId, Found};
use crate::source::{CounterSource, read};

/// The libraries that were found when the probes were attached, and since.
#[derive(Debug, Default)]
pub(crate) struct Tls {
    libraries: BTreeMap<FileId, TlsLibrary>,
    /// Functions that are probed, by their place in [`TLS_FUNCTIONS`].
    functions: BTreeSet<u32>,
}

/// What is known at the end of a window.
#[derive(Clone, Debug)]
pub(crate) struct TlsWindow {
    libraries: Vec<TlsLibrary>,
    functions: BTreeSet<u32>,
}

/// The counters at one moment, summed over CPUs, by function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsCopy(Vec<TlsCounters>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TlsCounters {
    count: u64,
    lost: u64,
    handshakes: u64,
    ns_total: u64,
    cpu_ns: u64,
    calls_ns: u64,
    ns_max: u64,
    ns_min: Option<u64>,
    buckets: Vec<u64>,
}

impl Tls {
    /// Looks for TLS libraries in these processes and probes those that can be looked into.
    pub(crate) fn attach(pids: &BTreeSet<u32>, source: &mut dyn CounterSource) -> Self {
        let mut tls = Self::default();
        for found in libraries::find(pids, &BTreeSet::new()) {
            let mut not_probed = found.not_probed;
            if not_probed.is_none() {
                match source.probe_functions(&found.path, &found.functions) {
                    Ok(()) => tls
                        .functions
                        .extend(found.functions.iter().map(|function| function.cookie)),
                    Err(error) => not_probed = Some(error.to_string()),
                }
            }
            let library = TlsLibrary {
                name: found.name,
                file: found.file,
                pids: found.pids.into_iter().collect(),
                not_probed,
            };
            tls.libraries.insert(found.id, library);
        }
        tls
    }

    /// A window ends: looks which libraries these processes have by now.
    pub(crate) fn window(&mut self, pids: &BTreeSet<u32>) -> TlsWindow {
        let known = self.libraries.keys().copied().collect();
        for Found {
            id,
            name,
            file,
            pids,
            not_probed,
            ..
        } in libraries::find(pids, &known)
        {
            let late = TlsLibrary {
                name,
                file,
                pids: Vec::new(),
                not_probed: not_probed.or_else(|| Some(TOO_LATE.to_owned())),
            };
            let library = self.libraries.entry(id).or_insert(late);
            let all = library.pids.iter().copied().chain(pids);
            library.pids = all.collect::<BTreeSet<u32>>().into_iter().collect();
        }
        TlsWindow {
            libraries: self.libraries.values().cloned().collect(),
            functions: self.functions.clone(),
        }
    }
}

impl TlsWindow {
    /// What was counted between two copies.
    pub(crate) fn tls_time(&self, from: &TlsCopy, to: &TlsCopy, are_calls_timed: bool) -> TlsTime {
        let functions = self.functions.iter().map(|&function| {
            let at = function as usize;
            row(function, &from.0[at], &to.0[at], are_calls_timed)
        });
        let lost = |copy: &TlsCopy| copy.0.iter().map(|counters| counters.lost).sum::<u64>();
        TlsTime {
            libraries: self.libraries.clone(),
            functions: functions.collect(),
            lost: lost(to) - lost(from),
        }
    }

    /// Why there is no time, where none of the libraries is probed.
    pub(crate) fn not_measured(&self) -> Option<NotMeasured> {
        if !self.functions.is_empty() {
            return None;
        }
        let reasons = self.libraries.iter().filter_map(|library| {
            let why = library.not_probed.as_ref()?;
            Some(format!("{}: {why}", library.name))
        });
        let reasons: Vec<String> = reasons.collect();
        let why = if reasons.is_empty() {
            "no TLS library was found in the processes of the target".to_owned()
        } else {
            reasons.join("; ")
        };
        Some(NotMeasured {
            what: "TLS time".into(),
            why,
            remedy: None,
        })
    }
}

impl TlsCopy {
    /// Copies the counters; nothing where none were asked for.
    pub(crate) fn take(rows: &[TlsRow]) -> Self {
        if rows.len() < TLS_ROWS as usize {
            return Self::default();
        }
        let mut sums = vec![TlsCounters::default(); TLS_ROWS as usize];
        for (at, row) in rows.iter().enumerate() {
            sums[at % TLS_ROWS as usize].add(row);
        }
        Self(sums)
    }
}

impl TlsCounters {
    fn add(&mut self, row: &TlsRow) {
        // What the programs write last is read first: no call is seen without its time.
        let count = read(&row.count);
        self.lost += read(&row.lost);
        if self.buckets.is_empty() {
            self.buckets = vec![0; TIME_BUCKETS];
        }
        for (sum, bucket) in self.buckets.iter_mut().zip(&row.buckets) {
            *sum += read(bucket);
        }
        if count == 0 {
            return;
        }
        self.count += count;
        let ns_min = !read(&row.ns_min_inverted);
        self.ns_min = Some(self.ns_min.map_or(ns_min, |found| found.min(ns_min)));
        self.ns_max = self.ns_max.max(read(&row.ns_max));
        self.handshakes += read(&row.handshakes);
        self.cpu_ns += read(&row.cpu_ns);
        self.calls_ns += read(&row.calls_ns);
        self.ns_total += read(&row.ns_total);
    }
}

fn row(function: u32, from: &TlsCounters, to: &TlsCounters, are_calls_timed: bool) -> TlsFunction {
    let count = to.count - from.count;
    let mut buckets = to.buckets.clone();
    crate::delta::subtract_buckets(&mut buckets, &from.buckets);
    let cpu_ns = to.cpu_ns - from.cpu_ns;
    let name = TLS_FUNCTIONS[function as usize];
    TlsFunction {
        name: name.to_owned(),
        purpose: purpose(function),
        count,
        time: TimeStats {
            timed: count,
            ns_total: to.ns_total - from.ns_total,
            ns_min: to.ns_min.filter(|_| count > 0),
            ns_max: (count > 0).then_some(to.ns_max),
            histogram: Log2Histogram::new(buckets),
        },
        // A kernel without that clock adds nothing.
        cpu_ns: (count == 0 || cpu_ns > 0).then_some(cpu_ns),
        calls_ns: are_calls_timed.then_some(to.calls_ns - from.calls_ns),
        handshakes: is_handshake(function).then_some(to.handshakes - from.handshakes),
    }
}

fn purpose(function: u32) -> TlsPurpose {
    let name = TLS_FUNCTIONS[function as usize];
    if is_handshake(function) {
        TlsPurpose::Handshake
    } else if name.contains("read") || name.contains("recv") {
        TlsPurpose::Read
    } else if name.contains("write") || name.contains("send") {
        TlsPurpose::Write
    } else {
        TlsPurpose::Session
    }
}

const TOO_LATE: &str =
    "it was not there yet when the probes were attached; profile the process once it is running";

#[cfg(test)]
mod tests {
    use std::array::from_fn;
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    /// What the functions are for follows from their manual pages.
    #[test]
    fn purposes() {
        use TlsPurpose::{Handshake as H, Read as R, Session as S, Write as W};

        let purposes = (0..TLS_ROWS).map(purpose).collect::<Vec<_>>();
        assert_eq!(purposes, [H, H, H, R, R, W, W, H, R, W, S, S, S]);
    }

    /// Counters of all CPUs are added up, and only what came between two copies is a window's.
    #[test]
    fn adds_up_and_subtracts() {
        let rows: Vec<TlsRow> = (0..2 * TLS_ROWS).map(|_| empty_row()).collect();
        let call = |at: u32, ns: u64| {
            let row = &rows[at as usize];
            for (counter, by) in [
                (&row.ns_total, ns),
                (&row.cpu_ns, ns / 2),
                (&row.calls_ns, 1),
            ] {
                counter.fetch_add(by, Relaxed);
            }
            row.handshakes.fetch_add(1, Relaxed);
            row.ns_max.fetch_max(ns, Relaxed);
            row.ns_min_inverted.fetch_max(!ns, Relaxed);
            row.buckets[profiler_common::log2_bucket(ns)].fetch_add(1, Relaxed);
            row.count.fetch_add(1, Relaxed);
        };
        call(0, 500);
        let from = TlsCopy::take(&rows);
        call(0, 1000);
        call(TLS_ROWS, 3000);
        rows[3].lost.fetch_add(7, Relaxed);
        let to = TlsCopy::take(&rows);
        let window = TlsWindow {
            libraries: Vec::new(),
            functions: BTreeSet::from([0, 3]),
        };
        let time = window.tls_time(&from, &to, true);
        assert_eq!(time.lost, 7);
        let [handshake, read] = time.functions.as_slice() else {
            panic!("two functions were probed");
        };
        assert_eq!((handshake.count, handshake.handshakes), (2, Some(2)));
        assert_eq!(handshake.time.ns_total, 4000);
        assert_eq!(
            (handshake.cpu_ns, handshake.calls_ns),
            (Some(2000), Some(2))
        );
        assert_eq!(
            (handshake.time.ns_min, handshake.time.ns_max),
            (Some(500), Some(3000))
        );
        assert_eq!(
            (read.count, read.handshakes, read.cpu_ns),
            (0, None, Some(0))
        );
        assert_eq!(
            window.tls_time(&from, &to, false).functions[0].calls_ns,
            None
        );
    }

    /// Where nothing is probed the libraries that were found say why.
    #[test]
    fn says_why_there_is_no_time() {
        let mut window = TlsWindow {
            libraries: Vec::new(),
            functions: BTreeSet::new(),
        };
        let why = |window: &TlsWindow| window.not_measured().map(|missing| missing.why);
        assert!(why(&window).is_some_and(|why| why.starts_with("no TLS library")));
        window.libraries.push(TlsLibrary {
            name: "Go crypto/tls".into(),
            file: "caddy".into(),
            pids: vec![1],
            not_probed: Some("for a reason".into()),
        });
        assert_eq!(why(&window).as_deref(), Some("Go crypto/tls: for a reason"));
        window.functions.insert(0);
        assert_eq!(why(&window), None);
    }

    fn empty_row() -> TlsRow {
        let zero = AtomicU64::default;
        TlsRow {
            count: zero(),
            lost: zero(),
            handshakes: zero(),
            ns_total: zero(),
            cpu_ns: zero(),
            calls_ns: zero(),
            ns_max: zero(),
            ns_min_inverted: zero(),
            buckets: from_fn(|_| zero()),
        }
    }
}

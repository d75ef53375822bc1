//! Tables of calls whose arithmetic closes.

use recording::StatementKind::{Follows, Suspicion};
use recording::{ExaminedServer, ForeignCall, ForeignCalls, Statement};

use super::{add_few, grouped, percent};
use crate::autopsy::{refusing, statement};

/// What a table of calls says about responses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
    pub(super) table: &'a ForeignCalls,
    /// The call that each response is sent with.
    pub(super) answer: &'static str,
    /// Responses: calls of that kind.
    pub(super) responses: u64,
}

impl<'a> Shape<'a> {
    /// `None` where nothing was sent.
    pub(super) fn of(table: &'a ForeignCalls) -> Option<Self> {
        let (answer, responses) = ANSWERS
            .map(|name| (name, table.rows.get(name).copied().map_or(0, good)))
            .into_iter()
            .max_by_key(|&(_, calls)| calls)?;
        (responses > 0).then_some(Self {
            table,
            answer,
            responses,
        })
    }

    /// That of the first table of a server that has one.
    pub(super) fn first(server: &'a ExaminedServer) -> Option<Self> {
        server.calls.iter().find_map(Self::of)
    }

    /// Rows of any of these names, summed.
    pub(super) fn sum(&self, names: &[&str]) -> ForeignCall {
        let rows = names.iter().filter_map(|name| self.table.rows.get(*name));
        rows.fold(ForeignCall::default(), |sum, row| sum.plus(*row))
    }

    /// Calls of any of these names for each response.
    pub(super) fn per_response(&self, names: &[&str]) -> f64 {
        self.sum(names).calls as f64 / self.responses as f64
    }

    /// All calls of the table.
    pub(super) fn all_calls(&self) -> u64 {
        self.table
            .rows
            .values()
            .map(|row| row.calls)
            .fold(0, u64::saturating_add)
    }

    /// Whether a file is opened and closed for each response.
    pub(super) fn opens_files(&self) -> bool {
        self.per_response(&OPENS) > 0.5
    }

    /// Whether files are sent that nobody opens.
    pub(super) fn caches_files(&self) -> bool {
        self.per_response(&OPENS) < 0.01 && self.per_response(&SENDFILES) > 0.5
    }

    /// How it waits for events.
    pub(super) fn poller(&self) -> Option<&'static str> {
        Some(self.waits()?.0)
    }

    /// How it waits for events, and how often.
    fn waits(&self) -> Option<(&'static str, u64)> {
        POLLERS
            .map(|(name, names)| (name, self.sum(names).calls))
            .into_iter()
            .max_by_key(|&(_, calls)| calls)
            .filter(|&(_, calls)| calls > 0)
    }

    /// Connections that were accepted.
    pub(super) fn accepted(&self) -> u64 {
        good(self.sum(&ACCEPTS))
    }

    /// Descriptors that were closed and are no files.
    pub(super) fn sockets_closed(&self) -> Option<u64> {
        let files = if self.opens_files() {
            good(self.sum(&OPENS))
        } else {
            0
        };
        good(self.sum(&["close"])).checked_sub(files)
    }

    /// Reads of sockets that returned something, ends of file included.
    fn requests_read(&self) -> u64 {
        let files = if self.opens_files()
            && self.per_response(&PREADS) < 0.5
            && self.per_response(&SENDFILES) < 0.5
        {
            good(self.sum(&OPENS))
        } else {
            0
        };
        good(self.sum(&RECEIVES)).saturating_sub(files)
    }
}

/// All rules over the tables of one server.
pub(super) fn rules(server: &ExaminedServer) -> Vec<Statement> {
    let shapes: Vec<Shape<'_>> = server.calls.iter().filter_map(Shape::of).collect();
    let rules = [
        total, file_cycle, file_cache, cork, requests, drained, batches, clock, keep_alive,
    ];
    let mut found = Vec::new();
    for rule in rules {
        add_few(
            &mut found,
            shapes.iter().filter_map(|shape| rule(server, shape)),
        );
    }
    found
}

fn total(server: &ExaminedServer, shape: &Shape<'_>) -> Option<Statement> {
    let summed = shape.all_calls();
    let text = match shape.table.total {
        Some(total) if total.calls == summed => return None,
        Some(total) => format!(
            "the rows sum up to {} calls and the total says {}: the table is cut or was edited",
            grouped(summed),
            grouped(total.calls)
        ),
        None if shape.table.tool == "strace -c" => "the table has no total: it is cut".to_owned(),
        None => return None,
    };
    let statement = statement("total", Suspicion, &[server], text);
    Some(refusing(statement, "the table of calls is cut"))
}

fn file_cycle(server: &ExaminedServer, shape: &Shape<'_>) -> Option<Statement> {
    if !shape.opens_files() {
        return None;
    }
    let opens = shape.sum(&OPENS);
    let opened = good(opens);
    let stats = shape.sum(&STATS);
    let closes = shape.sum(&["close"]).calls;
    let mut parts = Vec::new();
    if good(stats) == opened {
        let failures = if opens.errors > 0 {
            format!(" − {} failures", grouped(opens.errors))
        } else {
            String::new()
        };
        parts.push(format!(
            "fstat {} = open {}{failures}, exactly",
            grouped(good(stats)),
            grouped(opens.calls)
        ));
    }
    if let Some(sockets) = shape.sockets_closed() {
        let fits = if shape.accepted() == sockets {
            ", as many as were accepted"
        } else {
            ""
        };
        parts.push(format!(
            "{} closes = {} files + {} sockets{fits}",
            grouped(closes),
            grouped(opened),
            grouped(sockets)
        ));
    }
    parts.push(format!(
        "{:.3} open, {:.3} fstat and {:.3} close of a file for each response: each response costs one cycle of them",
        shape.per_response(&OPENS),
        good(stats) as f64 / shape.responses as f64,
        opened as f64 / shape.responses as f64,
    ));
    let text = parts.join("; ");
    Some(statement("file-cycle", Follows, &[server], text))
}

fn file_cache(server: &ExaminedServer, shape: &Shape<'_>) -> Option<Statement> {
    let text = format!(
        "{:.3} sendfile for each response and no open or fstat: descriptors of files are cached (in nginx \
         that is open_file_cache, which is not its default)",
        shape.per_response(&SENDFILES)
    );
    shape
        .caches_files()
        .then(|| statement("file-cache", Follows, &[server], text))
}

fn cork(server: &ExaminedServer, shape: &Shape<'_>) -> Option<Statement> {
    let options = shape.sum(&["setsockopt"]).calls;
    let twice = shape.responses.saturating_mul(2);
    (options == twice).then(|| {
        let text = format!(
            "setsockopt {} is exactly 2 for each of {} responses: the cork is set and taken off around each \
             (tcp_nopush with sendfile)",
            grouped(options),
            grouped(shape.responses)
        );
        statement("cork", Follows, &[server], text)
    })
}

fn requests(server: &ExaminedServer, shape: &Shape<'_>) -> Option<Statement> {
    let read = shape.requests_read();
    let rest = read.checked_sub(shape.responses)?;
    // Beyond that reads are no requests: bodies, other descriptors.
    (rest as f64 <= shape.responses as f64 * 0.25).then(|| {
        let coalesced = if shape.opens_files() && shape.sum(&OPENS).calls == shape.responses {
            format!(
                "; {} = open, one for each response: responses are not written together, so this is not \
                 multiplexed HTTP/2 in effect",
                shape.answer
            )
        } else {
            String::new()
        };
        let text = format!(
            "{} reads of sockets = {} responses ({}) + {}, which fit the ends of file of closed connections \
             (inferred){coalesced}",
            grouped(read),
            grouped(shape.responses),
            shape.answer,
            grouped(rest),
        );
        statement("requests", Follows, &[server], text)
    })
}

/// A server that reads until EAGAIN gets one for each read; where it does not, more was there.
fn drained(server: &ExaminedServer, shape: &Shape<'_>) -> Option<Statement> {
    let read = shape.requests_read();
    let empty = shape.sum(&RECEIVES).errors;
    let without = read.checked_sub(empty)?;
    let undrained = without as f64 / read as f64;
    // With none at all it reads once.
    (empty as f64 > read as f64 * 0.1 && undrained > 0.05).then(|| {
        let text = format!(
            "{} of the reads that returned something ({} of {}) were not followed by one that found nothing: \
             fits a next request that was there already, so in what was traced the server was behind its client",
            percent(undrained),
            grouped(without),
            grouped(read)
        );
        statement("behind-client", Suspicion, &[server], text)
    })
}

fn batches(server: &ExaminedServer, shape: &Shape<'_>) -> Option<Statement> {
    let (poller, wakes) = shape.waits()?;
    let each = shape.responses as f64 / wakes as f64;
    (each >= 1.5).then(|| {
        let text = format!(
            "{each:.0} responses for each wake-up ({poller} {})",
            grouped(wakes)
        );
        statement("batches", Follows, &[server], text)
    })
}

fn clock(server: &ExaminedServer, shape: &Shape<'_>) -> Option<Statement> {
    let (name, calls) = CLOCKS
        .map(|name| (name, shape.sum(&[name]).calls))
        .into_iter()
        .max_by_key(|&(_, calls)| calls)
        .filter(|&(_, calls)| calls > 0)?;
    let wakes = shape.waits().map_or(0, |(_, wakes)| wakes);
    let once = if calls.abs_diff(wakes) * 20 <= wakes {
        ", one for each wake-up"
    } else {
        ""
    };
    let text = format!(
        "{} calls of {name}{once} entered the kernel: the vDSO was not used (clock source, or how it was built)",
        grouped(calls)
    );
    Some(statement("clock-in-kernel", Follows, &[server], text))
}

fn keep_alive(server: &ExaminedServer, shape: &Shape<'_>) -> Option<Statement> {
    let accepts = shape.sum(&ACCEPTS);
    let ends: Vec<u64> = [
        Some(accepts.calls),
        Some(good(accepts)),
        shape.sockets_closed(),
    ]
    .into_iter()
    .flatten()
    .filter(|&count| count > 0)
    .collect();
    let (most, least) = (ends.iter().max()?, ends.iter().min()?);
    let per = |connections: &u64| shape.responses as f64 / *connections as f64;
    let range = match (format!("{:.0}", per(most)), format!("{:.0}", per(least))) {
        (low, high) if low == high => low,
        (low, high) => format!("{low} to {high}"),
    };
    let limit = server
        .settings
        .get("keepalive_requests")
        .map_or(String::new(), |limit| {
            format!("; its configuration allows {limit}")
        });
    let text = format!("{range} responses for each connection (by accepts and by closes){limit}");
    Some(statement("keep-alive", Follows, &[server], text))
}

fn good(row: ForeignCall) -> u64 {
    row.calls.saturating_sub(row.errors)
}

pub(super) const OPENS: [&str; 3] = ["open", "openat", "openat2"];
pub(super) const STATS: [&str; 5] = ["fstat", "fstat64", "newfstatat", "fstatat64", "statx"];
const RECEIVES: [&str; 6] = ["read", "recvfrom", "recvmsg", "readv", "recv", "recvmmsg"];
const PREADS: [&str; 2] = ["pread64", "preadv"];
const SENDFILES: [&str; 3] = ["sendfile", "sendfile64", "splice"];
/// The last of those with as many calls counts.
const ANSWERS: [&str; 6] = ["sendfile", "send", "sendmsg", "sendto", "write", "writev"];
const ACCEPTS: [&str; 2] = ["accept", "accept4"];
const CLOCKS: [&str; 3] = ["gettimeofday", "clock_gettime", "time"];
const POLLERS: [(&str, &[&str]); 4] = [
    ("epoll", &["epoll_wait", "epoll_pwait", "epoll_pwait2"]),
    ("select", &["select", "pselect6", "_newselect"]),
    ("poll", &["poll", "ppoll"]),
    ("io_uring", &["io_uring_enter"]),
];

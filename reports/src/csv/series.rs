//! A profile as a series: lines for each slice as it is taken, and lines of the whole window at the end.

use recording::{ProfileSlice, SeriesLine, SliceWait};

use super::{number, word};

/// The header line. Times are in seconds since the start of the window.
pub const HEADER: &str =
    "row,from_s,to_s,abi,call,on,count,errors,bytes,inside_ns,wakes,events,timeouts,lost\n";

/// The lines of a slice, or of the total: one for all calls (row `slice`, `total`), then one for each
/// (`slice_call`, `total_call`). The window began at `start_ns`.
pub fn lines(line: &SeriesLine, start_ns: u64) -> String {
    let (row, slice) = match line {
        SeriesLine::Slice(slice) => ("slice", slice),
        SeriesLine::Total(total) => ("total", &total.sum),
    };
    let seconds = |ns: u64| format!("{:.6}", ns.saturating_sub(start_ns) as f64 / 1e9);
    let times = format!(
        "{},{}",
        seconds(slice.window.start_ns),
        seconds(slice.window.end_ns)
    );
    let mut text = format!("{row},{times},,,,{}\n", sums(slice));
    for call in &slice.calls {
        let is_of_call = |wait: &&SliceWait| (wait.abi, &wait.name) == (call.abi, &call.name);
        let wait = slice.waits.iter().find(is_of_call);
        let fields = [
            format!("{row}_call,{times}"),
            word(&format!("{:?}", call.abi).to_lowercase()),
            word(&call.name),
            word(call.on.map_or("", recording::CallObject::word)),
            call.count.to_string(),
            call.errors.to_string(),
            number(call.bytes),
            number(call.ns_total),
            number(wait.map(|wait| wait.wakes)),
            number(wait.map(|wait| wait.events)),
            number(wait.map(|wait| wait.timeouts)),
            // What was lost belongs to no call.
            String::new(),
        ];
        text.extend([&fields.join(","), "\n"]);
    }
    text
}

/// The figures of all calls together. Bytes and times are empty where no call has them.
fn sums(slice: &ProfileSlice) -> String {
    let calls = &slice.calls;
    let known = |values: Vec<Option<u64>>| {
        let known = values.into_iter().flatten();
        known.reduce(u64::saturating_add)
    };
    let waits = |of: fn(&SliceWait) -> u64| slice.waits.iter().map(of).reduce(u64::saturating_add);
    let fields = [
        number(Some(calls.iter().map(|call| call.count).sum::<u64>())),
        number(Some(calls.iter().map(|call| call.errors).sum::<u64>())),
        number(known(calls.iter().map(|call| call.bytes).collect())),
        number(known(calls.iter().map(|call| call.ns_total).collect())),
        number(waits(|wait| wait.wakes)),
        number(waits(|wait| wait.events)),
        number(waits(|wait| wait.timeouts)),
        slice.lost.total().to_string(),
    ];
    fields.join(",")
}

#[cfg(test)]
mod tests {
    use recording::{Abi, CallObject, Detail, Profile, SeriesTotal, SliceCall, Window};

    use super::*;

    fn slice() -> ProfileSlice {
        let call = |name: &str, on, count, bytes| SliceCall {
            abi: Abi::X86_64,
            name: name.into(),
            on,
            count,
            errors: 1,
            bytes,
            ns_total: Some(1_000),
            split: None,
        };
        ProfileSlice {
            window: Window {
                start_ns: 1_500_000_000,
                end_ns: 1_600_000_000,
            },
            calls: vec![
                call("read", Some(CallObject::Socket), 7, Some(70)),
                call("epoll_wait", None, 3, None),
            ],
            waits: vec![SliceWait {
                abi: Abi::X86_64,
                name: "epoll_wait".into(),
                wakes: 2,
                events: 5,
                timeouts: 1,
            }],
            groups: Vec::new(),
            threads: None,
            network: None,
            lost: recording::Lost::default(),
        }
    }

    /// A slice is a line of sums and a line per call, each with as many fields as the header.
    #[test]
    fn lines_of_a_slice() {
        let text = lines(&SeriesLine::Slice(slice()), 1_000_000_000);
        assert_eq!(
            text,
            "slice,0.500000,0.600000,,,,10,2,70,2000,2,5,1,0\n\
             slice_call,0.500000,0.600000,x86_64,read,socket,7,1,70,1000,,,,\n\
             slice_call,0.500000,0.600000,x86_64,epoll_wait,,3,1,,1000,2,5,1,\n"
        );
        let fields = |line: &str| line.split(',').count();
        assert!(text.lines().all(|line| fields(line) == fields(HEADER)));
    }

    /// A window in which nothing was called has a total of zeros, and nothing for what no call had.
    #[test]
    fn total_of_nothing() {
        let window = Window {
            start_ns: 4,
            end_ns: 1_000_000_004,
        };
        let total = SeriesTotal::of(&Profile::empty(Detail::Times, window), 0, 0);
        let text = lines(&SeriesLine::Total(Box::new(total)), 4);
        assert_eq!(text, "total,0.000000,1.000000,,,,0,0,,,,,,0\n");
    }
}

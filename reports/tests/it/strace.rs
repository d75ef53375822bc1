//! The first table of a profile against real output of `strace -c`, byte by byte.

use std::collections::BTreeMap;

use recording::{
    Abi, CallRow, Detail, Log2Histogram, Profile, Recording, TimeStats, family, number,
};
use reports::{Footer, Style, text};

use crate::fixture::{nginx, profile, profile_recording};

const LS: &str = include_str!("../fixtures/strace-6.1-ls.txt");
const SH_FOLLOW: &str = include_str!("../fixtures/strace-6.1-sh-follow.txt");
const TWO_ABIS: &str = include_str!("../fixtures/strace-6.1-two-abis.txt");

/// System time in strace has a resolution of a microsecond, so its table holds every digit: the
/// same numbers through our table give the same bytes.
#[test]
fn layout_equals_strace_to_the_byte() {
    for table in [LS, SH_FOLLOW, TWO_ABIS] {
        let text = render(&recording(parse(table), Detail::Times));
        assert_eq!(
            text.split_inclusive("\n\n").next().unwrap(),
            format!("{table}\n")
        );
    }
}

/// Below detail `times` the columns stay, and the reason is in the lines that follow.
#[test]
fn counts_keep_the_columns() {
    let mut rows = parse(TWO_ABIS);
    rows.retain(|row| row.count > 2);
    for row in &mut rows {
        row.time = None;
    }
    let text = render(&recording(rows, Detail::Counts));
    let table = text.split_inclusive("\n\n").next().unwrap();
    insta::assert_snapshot!(table, @r"
    % time     seconds  usecs/call     calls    errors syscall
    ------ ----------- ----------- --------- --------- ----------------
         -           -           -      3001      3001 access
         -           -           -         8           mmap
         -           -           -         3           mprotect
    ------ ----------- ----------- --------- --------- ----------------
         -           -           -      3012      3001 total
    System call usage summary for 32 bit mode:
    % time     seconds  usecs/call     calls    errors syscall
    ------ ----------- ----------- --------- --------- ----------------
         -           -           -       400       400 ioctl
         -           -           -         5           getpid
    ------ ----------- ----------- --------- --------- ----------------
         -           -           -       405       400 total
    ");
    assert!(text.contains("times    - above: not measured at detail counts"));
}

/// Columns grow with their figures, names included, and the rules grow with them.
#[test]
fn columns_grow_like_those_of_strace() {
    let mut row = parse(LS).remove(0);
    row.count = 12_345_678_901;
    row.errors = BTreeMap::from([("EAGAIN".to_owned(), 12_345_678_900)]);
    row.name = "a_call_with_a_longer_name".to_owned();
    let time = row.time.as_mut().unwrap();
    time.timed = 1;
    time.ns_total = 123_456_789_000_000;
    let text = render(&recording(vec![row], Detail::Times));
    let table = text.split_inclusive("\n\n").next().unwrap();
    insta::assert_snapshot!(table, @r"
    % time       seconds   usecs/call       calls      errors syscall
    ------ ------------- ------------ ----------- ----------- --------------------------
    100.00 123456.789000 123456789000 12345678901 12345678900 a_call_with_a_longer_name
    ------ ------------- ------------ ----------- ----------- --------------------------
    100.00 123456.789000            9 12345678901 12345678900 total
    ");
}

fn render(recording: &Recording) -> String {
    text::profile(recording, &Style::default(), &Footer::default())
}

fn recording(calls: Vec<CallRow>, detail: Detail) -> Recording {
    let profile = Profile {
        calls,
        detail,
        ..profile(&nginx(), 1000.0)
    };
    profile_recording(profile)
}

/// Reads the rows of a table, with the ABI that its heading names.
fn parse(table: &str) -> Vec<CallRow> {
    let mut abi = Abi::X86_64;
    let mut rows = Vec::new();
    for line in table.lines() {
        if line.ends_with("32 bit mode:") {
            abi = Abi::I386;
        }
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (figures, name) = match fields.as_slice() {
            [figures @ .., name] if *name != "total" && figures.len() >= 4 => (figures, *name),
            _ => continue,
        };
        let Ok(count) = figures[3].parse::<u64>() else {
            continue;
        };
        let micros: u64 = figures[1].replace('.', "").parse().unwrap();
        let errors = figures.get(4).map(|errors| errors.parse().unwrap());
        rows.push(CallRow {
            abi,
            nr: number(abi, name).unwrap(),
            name: name.to_owned(),
            on: None,
            family: family(name),
            count,
            errors: errors
                .map(|count| ("ENOENT".to_owned(), count))
                .into_iter()
                .collect(),
            bytes: None,
            died_in_call: 0,
            no_return: 0,
            time: Some(TimeStats {
                timed: count,
                ns_total: micros * 1000,
                ns_min: None,
                ns_max: None,
                histogram: Log2Histogram::default(),
            }),
            split: None,
        });
    }
    // The order of the input must not matter.
    rows.reverse();
    rows
}

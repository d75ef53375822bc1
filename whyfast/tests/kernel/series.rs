//! Series: slices that are written while they are measured, and their sum.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use recording::{Abi, CallObject, ProfileSlice, SeriesLine, SeriesTotal};

use crate::whyfast::{Mortal, run, until, whyfast};

/// Slices of a command add up to the total in every figure, and the total is what `dd` was told to do.
#[test]
fn slices_add_up_to_the_total() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("series.jsonl");
    let output = profile_dd("jsonl", &file);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (slices, total) = parse(&fs::read_to_string(&file).unwrap());
    assert!(slices.len() > 2, "{} slices", slices.len());
    assert_eq!((total.slices, total.late), (slices.len() as u64, 0));
    adds_up(&slices, &total);
    let calls = total.sum.calls.iter();
    let written: u64 = calls
        .filter(|call| call.name == "write")
        .map(|call| call.count)
        .sum();
    // And what it says at its end.
    assert!((COUNT..COUNT + 10).contains(&written), "{written} writes");
}

/// The same as comma-separated values: the sums of the slices are the total, for each call and for all.
#[test]
fn csv_adds_up_to_the_total() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("series.csv");
    let output = profile_dd("csv", &file);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = fs::read_to_string(&file).unwrap();
    let mut sums: BTreeMap<(bool, String), [u64; 7]> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let (row, call) = fields[0].split_once('_').unwrap_or((fields[0], ""));
        let key = format!("{call} {} {} {}", fields[3], fields[4], fields[5]);
        let sum = sums.entry((row == "total", key)).or_default();
        for (sum, field) in sum.iter_mut().zip(&fields[6..]) {
            *sum += if field.is_empty() {
                0
            } else {
                field.parse::<u64>().unwrap()
            };
        }
    }
    let of = |is_total: bool| -> Vec<(&String, &[u64; 7])> {
        let rows = sums.iter().filter(|((total, _), _)| *total == is_total);
        rows.map(|((_, key), sum)| (key, sum)).collect()
    };
    assert_eq!(of(false), of(true));
    assert!(of(true).len() > 3 && text.starts_with(reports::csv::series::HEADER));
}

/// A reader gets each slice while the measurement goes on. One that is too slow is told so, makes slices
/// longer, and loses nothing.
#[test]
fn slow_reader_loses_nothing() {
    let busy = busy();
    let mut child = start(&busy, "1ms");
    let mut stdout = BufReader::new(child.0.stdout.take().unwrap());
    let mut text = String::new();
    stdout.read_line(&mut text).unwrap();
    assert!(child.0.try_wait().unwrap().is_none());
    // Nothing is read until the pipe is full, and the writer says so.
    let mut stderr = BufReader::new(child.0.stderr.take().unwrap());
    let mut said = String::new();
    stderr.read_line(&mut said).unwrap();
    assert!(
        said.starts_with("whoever reads the slices is behind"),
        "{said}"
    );
    interrupt(&child.0);
    stdout.read_to_string(&mut text).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let (slices, total) = parse(&text);
    assert!(total.late > 0);
    adds_up(&slices, &total);
}

/// A reader that goes away ends the measurement, which is said and is no failure.
#[test]
fn reader_that_goes_away() {
    let busy = busy();
    let mut child = start(&busy, "1ms");
    let mut stdout = BufReader::new(child.0.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    drop(stdout);
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    let mut stderr = child.0.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert!(said.contains("nobody reads the slices any more"), "{said}");
}

/// A full disk ends it as a failure, with the reason.
#[test]
fn full_disk() {
    let busy = busy();
    let output = run(&[
        "profile",
        "--pid",
        &busy.0.id().to_string(),
        "--duration",
        "0",
        "--interval",
        "1ms",
        "--format",
        "jsonl",
        "-o",
        "/dev/full",
    ]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("failed to write the slices: No space left on device"),
        "{said}"
    );
}

/// A name whose process ends and comes back is measured on, and the gap is told with its times.
#[test]
fn name_that_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("series.jsonl");
    let comm = format!("back-{}", std::process::id());
    let program = folder.path().join(&comm);
    fs::copy("/bin/dd", &program).unwrap();
    let first = dd(&program);
    let child = whyfast()
        .args(["profile", "--comm", &comm, "--wait", "--duration", "0"])
        .args(["--interval", "20ms", "--format", "jsonl", "-o"])
        .arg(&file)
        .spawn();
    let mut child = Mortal(child.unwrap());
    // Whether the slices were busy and idle in this order.
    let seen = |phases: &[bool]| {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let mut busy: Vec<bool> = lines
            .filter_map(|line| match line {
                SeriesLine::Slice(slice) => Some(!slice.calls.is_empty()),
                SeriesLine::Total(_) => None,
            })
            .collect();
        busy.dedup();
        busy == phases
    };
    until("calls", || seen(&[true]));
    drop(first);
    until("silence", || seen(&[true, false]));
    let _second = dd(&program);
    until("calls again", || seen(&[true, false, true]));
    interrupt(&child.0);
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let (slices, total) = parse(&fs::read_to_string(&file).unwrap());
    adds_up(&slices, &total);
    assert_eq!(total.processes.len(), 2);
    let away: Vec<&str> = total
        .warnings
        .iter()
        .filter(|warning| warning.code == "target_was_away")
        .map(|warning| warning.text.as_str())
        .collect();
    assert_eq!(away.len(), 1, "{away:?}");
    assert!(
        away[0].starts_with(&format!("comm {comm} had no process from ")),
        "{away:?}"
    );
    assert!(away[0].contains("it ended and came back"), "{away:?}");
}

/// One that does not come back in time ends it.
#[test]
fn name_that_stays_away() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("series.jsonl");
    let comm = format!("away-{}", std::process::id());
    let program = folder.path().join(&comm);
    fs::copy("/bin/dd", &program).unwrap();
    let first = dd(&program);
    let child = whyfast()
        .args([
            "profile",
            "--comm",
            &comm,
            "--wait",
            "100ms",
            "--duration",
            "0",
        ])
        .args(["--interval", "20ms", "--format", "jsonl", "-o"])
        .arg(&file)
        .spawn();
    let mut child = Mortal(child.unwrap());
    until("a slice", || {
        fs::read_to_string(&file).is_ok_and(|text| text.contains('\n'))
    });
    drop(first);
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let (_, total) = parse(&fs::read_to_string(&file).unwrap());
    let away = total
        .warnings
        .iter()
        .find(|warning| warning.code == "target_was_away");
    assert!(
        away.unwrap().text.ends_with("it did not come back"),
        "{away:?}"
    );
}

fn profile_dd(format: &str, file: &Path) -> std::process::Output {
    whyfast()
        .args(["profile", "--interval", "20ms", "--format", format, "-o"])
        .arg(file)
        .args(["--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1"])
        .arg(format!("count={COUNT}"))
        .output()
        .unwrap()
}

fn start(target: &Mortal, interval: &str) -> Mortal {
    let child = whyfast()
        .args(["profile", "--pid", &target.0.id().to_string()])
        .args([
            "--duration",
            "0",
            "--interval",
            interval,
            "--format",
            "jsonl",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    Mortal(child.unwrap())
}

fn busy() -> Mortal {
    dd(Path::new("dd"))
}

/// Reads and writes without an end.
fn dd(program: &Path) -> Mortal {
    let child = Command::new(program)
        .args(["if=/dev/zero", "of=/dev/null", "bs=1"])
        .stderr(Stdio::null())
        .spawn();
    Mortal(child.unwrap())
}

fn interrupt(child: &Child) {
    let status = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(status.unwrap().success());
}

/// The slices and the total, which is the last line.
fn parse(text: &str) -> (Vec<ProfileSlice>, SeriesTotal) {
    let mut slices = Vec::new();
    let mut lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    for line in &mut lines {
        match line {
            SeriesLine::Slice(slice) => slices.push(slice),
            SeriesLine::Total(total) => {
                assert!(lines.next().is_none(), "nothing follows the total");
                return (slices, *total);
            }
        }
    }
    panic!("no total after {} slices", slices.len())
}

/// Every figure of the slices adds up to that of the total, and they lie edge to edge.
fn adds_up(slices: &[ProfileSlice], total: &SeriesTotal) {
    let whole = std::slice::from_ref(&total.sum);
    assert_eq!(call_sums(slices), call_sums(whole));
    assert_eq!(wait_sums(slices), wait_sums(whole));
    let lost: u64 = slices.iter().map(|slice| slice.lost.total()).sum();
    assert_eq!(lost, total.sum.lost.total());
    assert_eq!(slices[0].window.start_ns, total.sum.window.start_ns);
    assert_eq!(
        slices.last().unwrap().window.end_ns,
        total.sum.window.end_ns
    );
    for pair in slices.windows(2) {
        assert_eq!(pair[0].window.end_ns, pair[1].window.start_ns);
    }
}

type CallKey = (Abi, String, Option<CallObject>);

fn call_sums(slices: &[ProfileSlice]) -> BTreeMap<CallKey, [u64; 4]> {
    let mut sums: BTreeMap<CallKey, [u64; 4]> = BTreeMap::new();
    for call in slices.iter().flat_map(|slice| &slice.calls) {
        let sum = sums
            .entry((call.abi, call.name.clone(), call.on))
            .or_default();
        let figures = [
            call.count,
            call.errors,
            call.bytes.unwrap_or(0),
            call.ns_total.unwrap_or(0),
        ];
        for (sum, figure) in sum.iter_mut().zip(figures) {
            *sum += figure;
        }
    }
    sums
}

fn wait_sums(slices: &[ProfileSlice]) -> BTreeMap<String, [u64; 3]> {
    let mut sums: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    for wait in slices.iter().flat_map(|slice| &slice.waits) {
        let sum = sums.entry(wait.name.clone()).or_default();
        for (sum, figure) in sum.iter_mut().zip([wait.wakes, wait.events, wait.timeouts]) {
            *sum += figure;
        }
    }
    sums
}

/// Bytes that `dd` copies, one at a time.
const COUNT: u64 = 300_000;

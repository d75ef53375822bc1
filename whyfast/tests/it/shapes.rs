//! Shapes, requests and results of `whyfast load` on the command line.

use std::fs;

use recording::{Arrivals, Recording};

use crate::{assert_valid, run, said, server};

fn measured(arguments: &[&str]) -> (Option<i32>, Recording) {
    let output = run(&[&["load"], arguments, &["--format", "json"]].concat());
    let recording = assert_valid(&output.stdout);
    (output.status.code(), recording)
}

/// A rate is kept, and stored as it was asked for; the text shows what the JSON has.
#[test]
fn rate_is_stored() {
    let (_server, url) = server("sendfile");
    let arguments = [
        &url,
        "-n",
        "50",
        "-c",
        "2",
        "-R",
        "500",
        "--arrivals",
        "poisson",
        "--seed",
        "7",
    ];
    let (code, recording) = measured(&arguments);
    assert_eq!(code, Some(0));
    let load = recording.rounds[0].load.as_ref().unwrap();
    let shape = load.plan.shape.as_ref().unwrap();
    assert_eq!(shape.arrivals, Arrivals::Poisson);
    let schedule = load.measures.as_ref().unwrap().schedule.as_ref().unwrap();
    assert_eq!((load.ledger.sent, schedule.dropped), (50, 0));
    let text = run(&[&["load"], &arguments[..]].concat()).stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    for label in ["service", "schedule", "phases", "alive", "limiter"] {
        assert!(text.lines().any(|line| line.starts_with(label)), "{text}");
    }
}

/// A rate that is not reached is a broken limit, unless less is asked for.
#[test]
fn missed_rate_exits_with_3() {
    let (_server, url) = server("sendfile,spin-us=20000");
    let arguments = [&url, "-d", "0.5", "-R", "500", "--catch-up", "100ms"];
    let (code, recording) = measured(&arguments);
    assert_eq!(code, Some(3));
    let warnings = &recording.rounds[0].load.as_ref().unwrap().warnings;
    assert!(
        warnings
            .iter()
            .any(|warning| warning.code == "rate_not_reached")
    );
    let (code, _) = measured(&[&arguments[..], &["--min-rate", "0"]].concat());
    assert_eq!(code, Some(0));
}

/// A search prints the highest rate and every trial; without one it is a broken limit.
#[test]
fn search_is_printed() {
    let (_server, url) = server("sendfile,spin-us=5000");
    let limit = ["--find-max", "p50<500ms", "-d", "0.3"];
    let output = run(&[&["load", &url], &limit[..]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("trial "), "{text}{}", said(&output));
    assert!(text.contains("req/s kept p50<500ms"), "{text}");
    let limit = ["--find-max", "max<1us", "-d", "0.1"];
    let output = run(&[&["load", &url], &limit[..]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
}

/// A request file has its classes in the result, and an error in it names file and line.
#[test]
fn request_file_is_read() {
    let (_server, url) = server("sendfile");
    let path = url.strip_prefix("http://").unwrap();
    let path = &path[path.find('/').unwrap()..];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mix.toml");
    let text = format!(
        "[[request]]\nname = \"good\"\nweight = 9\npath = \"{path}\"\n\n\
         [[request]]\nname = \"missing\"\npath = \"/nowhere\"\nexpect_status = \"404\"\n"
    );
    fs::write(&file, &text).unwrap();
    let file = file.to_str().unwrap();
    let (code, recording) = measured(&[&url, "-n", "100", "-c", "3", "--request-file", file]);
    assert_eq!(code, Some(0));
    let measures = recording.rounds[0]
        .load
        .as_ref()
        .unwrap()
        .measures
        .as_ref()
        .unwrap();
    let classes: Vec<_> = measures
        .classes
        .iter()
        .map(|class| (class.name.as_str(), class.ledger.ok))
        .collect();
    assert_eq!(classes, [("good", 90), ("missing", 10)]);

    fs::write(file, text.replace("weight = 9", "weight = nine")).unwrap();
    let output = run(&["load", &url, "-n", "1", "--request-file", file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains(&format!("{file}:3: ")),
        "{}",
        said(&output)
    );
    fs::write(file, text.replace("\"good\"", "\"good\"\nmethod = \"G T\"")).unwrap();
    let output = run(&["load", &url, "-n", "1", "--request-file", file]);
    assert!(
        said(&output).contains(&format!("{file}:1: method")),
        "{}",
        said(&output)
    );
}

/// Statuses and bodies decide what is ok.
#[test]
fn checks_decide() {
    let (_server, url) = server("sendfile");
    let code = |arguments: &[&str]| {
        let all = [&["load", &url, "-n", "10"], arguments].concat();
        run(&all).status.code()
    };
    assert_eq!(code(&["--check-length", "1"]), Some(0));
    assert_eq!(code(&["--check-length", "2"]), Some(3));
    assert_eq!(code(&["--expect-status", "200"]), Some(0));
    assert_eq!(code(&["--expect-status", "204,300-399"]), Some(3));
    assert_eq!(code(&["--expect-status", "2xx"]), Some(2));
    assert_eq!(code(&["--check-sha256", "00"]), Some(2));
    assert_eq!(code(&["--check-sha256", &"00".repeat(32)]), Some(3));
}

/// Histograms go into files, CSV has a header and a line for the window.
#[test]
fn files_are_written() {
    let (_server, url) = server("sendfile");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (hdr, hgrm) = (path("a.hlog"), path("a.hgrm"));
    let arguments = [
        "load", &url, "-n", "20", "--format", "csv", "--hdr", &hdr, "--hgrm", &hgrm,
    ];
    let output = run(&arguments);
    let csv = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        csv.lines().last().unwrap().starts_with("window,0.000000,"),
        "{csv}"
    );
    let log = fs::read_to_string(hdr).unwrap();
    assert!(
        log.starts_with("#[Histogram log format version 1.3]"),
        "{log}"
    );
    assert!(
        fs::read_to_string(hgrm)
            .unwrap()
            .contains("Total count    =           20")
    );
    let missing = path("no/such/folder");
    let output = run(&["load", &url, "-n", "1", "--hdr", &missing]);
    assert_eq!(output.status.code(), Some(1));
}

/// Nonsense is refused with what would be right.
#[test]
fn nonsense_is_refused() {
    let check = |arguments: &[&str], wanted: &str| {
        let output = run(&[&["load", "http://127.0.0.1:9/"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said(&output).contains(wanted), "{}", said(&output));
    };
    check(&["-R", "fast"], "FROM-TO:TIME");
    check(&["-R", "0"], "nothing would be sent");
    check(&["--find-max", "p99"], "p99<5ms");
    check(&["--connection-rate", "0"], "must be more than 0");
    check(&["--min-rate", "101"], "between 0 and 100");
    check(&["--unix-socket", "/x", "--connect-to", "h"], "exclude");
    check(&["--source", "192.0.2.1"], "ip address");
    check(&["--proxy-source", "1.2.3.4:5"], "--proxy-protocol");
    check(&["--selftest"], "cannot be used with");
}

/// The selftest proves every account.
#[test]
fn selftest_proves_the_account() {
    let output = run(&["load", "--selftest"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(
        text.ends_with("13 of 13 accounts equal the count of the server\n"),
        "{text}"
    );
}

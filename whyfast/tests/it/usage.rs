//! What the command line refuses, and where output goes.

use std::fs;
use std::process::Stdio;

use crate::{run, said, server, whyfast};

/// Help is no error; what cannot be understood exits with 2 and says what could be.
#[test]
fn usage_errors_exit_with_2() {
    assert_eq!(run(&["--help"]).status.code(), Some(0));
    assert_eq!(run(&["--version"]).status.code(), Some(0));
    let cases: &[(&[&str], &str)] = &[
        (&["nonsense"], "nonsense"),
        (&["compare", "nginx"], "second one"),
        (&["compare", "apache", "nginx"], "h2o, haproxy"),
        (&["compare", "nginx:x", "h2o"], "it has cache, default"),
        (&["compare", "--scenario", "x"], "static-1b"),
        (&["compare", "--margin", "0"], "between 0 and 100"),
        (&["compare", "testserver:x", "testserver"], "open-read"),
        (&["compare", "a=cmd:true", "testserver"], "{port}"),
        (&["load", "ftp://x/"], "http"),
        (&["load", "http://x/", "-n", "1", "-d", "1s"], "one of them"),
        (&["load", "http://x/", "-H", "nocolon"], "Name: value"),
        (&["load", "http://x/", "--h2", "--http1"], "cannot be used"),
        (
            &["load", "http://x/", "--h2", "-H", "Connection: close"],
            "no header",
        ),
        (&["load", "https://x/", "--h2c-upgrade"], "ALPN"),
        (
            &["load", "http://x/", "--requests-jitter", "2"],
            "--requests-per-connection",
        ),
        (
            &[
                "load",
                "http://x/",
                "--requests-per-connection",
                "2",
                "--requests-jitter",
                "2",
            ],
            "cannot vary by 2",
        ),
        (&["load", "http://x/", "-R", "1e8"], "at most 10000000"),
        (
            &["load", "http://x/", "-o", "x", "--hdr", "x"],
            "two results",
        ),
        (
            &["load", "http://x/", "--resolve-each", "--unix-socket", "/x"],
            "exclude each other",
        ),
        (&["load", "https://x/", "--resumption", "150%"], "50%"),
        (&["load", "https://x/", "--cert", "x.pem"], "--key"),
        (&["profile"], "--pid"),
        (
            &["profile", "--pid", "1", "--live"],
            "stdin is not a terminal; leave --live out",
        ),
        (
            &["profile", "--pid", "1", "--format", "csv"],
            "--interval 100ms",
        ),
        (
            &[
                "profile",
                "--pid",
                "1",
                "--live",
                "--interval",
                "1s",
                "--format",
                "jsonl",
            ],
            "choose one of both",
        ),
        (
            &["profile", "--pid", "1", "-d", "0", "--interval", "1s"],
            "--duration 0 has no end",
        ),
        (
            &["profile", "--pid", "1", "--format", "svg"],
            "add --detail stacks",
        ),
        (
            &["profile", "--pid", "1", "--format", "folded-off-cpu"],
            "add --detail stacks",
        ),
        (&["load", "http://x/", "--format", "svg"], "possible values"),
        (&["profile", "--live", "--", "true"], "cannot be used"),
        (&["autopsy"], "FILE"),
        (&["testserver", "--style", "x"], "open-read"),
    ];
    for (arguments, wanted) in cases {
        let output = run(arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            said(&output)
        );
        assert!(
            said(&output).contains(wanted),
            "{arguments:?}: {}",
            said(&output)
        );
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

/// Output of other tools is examined; text without any is an error that names what is read.
#[test]
fn other_tools_output_is_examined() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let run_of = |rate: &str| {
        format!(
            "Running 1s test @ http://h/\n  100 requests in 1.00s, 1.00MB read\nRequests/sec: {rate}\n"
        )
    };
    let (old, new) = (
        file("old", &run_of("100.00")),
        file("new", &run_of("50.00")),
    );
    let output = run(&["autopsy", &old, &new]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(text.contains("old / new = 2.000"), "{text}");
    let prose = file("prose", "Both are fast.");
    let output = run(&["autopsy", &prose]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("h2load"), "{}", said(&output));
}

/// A reader that goes away ends the output quietly.
#[test]
fn closed_stdout_is_no_error() {
    let mut child = whyfast()
        .arg("list")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(said(&output), "");
}

/// What is not in a recording cannot be taken out of it or held against it; the error names what is.
#[test]
fn report_names_the_causes_that_there_are() {
    let recording = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../recording/tests/fixtures/compare-1.0.json"
    );
    let known = run(&["report", recording, "--without", "receive"]);
    assert_eq!(known.status.code(), Some(0), "{}", said(&known));
    let unknown = run(&["report", recording, "--without", "magic"]);
    assert_eq!(unknown.status.code(), Some(2));
    let text = said(&unknown);
    assert!(text.contains("magic") && text.contains("receive"), "{text}");

    let itself = run(&["report", recording, "--against", recording]);
    assert_eq!(itself.status.code(), Some(0), "{}", said(&itself));
    let unloaded = recording.replace("compare-1.0", "profile-1.0");
    let foreign = run(&["report", recording, "--against", &unloaded]);
    assert_eq!(foreign.status.code(), Some(2), "{}", said(&foreign));
}

/// A file that cannot be made is found out before anything is measured.
#[test]
fn wrong_output_costs_no_run() {
    let output = run(&["load", "http://127.0.0.1:1/", "-o", "/nonexistent/x"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("/nonexistent/x"),
        "{}",
        said(&output)
    );
}

/// A device that is full: the result goes to stdout, the error and its cause are said.
#[test]
fn full_output_prints_the_result_instead() {
    let (_server, url) = server("sendfile");
    let output = run(&[
        "load",
        &url,
        "-n",
        "10",
        "--format",
        "json",
        "-o",
        "/dev/full",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("No space left on device"),
        "{}",
        said(&output)
    );
    assert_eq!(crate::assert_valid(&output.stdout).rounds.len(), 1);
}

/// A result that goes to a file is whole, and stdout stays empty.
#[test]
fn output_file_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    let (_server, url) = server("sendfile");
    let output = run(&[
        "load",
        &url,
        "-n",
        "10",
        "--format",
        "json",
        "-o",
        path.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(output.stdout.is_empty());
    crate::assert_valid(&fs::read(&path).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// The manual page and completions are generated from the same definitions.
#[test]
fn manual_and_completions_are_printed() {
    assert!(String::from_utf8_lossy(&run(&["man"]).stdout).contains(".TH whyfast"));
    let page = run(&["man", "compare"]).stdout;
    assert!(String::from_utf8_lossy(&page).contains("lock\\-step"));
    assert_eq!(run(&["man", "nonsense"]).status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run(&["completions", "bash"]).stdout).contains("_whyfast"));
}

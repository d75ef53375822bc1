//! The binary over loopback: what it prints, stores and exits with. Nothing here needs root.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod advice;
mod compare;
mod load;
mod resolving;
mod scenarios;
mod shapes;
mod stored;
mod tools;
mod tools_tls;
mod usage;

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Output, Stdio};

/// A command that runs the binary.
fn whyfast() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyfast"));
    command.stdin(Stdio::null());
    command
}

/// Runs it to its end.
fn run(arguments: &[&str]) -> Output {
    whyfast().args(arguments).output().expect("the binary runs")
}

/// What it said on stderr.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A child that is killed and reaped when the test ends, however it ends.
struct Mortal(Child);

impl Drop for Mortal {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A server that is asked to end, so that it takes its files along.
struct Server(Mortal);

impl Drop for Server {
    fn drop(&mut self) {
        let child = &mut self.0.0;
        let asked = Command::new("kill").arg(child.id().to_string()).status();
        if asked.is_ok_and(|status| status.success()) {
            drop(child.wait());
        }
    }
}

/// The built-in server on a free port, and its URL.
fn server(style: &str) -> (Server, String) {
    let child = whyfast()
        .args(["testserver", "--style", style])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut server = Mortal(child);
    let stdout = server.0.stdout.take().expect("stdout is piped");
    let mut url = String::new();
    BufReader::new(stdout)
        .read_line(&mut url)
        .expect("the first line is the URL");
    (Server(server), url.trim().to_owned())
}

/// Says aloud that a test lacks something, and writes it down where that is asked for.
fn skip(test: &str, why: &str) {
    let line = format!("{test}\t{why}\n");
    match std::env::var_os("WHYFAST_SKIP_LOG") {
        Some(path) => {
            let log = OpenOptions::new().append(true).create(true).open(path);
            log.unwrap().write_all(line.as_bytes()).unwrap();
        }
        None => std::io::stdout()
            .write_all(format!("SKIPPED {line}").as_bytes())
            .unwrap(),
    }
}

/// Checks a JSON text against the committed schema.
fn assert_valid(json: &[u8]) -> recording::Recording {
    let schema: serde_json::Value = serde_json::from_str(&recording::json_schema()).unwrap();
    let value: serde_json::Value = serde_json::from_slice(json).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    recording::Recording::parse(json).unwrap()
}

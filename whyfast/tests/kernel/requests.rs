//! Requests of a live server that somebody else loads: who counts them, and what they are good for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use recording::{Denominator, DiffWord, Profile, Recording, RequestSource, SyscallDiff};

use crate::missing;
use crate::servers::{Nginx, configured_nginx};
use crate::whyfast::{Mortal, run, until, whyfast};

/// nginx with an access log and a page of its counters, under load until it goes away.
struct Loaded {
    _load: Mortal,
    _nginx: Nginx,
    port: u16,
    log: PathBuf,
}

impl Loaded {
    fn begin(folder: &Path, lines: &str) -> Self {
        let log = folder.join("access.log");
        let lines = format!(
            "access_log {}; location = /status {{ stub_status; }} {lines}",
            log.display()
        );
        let (nginx, port) = configured_nginx(folder, "", &lines);
        let load = whyfast()
            .args([
                "load",
                &format!("http://127.0.0.1:{port}/"),
                "-c",
                "4",
                "-d",
                "5m",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let load = Mortal(load);
        until("requests", || {
            fs::metadata(&log).is_ok_and(|log| log.len() > 0)
        });
        Self {
            _load: load,
            _nginx: nginx,
            port,
            log,
        }
    }

    /// Profiles it for a moment, and leaves the recording in a file.
    fn profile(&self, requests_from: &str, file: &Path) -> Recording {
        let port = self.port.to_string();
        let output = run(&[
            "profile",
            "--port",
            &port,
            "--duration",
            "1s",
            "--requests-from",
            requests_from,
            "--format",
            "json",
            "-o",
            file.to_str().unwrap(),
        ]);
        assert!(output.status.success(), "{output:?}");
        Recording::parse(&fs::read(file).unwrap()).unwrap()
    }
}

fn profile(recording: &Recording) -> &Profile {
    recording.rounds[0].profile.as_ref().unwrap()
}

/// How often a call is made for each request.
fn per_request(recording: &Recording, call: &str) -> f64 {
    let profile = profile(recording);
    let rows = profile.calls.iter().filter(|row| row.name == call);
    let count: u64 = rows.map(|row| row.count).sum();
    count as f64 / profile.requests_in_window().unwrap()
}

/// The log and the counter of the same server agree: nginx makes one `writev` for a request.
#[test]
fn log_and_counter_agree() {
    if missing("log_and_counter_agree", &["nginx"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let loaded = Loaded::begin(folder.path(), "");
    let log = format!("log={}", loaded.log.display());
    let page = format!("url=http://127.0.0.1:{}/status", loaded.port);
    for (source, from) in [
        (RequestSource::AccessLog, log),
        (RequestSource::Counter, page),
    ] {
        let recording = loaded.profile(&from, &folder.path().join("recording.json"));
        let counted = profile(&recording).requests.clone().unwrap();
        assert_eq!(counted.source, source);
        assert!(from.ends_with(&counted.origin), "{}", counted.origin);
        let writes = per_request(&recording, "writev");
        assert!((writes - 1.0).abs() < 0.1, "{writes} per request by {from}");
    }
    // Nothing listens where no server is.
    let port = loaded.port.to_string();
    let refused = run(&[
        "profile",
        "--port",
        &port,
        "--requests-from",
        "url=http://127.0.0.1:1/",
        "-d",
        "1s",
    ]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("--requests-from: the counter at http://127.0.0.1:1/"),
        "{said}"
    );
}

/// "What changed since last week": two recordings of a live server, whose cache of open files was turned off
/// between them. The difference is per request, says who counted those, and names the calls that are new.
#[test]
fn since_last_week_files_are_opened() {
    if missing("since_last_week_files_are_opened", &["nginx"]) {
        return;
    }
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let weeks = [
        "open_file_cache max=10; open_file_cache_valid 10m;",
        "open_file_cache off;",
    ];
    let mut files = Vec::new();
    for (folder, lines) in folders.iter().zip(weeks) {
        let loaded = Loaded::begin(folder.path(), lines);
        let file = folder.path().join("recording.json");
        let from = format!("log={}", loaded.log.display());
        let recording = loaded.profile(&from, &file);
        let opens = per_request(&recording, "openat");
        let expected = f64::from(u8::from(lines.contains("off")));
        assert!((opens - expected).abs() < 0.1, "{opens} with {lines}");
        files.push(file.to_str().unwrap().to_owned());
    }
    let output = run(&["diff", &files[0], &files[1], "--format", "json"]);
    let diff: SyscallDiff = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(diff.per, Denominator::Request);
    assert!(
        diff.notes.iter().any(|note| note.contains("access.log")),
        "{:?}",
        diff.notes
    );
    let calls = diff.families.iter().flat_map(|family| &family.calls);
    let new: Vec<&str> = calls
        .filter(|call| call.change == DiffWord::New)
        .filter(|call| call.b.is_some_and(|figures| figures.count > 0.5))
        .map(|call| call.call.as_str())
        .collect();
    assert!(
        new.contains(&"openat") && new.contains(&"close(file)"),
        "{new:?}"
    );
    let text = run(&["diff", &files[0], &files[1]]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains("openat") && text.contains("access.log"),
        "{text}"
    );
}

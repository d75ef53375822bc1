//! What the documentation gives a fleet: scraped by a real Prometheus, checked by its own tools.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::missing;
use crate::serve::served_at;
use crate::servers::start_nginx;
use crate::whyfast::{Mortal, until, whyfast};

/// A real Prometheus scrapes counters of nginx; what a query makes of them is the rate that wrk reports, within
/// 2 %: nginx makes one `writev` for each of its requests.
#[test]
fn prometheus_gives_the_rate_of_wrk() {
    if missing(
        "prometheus_gives_the_rate_of_wrk",
        &["nginx", "prometheus", "wrk"],
    ) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_nginx, port) = start_nginx(folder.path(), None);
    let mut profile = Mortal(
        whyfast()
            .args(["profile", "--port", &port.to_string(), "--serve", "0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut said = BufReader::new(profile.0.stderr.take().unwrap());
    let prometheus = Prometheus::start(folder.path(), &served_at(&mut said));
    let responses = "sum(whyfast_syscalls_total{syscall=\"writev\"}) or vector(0)";
    until("the first scrape", || {
        prometheus.query("whyfast_build_info").is_some()
    });
    let before = prometheus.query(responses).unwrap();
    let wrk = Command::new(crate::find("wrk").unwrap())
        .args(["-t1", "-c8", "-d5s", &format!("http://127.0.0.1:{port}/")])
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&wrk.stdout).into_owned();
    let (requests, seconds) = totals(&report);
    let rate = number_after(&report, "Requests/sec:");
    // The counters are a second old at most, and a scrape comes each second.
    let mut after = before;
    until("all that was counted", || {
        after = prometheus.query(responses).unwrap();
        after - before >= requests
    });
    let ratio = (after - before) / seconds / rate;
    assert!(
        (ratio - 1.0).abs() < 0.02,
        "{ratio}: {before} to {after}, {report}"
    );
    // And over the window that a dashboard shows, which reaches beyond the load.
    let shown = prometheus
        .query("max_over_time(rate(whyfast_syscalls_total{syscall=\"writev\"}[4s])[2m:1s])");
    assert!(shown.is_some_and(|rate| rate > 0.0), "{shown:?}");
}

/// Alerts and the unit are accepted by the programs that read them.
#[test]
fn alerts_and_unit_are_accepted() {
    if missing(
        "alerts_and_unit_are_accepted",
        &["promtool", "systemd-analyze"],
    ) {
        return;
    }
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/monitoring");
    let checked = Command::new("promtool")
        .args(["check", "rules"])
        .arg(documents.join("alerts.yml"))
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
    // With the program at a path that is there.
    let folder = tempfile::tempdir().unwrap();
    let unit = fs::read_to_string(documents.join("whyfast@.service")).unwrap();
    let here = folder.path().join("whyfast@.service");
    assert!(unit.contains("/usr/local/bin/whyfast "));
    let program = env!("CARGO_BIN_EXE_whyfast");
    fs::write(&here, unit.replace("/usr/local/bin/whyfast", program)).unwrap();
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&here)
        .output()
        .unwrap();
    assert!(
        verified.status.success() && verified.stderr.is_empty(),
        "{verified:?}"
    );
}

/// A Prometheus with one target, that is gone with the test.
struct Prometheus {
    _server: Mortal,
    address: String,
}

impl Prometheus {
    fn start(folder: &Path, target: &str) -> Self {
        let config: PathBuf = folder.join("prometheus.yml");
        fs::write(
            &config,
            format!(
                "global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: whyfast\n  static_configs:\n  \
                 - targets: ['{target}']\n"
            ),
        )
        .unwrap();
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let address = free.to_string();
        let server: Child = Command::new(crate::find("prometheus").unwrap())
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("tsdb").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            _server: Mortal(server),
            address,
        }
    }

    /// The first value of an instant query; `None` while there is none, or nobody answers.
    fn query(&self, query: &str) -> Option<f64> {
        let mut path = "/api/v1/query?query=".to_owned();
        for byte in query.bytes() {
            write!(path, "%{byte:02x}").ok()?;
        }
        let mut stream = std::net::TcpStream::connect(&self.address).ok()?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let body: serde_json::Value = serde_json::from_str(body).ok()?;
        let value = body.pointer("/data/result/0/value/1")?;
        value.as_str()?.parse().ok()
    }
}

/// Requests, and the seconds that they took: `123456 requests in 5.00s, 30.00MB read`.
fn totals(report: &str) -> (f64, f64) {
    let line = report.lines().find(|line| line.contains(" requests in "));
    let line = line.unwrap_or_else(|| panic!("{report}"));
    let (requests, rest) = line.trim().split_once(" requests in ").unwrap();
    let seconds = rest.split('s').next().unwrap();
    (requests.parse().unwrap(), seconds.parse().unwrap())
}

fn number_after(report: &str, label: &str) -> f64 {
    let line = report
        .lines()
        .find_map(|line| line.trim().strip_prefix(label));
    line.unwrap_or_else(|| panic!("{report}"))
        .trim()
        .parse()
        .unwrap()
}

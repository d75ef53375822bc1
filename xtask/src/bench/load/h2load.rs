//! h2load: HTTP/2 with many streams, and handshakes of TLS.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::super::clients::{self, Run};
use super::super::cpus;
use super::{CIPHER, GROUP, VERSION};

/// h2load with one thread, what both sides are pinned to, and these options.
pub(super) fn run(h2load: &Path, cpu: u32, url: &str, options: &[&str]) -> Result<Run> {
    let mut command = cpus::pinned(cpu, h2load);
    command
        .args(["-t1", "--groups", GROUP])
        .args(["--tls13-ciphers", CIPHER])
        .args(options)
        .arg(url);
    let (output, cpu_seconds) = clients::run(&mut command)?;
    let negotiated = [
        format!("TLS Protocol: {VERSION}"),
        format!("Cipher: {CIPHER}"),
        format!("Server Temp Key: {GROUP}"),
    ];
    for wanted in negotiated {
        ensure!(
            output.lines().any(|line| line.starts_with(&wanted)),
            "h2load does not say {wanted:?}: {output:?}"
        );
    }
    let achieved =
        parse(&output).with_context(|| format!("failed to understand h2load: {output:?}"))?;
    Ok(Run::of(achieved, cpu_seconds))
}

/// Completed requests, and requests per second. A run with errors is not understood.
fn parse(output: &str) -> Option<(f64, f64)> {
    let after = |start: &str| output.lines().find_map(|line| line.strip_prefix(start));
    let (_, rate) = after("finished in ")?.split_once(", ")?;
    let (rate, _) = rate.split_once(" req/s")?;
    let counts = after("requests: ")?;
    let count = |name: &str| {
        let mut words = counts.split(", ").filter_map(|count| count.split_once(' '));
        words.find_map(|(number, is)| (is == name).then(|| number.parse::<f64>().ok())?)
    };
    let failures = ["failed", "errored", "timeout"].map(count);
    let is_clean = failures.iter().all(|failures| *failures == Some(0.0));
    is_clean.then(|| Some((count("succeeded")?, rate.parse().ok()?)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    const H2LOAD: &str = "progress: 100% done

finished in 815.49ms, 1226.25 req/s, 299.38KB/s
requests: 1000 total, 1000 started, 1000 done, 1000 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 1000 2xx, 0 3xx, 0 4xx, 0 5xx
";

    /// Output of h2load; a run with errors is refused.
    #[test]
    fn reads_h2load() {
        assert_eq!(parse(H2LOAD), Some((1000.0, 1226.25)));
        assert_eq!(parse(&H2LOAD.replace("0 failed", "1 failed")), None);
        assert_eq!(parse(""), None);
    }
}

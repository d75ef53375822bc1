//! How the client speaks in a comparison, as options of `whyfast load`: the parity check asks over the
//! same protocol and the same TLS as the load.

use recording::Protocol;

use crate::compare::plan::Plan;
use crate::compare::workspace::Workspace;

/// The options that the load and the parity check share.
pub(crate) fn options(plan: &Plan, workspace: &Workspace) -> Vec<String> {
    let scenario = &plan.scenario;
    let mut options: Vec<String> = Vec::new();
    if scenario.protocol == Protocol::Http2 {
        options.push("--h2".to_owned());
    }
    let mut option = |name: &str, value: String| options.extend([name.to_owned(), value]);
    for (name, value) in &plan.request_headers {
        option("--header", format!("{name}: {value}"));
    }
    if let Some(certificate) = &workspace.certificate {
        option("--cacert", certificate.cert.display().to_string());
    }
    if let Some(tls) = &scenario.tls {
        if let Some(version) = &tls.version {
            option("--tls-min", version.clone());
            option("--tls-max", version.clone());
        }
        for (name, list) in [("--ciphers", &tls.ciphers), ("--groups", &tls.groups)] {
            if !list.is_empty() {
                option(name, list.join(","));
            }
        }
    }
    options
}

//! What differs from round to round in commands and configuration files: port, folders,
//! CPUs, the certificate.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::Context as _;
use recording::ConfigFile;

use crate::compare::template::fill;
use crate::compare::workspace::Workspace;
use crate::machine::CpuList;

/// What `{...}` means in commands and configuration files.
#[derive(Debug)]
pub(crate) struct Placeholders(Vec<(String, String)>);

impl Placeholders {
    pub(crate) fn new(
        port: u16,
        folder: &Path,
        workspace: &Workspace,
        cpus: &CpuList,
        path: &str,
    ) -> Self {
        let text = |path: &Path| String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned();
        let root = workspace.root();
        let mut values = vec![
            ("port", port.to_string()),
            ("dir", text(folder)),
            ("root", text(&root)),
            ("cpus", cpus.to_string()),
            ("workers", cpus.len().to_string()),
            ("file", path.trim_start_matches('/').to_owned()),
        ];
        if let Some(certificate) = &workspace.certificate {
            values.extend([
                ("cert", text(&certificate.cert)),
                ("key", text(&certificate.key)),
                ("pem", text(&certificate.pem)),
            ]);
        }
        let named = values
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value));
        Self(named.collect())
    }

    /// Adds the ports of the hops behind this one, the next one first.
    pub(crate) fn add_ports(&mut self, hops: &[(&str, u16)]) {
        for (index, (hop, port)) in hops.iter().enumerate() {
            if index == 0 {
                self.0.push(("upstream".to_owned(), port.to_string()));
            }
            self.0.push((format!("port_{hop}"), port.to_string()));
        }
    }

    pub(crate) fn fill(&self, text: &str) -> String {
        let values: Vec<(&str, &str)> = self
            .0
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        fill(text, &values)
    }

    pub(crate) fn write_config(&self, config: &[ConfigFile], folder: &Path) -> anyhow::Result<()> {
        for file in config {
            fs::write(folder.join(&file.name), self.fill(&file.text))
                .with_context(|| format!("failed to write {}", file.name))?;
        }
        Ok(())
    }
}

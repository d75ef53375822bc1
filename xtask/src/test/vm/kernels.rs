//! Kernels of other series, as packages of Debian: downloaded, unpacked and kept in the build folder,
//! never installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command;

/// A kernel that can be booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// As `uname -r` prints it: `6.1.0-57-cloud-amd64`.
    pub(crate) release: String,
    pub(crate) image: PathBuf,
}

/// The newest kernel of a series (`6.1`) that the archive has, from the cache where it is there. When
/// it cannot be had, the newest one in the cache; else why there is none.
pub(crate) fn newest(series: &str, cache: &Path) -> Result<Kernel> {
    let found = releases_in_archive(series).and_then(|releases| {
        let release = newest_of(series, releases).with_context(|| {
            format!("the archive has no package linux-image-{series}.*{FLAVOUR}")
        })?;
        let kernel = kernel(release, cache);
        if !kernel.image.exists() {
            download(&kernel, cache)?;
        }
        Ok(kernel)
    });
    found.or_else(|error| {
        let cached = newest_of(series, releases_in_cache(cache)).ok_or(error)?;
        Ok(kernel(cached, cache))
    })
}

fn kernel(release: String, cache: &Path) -> Kernel {
    let image = cache.join(format!("{IMAGE}{release}"));
    Kernel { release, image }
}

fn releases_in_archive(series: &str) -> Result<Vec<String>> {
    let pattern = format!("^{PACKAGE}{}\\..*{FLAVOUR}$", series.replace('.', "\\."));
    let mut search = Command::new("apt-cache");
    search.args(["search", "--names-only", &pattern]);
    let listed = command::output(&mut search)?;
    let listed = String::from_utf8_lossy(&listed);
    let names = listed.lines().filter_map(|line| line.split(' ').next());
    let releases = names.filter_map(|name| name.strip_prefix(PACKAGE));
    Ok(releases.map(ToOwned::to_owned).collect())
}

fn releases_in_cache(cache: &Path) -> Vec<String> {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| name.strip_prefix(IMAGE).map(ToOwned::to_owned))
        .collect()
}

/// The newest release of a series and of the flavour.
fn newest_of(series: &str, releases: Vec<String>) -> Option<String> {
    let series = format!("{series}.");
    releases
        .into_iter()
        .filter(|release| release.starts_with(&series) && release.ends_with(FLAVOUR))
        .max_by_key(|release| numbers(release))
}

/// The numbers in a text, by which releases are ordered.
fn numbers(text: &str) -> Vec<u64> {
    text.split(|character: char| !character.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

/// Downloads the package of a kernel and keeps its image.
fn download(kernel: &Kernel, cache: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("failed to make a temporary folder")?;
    let mut apt = Command::new("apt-get");
    // The folder is ours alone, and the user that apt downloads as cannot write there.
    apt.args(["download", "-qq", "-o", "APT::Sandbox::User=root"])
        .arg(format!("{PACKAGE}{}", kernel.release))
        .current_dir(folder.path());
    command::output(&mut apt)?;
    let files = fs::read_dir(folder.path())?;
    let package = files
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")?;
    let unpacked = folder.path().join("unpacked");
    command::output(
        Command::new("dpkg-deb")
            .arg("--extract")
            .args([&package, &unpacked]),
    )?;
    fs::create_dir_all(cache)?;
    // Under another name first: half a file must not be taken for a kernel by the next run.
    let partial = cache.join(format!("partial-{}", std::process::id()));
    fs::copy(
        unpacked.join(format!("boot/{IMAGE}{}", kernel.release)),
        &partial,
    )
    .and_then(|_bytes| fs::rename(&partial, &kernel.image))
    .with_context(|| format!("failed to keep {}", kernel.image.display()))
}

const PACKAGE: &str = "linux-image-";
/// The small flavour for virtual machines, which has all that is needed built in.
const FLAVOUR: &str = "-cloud-amd64";
const IMAGE: &str = "vmlinuz-";

#[cfg(test)]
mod tests {
    use super::*;

    fn newest(series: &str, releases: &[&str]) -> Option<String> {
        newest_of(series, releases.iter().map(ToString::to_string).collect())
    }

    /// Numbers are compared as numbers, and neither another series nor another flavour is taken.
    #[test]
    fn newest_release() {
        let releases = [
            "6.1.0-9-cloud-amd64",
            "6.1.0-57-cloud-amd64",
            "6.1.0-60-amd64",
            "6.12.117+deb12-cloud-amd64",
            "6.12.99+deb12-cloud-amd64",
        ];
        assert_eq!(
            newest("6.1", &releases).as_deref(),
            Some("6.1.0-57-cloud-amd64")
        );
        assert_eq!(
            newest("6.12", &releases).as_deref(),
            Some("6.12.117+deb12-cloud-amd64")
        );
        assert_eq!(newest("5.10", &releases), None);
    }

    /// Images in the cache are found again, other files are not taken for one.
    #[test]
    fn cached_releases() {
        let cache = tempfile::tempdir().expect("a temporary folder");
        for name in ["vmlinuz-6.1.0-57-cloud-amd64", "partial-12", "initramfs"] {
            fs::write(cache.path().join(name), "").expect("the folder is writable");
        }
        assert_eq!(releases_in_cache(cache.path()), ["6.1.0-57-cloud-amd64"]);
        assert!(releases_in_cache(&cache.path().join("none")).is_empty());
    }
}

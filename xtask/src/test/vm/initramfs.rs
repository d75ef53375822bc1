//! The file system that a virtual machine starts with: an archive in the format "newc" of cpio, as
//! `Documentation/driver-api/early-userspace/buffer-format.rst` of Linux describes it. Pure.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use anyhow::{Context as _, Result, ensure};

/// An archive, in the order in which things were added; folders come by themselves.
#[derive(Debug, Default)]
pub(crate) struct Initramfs {
    bytes: Vec<u8>,
    paths: BTreeSet<String>,
}

impl Initramfs {
    /// Adds a program at an absolute path; a path that is there already keeps its first content.
    pub(crate) fn program(&mut self, path: &Path, content: &[u8]) -> Result<()> {
        self.add(path, FILE | 0o755, content, (0, 0))
    }

    /// Adds a text at an absolute path.
    pub(crate) fn text(&mut self, path: &Path, content: &str) -> Result<()> {
        self.add(path, FILE | 0o644, content.as_bytes(), (0, 0))
    }

    /// Adds a character device with its major and minor number.
    pub(crate) fn device(&mut self, path: &Path, numbers: (u32, u32)) -> Result<()> {
        self.add(path, CHARACTER_DEVICE | 0o600, &[], numbers)
    }

    /// Adds an empty folder at an absolute path.
    pub(crate) fn folder(&mut self, path: &Path) -> Result<()> {
        self.add(path, FOLDER | 0o755, &[], (0, 0))
    }

    /// The whole archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[], (0, 0));
        self.bytes
    }

    fn add(&mut self, path: &Path, mode: u32, content: &[u8], device: (u32, u32)) -> Result<()> {
        let names = names(path)?;
        let (last, folders) = names.split_last().context("the root is a folder")?;
        for folder in folders {
            if self.paths.insert(folder.clone()) {
                self.entry(folder, FOLDER | 0o755, &[], (0, 0));
            }
        }
        if self.paths.insert(last.clone()) {
            ensure!(
                u32::try_from(content.len()).is_ok(),
                "{last} is larger than the format allows"
            );
            self.entry(last, mode, content, device);
        }
        Ok(())
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8], (major, minor): (u32, u32)) {
        // Files with the same number would be links to each other.
        let inode = self.paths.len();
        let (size, name_size) = (content.len(), name.len() + 1);
        let (links, zero) = (1, 0);
        // Magic, inode, mode, uid, gid, links, time, size, device of the file system, device,
        // length of the name, check sum (which this format does not have).
        self.bytes.extend_from_slice(
            format!(
                "070701{inode:08X}{mode:08X}{zero:08X}{zero:08X}{links:08X}{zero:08X}{size:08X}\
                 {zero:08X}{zero:08X}{major:08X}{minor:08X}{name_size:08X}{zero:08X}"
            )
            .as_bytes(),
        );
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes
            .resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }
}

/// The names of a path and of the folders that lead to it, outermost first, as the archive has them:
/// without a slash at the beginning.
fn names(path: &Path) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for component in path.components() {
        let Component::Normal(name) = component else {
            ensure!(
                component == Component::RootDir,
                "{} is not a plain absolute path",
                path.display()
            );
            continue;
        };
        let name = name
            .to_str()
            .with_context(|| format!("{} is not UTF-8", path.display()))?;
        names.push(match names.last() {
            Some(folder) => format!("{folder}/{name}"),
            None => name.to_owned(),
        });
    }
    Ok(names)
}

/// Types of files, `include/uapi/linux/stat.h`.
const FILE: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const CHARACTER_DEVICE: u32 = 0o020_000;
/// Headers and contents begin at multiples of this.
const ALIGNMENT: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry as a reader of the format finds it.
    #[derive(Debug, PartialEq, Eq)]
    struct Entry {
        name: String,
        mode: u32,
        device: (u32, u32),
        content: Vec<u8>,
    }

    /// Reads an archive the way the kernel does; the entries before the trailer.
    fn read(archive: &[u8]) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut at = 0;
        loop {
            let header = std::str::from_utf8(&archive[at..at + 110]).expect("headers are text");
            assert_eq!(&header[..6], "070701");
            let field = |n: usize| {
                let digits = &header[6 + 8 * n..14 + 8 * n];
                u32::from_str_radix(digits, 16).expect("hexadecimal")
            };
            let name_at = at + 110;
            let name_end = name_at + field(11) as usize - 1;
            assert_eq!(archive[name_end], 0);
            let name = String::from_utf8(archive[name_at..name_end].to_vec()).expect("UTF-8");
            let content_at = (name_end + 1).next_multiple_of(4);
            let content_end = content_at + field(6) as usize;
            at = content_end.next_multiple_of(4);
            if name == "TRAILER!!!" {
                assert_eq!(at, archive.len());
                return entries;
            }
            entries.push(Entry {
                name,
                mode: field(1),
                device: (field(9), field(10)),
                content: archive[content_at..content_end].to_vec(),
            });
        }
    }

    fn entry(name: &str, mode: u32, device: (u32, u32), content: &[u8]) -> Entry {
        Entry {
            name: name.to_owned(),
            mode,
            device,
            content: content.to_vec(),
        }
    }

    /// Programs, texts and devices, each folder once and before what is in it.
    #[test]
    fn entries_are_read_back() {
        let mut archive = Initramfs::default();
        let added = [
            archive.program(Path::new("/init"), b"\x7fELF"),
            archive.program(Path::new("/usr/bin/true"), b"12345"),
            archive.text(Path::new("/usr/bin/list"), "a\n"),
            archive.device(Path::new("/dev/console"), (5, 1)),
        ];
        assert!(added.iter().all(Result::is_ok));
        let expected = [
            entry("init", 0o100_755, (0, 0), b"\x7fELF"),
            entry("usr", 0o040_755, (0, 0), b""),
            entry("usr/bin", 0o040_755, (0, 0), b""),
            entry("usr/bin/true", 0o100_755, (0, 0), b"12345"),
            entry("usr/bin/list", 0o100_644, (0, 0), b"a\n"),
            entry("dev", 0o040_755, (0, 0), b""),
            entry("dev/console", 0o020_600, (5, 1), b""),
        ];
        assert_eq!(read(&archive.finish()), expected);
    }

    /// An entry byte for byte, as `cpio --format=newc` writes it.
    #[test]
    fn bytes_of_an_entry() {
        let mut archive = Initramfs::default();
        archive
            .text(Path::new("/ab"), "12345")
            .expect("a plain path");
        let expected = "070701\
             00000001000081A40000000000000000000000010000000000000005\
             0000000000000000000000000000000000000003000000\
             00ab\0\0\0\0";
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with(expected), "{text:?}");
        assert_eq!(&bytes[116..124], b"12345\0\0\0");
    }

    /// Every length of a name and of a content is aligned.
    #[test]
    fn all_lengths() {
        for length in 1..9 {
            let name = "n".repeat(length);
            let content = "c".repeat(length);
            let mut archive = Initramfs::default();
            archive
                .text(&Path::new("/").join(&name), &content)
                .expect("a plain path");
            let expected = entry(&name, 0o100_644, (0, 0), content.as_bytes());
            assert_eq!(read(&archive.finish()), [expected]);
        }
    }

    /// A path that was added stays as it is; one that leads elsewhere is refused.
    #[test]
    fn paths_are_plain_and_unique() {
        let mut archive = Initramfs::default();
        archive.text(Path::new("/a"), "first").expect("new");
        archive.text(Path::new("/a"), "second").expect("ignored");
        assert!(archive.text(Path::new("/a/../b"), "").is_err());
        assert!(archive.text(Path::new("/"), "").is_err());
        let entries = read(&archive.finish());
        assert_eq!(entries, [entry("a", 0o100_644, (0, 0), b"first")]);
    }
}

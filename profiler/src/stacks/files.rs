//! Files of processes that may be in containers: what a process has mapped, opened while it lives, and held
//! so that names can be looked up when it has ended or has been replaced.
//!
//! A path means what it means inside the root of the process, and never leads out of it. Nothing but ordinary
//! files is opened for reading, so that a pipe or a device that a process puts there is not touched.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};

use super::address_space::{Content, Region};

/// The root folder of a process, which stays there when the process has ended.
#[derive(Debug)]
pub(super) struct Root(OwnedFd);

impl Root {
    pub(super) fn of(pid: u32) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(open(
            format!("/proc/{pid}/root"),
            flags,
            Mode::empty(),
        )?))
    }

    /// That of this process.
    pub(super) fn own() -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(open("/", flags, Mode::empty())?))
    }

    /// An ordinary file inside.
    pub(super) fn open(&self, path: &Path) -> io::Result<File> {
        let inside = path.strip_prefix("/").unwrap_or(path);
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        ordinary(&openat2(&self.0, inside, flags, Mode::empty(), how)?)
    }
}

/// The file of a mapping. By the mapping itself where that is allowed: it is there even when the path is
/// another file by now. Else by its path, if that is still the file.
pub(super) fn open_mapped(pid: u32, root: Option<&Root>, region: &Region) -> io::Result<File> {
    let Content::File { key, path } = &region.content else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let (start, end) = (region.start, region.end);
    let mapped = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
    if let Ok(found) = open(mapped, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        return ordinary(&found);
    }
    let file = root.ok_or(io::ErrorKind::NotFound)?.open(path)?;
    if file.metadata()?.ino() == key.2 {
        Ok(file)
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// A path by which this process can open the file again.
pub(super) fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Opens for reading what was found to be an ordinary file.
fn ordinary(found: &impl AsFd) -> io::Result<File> {
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(found)?.st_mode);
    if kind != rustix::fs::FileType::RegularFile {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    File::open(format!("/proc/self/fd/{}", found.as_fd().as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::address_space::AddressSpace;

    /// Links and dots do not lead out of a root, and what is no ordinary file is not opened.
    #[test]
    fn stays_inside() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "here").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("out")).unwrap();
        std::os::unix::fs::symlink("/file", folder.path().join("in")).unwrap();
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let root = Root(open(folder.path(), flags, Mode::empty()).unwrap());
        let text = |path: &str| root.open(Path::new(path)).and_then(io::read_to_string);
        assert_eq!(text("/file").unwrap(), "here");
        assert_eq!(text("/in").unwrap(), "here");
        assert_eq!(text("/../../file").unwrap(), "here");
        assert_eq!(text("/out").unwrap_err().kind(), io::ErrorKind::NotFound);
        let device = Root::own().unwrap().open(Path::new("/dev/null"));
        assert_eq!(device.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    /// The mapping of this test is this test, whichever way it is opened.
    #[test]
    fn opens_what_is_mapped() {
        let own = std::process::id();
        let inode = std::fs::metadata("/proc/self/exe").unwrap().ino();
        let space = AddressSpace::of(own).unwrap();
        let is_exe = |region: &&Region| matches!(region.content, Content::File { key, .. } if key.2 == inode);
        let region = space.regions().find(is_exe).unwrap();
        let root = Root::of(own).unwrap();
        let opened = open_mapped(own, Some(&root), region).unwrap();
        assert_eq!(opened.metadata().unwrap().ino(), inode);
        assert_eq!(std::fs::metadata(path_of(&opened)).unwrap().ino(), inode);
        let by_path = open_mapped(0, Some(&root), region).unwrap();
        assert_eq!(by_path.metadata().unwrap().ino(), inode);
        let mut other = region.clone();
        if let Content::File { key, .. } = &mut other.content {
            key.2 += 1;
        }
        assert!(open_mapped(0, Some(&root), &other).is_err());
    }
}

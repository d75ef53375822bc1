//! What a program or library says of itself: its build id, where its code lies, and where the names of
//! its functions are to be found.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use object::{Object as _, ObjectSection as _, ObjectSegment as _, ReadCache};

/// A file that code is in.
#[derive(Debug)]
pub(super) struct ElfFile {
    /// Hexadecimal.
    pub(super) build_id: Option<String>,
    /// Where names come from; `None`: there are none.
    pub(super) names: Option<NameSource>,
    /// Address that the program begins at.
    entry: u64,
    /// Offset in the file, address and length of what is loaded.
    segments: Vec<(u64, u64, u64)>,
}

/// Where the names of functions come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameSource {
    /// `.symtab`.
    SymbolTable,
    /// A file with debug information of the same build id.
    DebugFile,
    /// `.gnu_debugdata`.
    MiniDebugInfo,
    /// `.dynsym`: exported functions alone.
    DynamicSymbols,
}

impl NameSource {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::SymbolTable => "symbol table",
            Self::DebugFile => "debug file by build id",
            Self::MiniDebugInfo => "compressed symbol table",
            Self::DynamicSymbols => "dynamic symbols",
        }
    }
}

impl ElfFile {
    /// Reads the headers. `debug_file` tells whether there is one for a build id.
    pub(super) fn read(file: File, debug_file: impl Fn(&str) -> bool) -> io::Result<Self> {
        let cache = ReadCache::new(file);
        let file = object::File::parse(&cache).map_err(io::Error::other)?;
        let id = file.build_id().ok().flatten();
        let build_id = id.map(recording::hex);
        let has = |section: &str| {
            let section = file.section_by_name(section);
            section.is_some_and(|section| section.size() > 0)
        };
        let names = if has(".symtab") {
            Some(NameSource::SymbolTable)
        } else if build_id.as_deref().is_some_and(debug_file) {
            Some(NameSource::DebugFile)
        } else if has(".gnu_debugdata") {
            Some(NameSource::MiniDebugInfo)
        } else {
            has(".dynsym").then_some(NameSource::DynamicSymbols)
        };
        let segments = file.segments().map(|segment| {
            let (offset, length) = segment.file_range();
            (offset, segment.address(), length)
        });
        Ok(Self {
            build_id,
            names,
            entry: file.entry(),
            segments: segments.take(MOST_SEGMENTS).collect(),
        })
    }

    /// The address that a place in the file is loaded at, before it is moved to where the process has it.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|&&(start, _, length)| {
            offset
                .checked_sub(start)
                .is_some_and(|inside| inside < length)
        });
        segment.map(|&(start, address, _)| address.wrapping_add(offset - start))
    }

    /// Whether an address is in the first function of the program, which has no caller. Its size is that of
    /// `_start` in every C library: a few dozen bytes.
    pub(super) fn is_entry(&self, address: u64) -> bool {
        self.entry != 0
            && address
                .checked_sub(self.entry)
                .is_some_and(|at| at < ENTRY_BYTES)
    }
}

/// Where the debug file of a build id is, in a root folder.
pub(super) fn debug_path(build_id: &str) -> Option<PathBuf> {
    let (folder, rest) = build_id.split_at_checked(2)?;
    (!rest.is_empty()).then(|| {
        Path::new(DEBUG_FILES)
            .join(folder)
            .join(format!("{rest}.debug"))
    })
}

const DEBUG_FILES: &str = "/usr/lib/debug/.build-id";
const MOST_SEGMENTS: usize = 64;
const ENTRY_BYTES: u64 = 48;

#[cfg(test)]
mod tests {
    use super::*;

    /// This test itself: it has symbols, and its entry point is where its header says.
    #[test]
    fn reads_ourselves() {
        let elf = ElfFile::read(File::open("/proc/self/exe").unwrap(), |_| false).unwrap();
        assert_eq!(elf.names, Some(NameSource::SymbolTable));
        assert!(elf.build_id.as_ref().is_none_or(|id| id.len() >= 16));
        assert!(elf.is_entry(elf.entry) && !elf.is_entry(elf.entry - 1));
        let (offset, address, length) = elf.segments[0];
        assert_eq!(elf.address(offset + length - 1), Some(address + length - 1));
        assert_eq!(elf.address(u64::MAX), None);
    }

    /// A build id has its debug file in a folder of its first byte, as GDB looks for it; one that is too
    /// short has none.
    #[test]
    fn debug_paths() {
        let path = debug_path("abcdef12").unwrap();
        assert_eq!(path, Path::new("/usr/lib/debug/.build-id/ab/cdef12.debug"));
        assert_eq!(debug_path("ab"), None);
        assert_eq!(debug_path(""), None);
    }

    /// What is no program is an error, not a panic.
    #[test]
    fn refuses_nonsense() {
        let file = File::open("/proc/self/maps").unwrap();
        assert!(ElfFile::read(file, |_| false).is_err());
    }
}

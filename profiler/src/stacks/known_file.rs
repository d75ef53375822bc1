//! Files that code is in, held open for as long as names may be looked up in them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};
use recording::Module;

use super::address_space::{Content, FileKey, Region};
use super::elf::{ElfFile, NameSource, debug_path};
use super::files::{Root, open_mapped, path_of};
use super::symbols::bounded_name;

/// A file that is held open.
#[derive(Debug)]
pub(super) struct KnownFile {
    pub(super) name: String,
    file: File,
    pub(super) elf: Option<ElfFile>,
    /// With the names, where that is another file.
    debug: Option<File>,
}

impl KnownFile {
    fn open(pid: u32, root: Option<&Root>, region: &Region, path: &Path) -> Option<Self> {
        let file = open_mapped(pid, root, region).ok()?;
        let own = Root::own().ok();
        let debug = |build_id: &str| {
            let path = debug_path(build_id)?;
            let roots = root.into_iter().chain(own.as_ref());
            roots.into_iter().find_map(|root| root.open(&path).ok())
        };
        let elf = file
            .try_clone()
            .and_then(|file| ElfFile::read(file, |build_id| debug(build_id).is_some()));
        let elf = elf.ok();
        let has_debug = |elf: &&ElfFile| elf.names == Some(NameSource::DebugFile);
        let debug = elf
            .as_ref()
            .filter(has_debug)
            .and_then(|elf| debug(elf.build_id.as_ref()?));
        Some(Self {
            name: file_name(path),
            file,
            elf,
            debug,
        })
    }

    pub(super) fn find(&self, symbolizer: &Symbolizer, address: u64) -> Option<String> {
        self.elf.as_ref()?.names?;
        let mut source = Elf::new(path_of(self.debug.as_ref().unwrap_or(&self.file)));
        // Lines and inlined functions would take reading all of it.
        source.debug_syms = false;
        let found = symbolizer.symbolize_single(&Source::from(source), Input::VirtOffset(address));
        Some(bounded_name(&found.ok()?.as_sym()?.name))
    }

    pub(super) fn module(&self) -> Module {
        let elf = self.elf.as_ref();
        Module {
            name: self.name.clone(),
            build_id: elf.and_then(|elf| elf.build_id.clone()),
            names: elf
                .and_then(|elf| elf.names)
                .map(|names| names.text().to_owned()),
            share: 0.0,
        }
    }
}

/// Opens the file of a mapping, if it is not open.
pub(super) fn hold(
    files: &mut BTreeMap<FileKey, KnownFile>,
    pid: u32,
    root: Option<&Root>,
    region: &Region,
) {
    if let Content::File { key, path } = &region.content
        && files.len() < MOST_FILES
        && !files.contains_key(key)
        && let Some(file) = KnownFile::open(pid, root, region, path)
    {
        files.insert(*key, file);
    }
}

pub(super) fn file_name(path: &Path) -> String {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned()
}

/// Descriptors are limited, to 1,024 where nobody changed that.
const MOST_FILES: usize = 384;

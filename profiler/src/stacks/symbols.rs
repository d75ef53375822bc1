//! What addresses mean: functions of programs and libraries, of code that a program made, and of the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};
use recording::{Frame, FrameSide, Module};

use super::address_space::{AddressSpace, Content, FileKey, Region};
use super::elf::{ElfFile, NameSource, debug_path};
use super::files::{Root, open_mapped, path_of};
use super::jit::JitMap;
use super::kernel_symbols::KernelSymbols;
use crate::processes;

/// Everything that names are looked up in. It is told of processes while they live.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    kernel: KernelSymbols,
    processes: BTreeMap<u32, KnownProcess>,
    files: BTreeMap<FileKey, Option<KnownFile>>,
    symbolizer: Symbolizer,
    names: BTreeMap<(FileKey, u64), Option<String>>,
}

#[derive(Debug, Default)]
struct KnownProcess {
    space: AddressSpace,
    /// Held, so that files can be found when the process has ended.
    root: Option<Root>,
    jit: JitMap,
}

/// A file that is held open.
#[derive(Debug)]
struct KnownFile {
    name: String,
    file: File,
    elf: Option<ElfFile>,
    /// With the names, where that is another file.
    debug: Option<File>,
}

/// What an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) frame: Frame,
    /// Whether it is in the first function of a program.
    pub(super) is_entry: bool,
}

impl Symbols {
    /// Reads what the kernel shows only to those who are privileged.
    pub(crate) fn attach() -> Self {
        Self {
            kernel: KernelSymbols::read().unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Takes in processes that are alive and not known yet.
    pub(crate) fn meet(&mut self, pids: &BTreeSet<u32>) {
        for &pid in pids {
            if !self.processes.contains_key(&pid) {
                self.look_at(pid);
            }
        }
    }

    /// Looks again at those that are alive: they may have loaded libraries, or begun another program.
    pub(crate) fn look_again(&mut self, pids: &BTreeSet<u32>) {
        for &pid in pids {
            self.look_at(pid);
            if let Some(process) = self.processes.get_mut(&pid)
                && let Some(map) = process
                    .root
                    .as_ref()
                    .and_then(|root| read_jit_map(pid, root))
            {
                process.jit = JitMap::parse(&map);
            }
        }
    }

    fn look_at(&mut self, pid: u32) {
        let Some(space) = AddressSpace::of(pid) else {
            return;
        };
        let is_new = !self.processes.contains_key(&pid);
        let has_room = self.processes.len() < MOST_ROOTS;
        let process = self.processes.entry(pid).or_default();
        if is_new && has_room {
            process.root = Root::of(pid).ok();
        }
        for region in space.regions() {
            if let Content::File { key, path } = &region.content
                && self.files.len() < MOST_FILES
            {
                let root = process.root.as_ref();
                self.files
                    .entry(*key)
                    .or_insert_with(|| KnownFile::open(pid, root, region, path));
            }
        }
        process.space.update(space);
    }

    /// Whether functions of the kernel have names.
    pub(crate) fn knows_kernel(&self) -> bool {
        !self.kernel.is_empty()
    }

    /// A function of the kernel.
    pub(super) fn in_kernel(&self, address: u64) -> Frame {
        Frame {
            name: self.kernel.find(address).map(bounded_name),
            module: Some(KERNEL.to_owned()),
            // Its address would tell where the kernel is.
            offset: None,
            side: FrameSide::Kernel,
        }
    }

    /// A function of a program.
    pub(super) fn in_program(&mut self, tgid: u32, address: u64) -> Place {
        let Some(process) = self.processes.get(&tgid) else {
            return Place::unknown();
        };
        let Some(region) = process.space.find(address) else {
            return Place::unknown();
        };
        let Content::File { key, path } = &region.content else {
            return special(process, region, address);
        };
        let (key, offset) = (*key, address - region.start + region.offset);
        let Some(file) = self.files.get(&key).and_then(Option::as_ref) else {
            return Place::unnamed(file_name(path), offset);
        };
        let virtual_address = file.elf.as_ref().and_then(|elf| elf.address(offset));
        let name = virtual_address.and_then(|at| {
            let name = self.names.entry((key, at));
            name.or_insert_with(|| file.find(&self.symbolizer, at))
                .clone()
        });
        let mut place = Place::unnamed(file.name.clone(), offset);
        if name.is_some() {
            place.frame.offset = None;
        }
        place.frame.name = name;
        let elf = file.elf.as_ref().zip(virtual_address);
        place.is_entry = elf.is_some_and(|(elf, at)| elf.is_entry(at));
        place
    }

    /// The files of these names, with no share yet.
    pub(super) fn modules(&self, names: &BTreeSet<String>) -> Vec<Module> {
        let files = self.files.values().flatten();
        let mut modules: BTreeMap<&str, Module> = files
            .filter(|file| names.contains(&file.name))
            .map(|file| (file.name.as_str(), file.module()))
            .collect();
        let special = names.iter().map(|name| Module {
            name: name.clone(),
            build_id: None,
            names: match name.as_str() {
                KERNEL if self.knows_kernel() => Some("kallsyms".to_owned()),
                JIT => Some("perf-PID.map".to_owned()),
                _ => None,
            },
            share: 0.0,
        });
        let mut all = Vec::new();
        for module in special {
            all.push(modules.remove(module.name.as_str()).unwrap_or(module));
        }
        all
    }
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

    fn find(&self, symbolizer: &Symbolizer, address: u64) -> Option<String> {
        self.elf.as_ref()?.names?;
        let mut source = Elf::new(path_of(self.debug.as_ref().unwrap_or(&self.file)));
        // Lines and inlined functions would take reading all of it.
        source.debug_syms = false;
        let found = symbolizer.symbolize_single(&Source::from(source), Input::VirtOffset(address));
        Some(bounded_name(&found.ok()?.as_sym()?.name))
    }

    fn module(&self) -> Module {
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

impl Place {
    fn unknown() -> Self {
        Self {
            frame: Frame {
                name: None,
                module: None,
                offset: None,
                side: FrameSide::User,
            },
            is_entry: false,
        }
    }

    fn unnamed(module: String, offset: u64) -> Self {
        let mut place = Self::unknown();
        place.frame.module = Some(module);
        place.frame.offset = Some(offset);
        place
    }
}

/// Code without a file.
fn special(process: &KnownProcess, region: &Region, address: u64) -> Place {
    if region.content == Content::Vdso {
        return Place::unnamed(VDSO.to_owned(), address - region.start);
    }
    let mut place = Place::unknown();
    if let Some(name) = process.jit.find(address) {
        place.frame = Frame {
            name: Some(name.to_owned()),
            module: Some(JIT.to_owned()),
            offset: None,
            side: FrameSide::Jit,
        };
    }
    place
}

/// The map of functions that a program made, where it is the program's own: `/tmp` is everybody's.
fn read_jit_map(pid: u32, root: &Root) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let inner = processes::ids_in_namespaces(pid)
        .last()
        .copied()
        .unwrap_or(pid);
    let file = root
        .open(&PathBuf::from(format!("/tmp/perf-{inner}.map")))
        .ok()?;
    let owner = std::fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    if file.metadata().ok()?.uid() != owner {
        return None;
    }
    let mut text = Vec::new();
    file.take(MOST_JIT_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}

fn file_name(path: &Path) -> String {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned()
}

/// A name that is not longer than a report can bear.
pub(super) fn bounded_name(name: &str) -> String {
    name.chars().take(MOST_NAME).collect()
}

/// What functions of the kernel are in.
pub(super) const KERNEL: &str = "[kernel]";
const JIT: &str = "[jit]";
const VDSO: &str = "[vdso]";
/// Characters of a name: those of templates have hundreds.
const MOST_NAME: usize = 512;
/// Descriptors are limited, to 1,024 where nobody changed that.
const MOST_FILES: usize = 384;
const MOST_ROOTS: usize = 256;
/// A large program of Node.js writes a tenth of it.
const MOST_JIT_BYTES: u64 = 64 << 20;

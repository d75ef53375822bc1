//! What addresses mean: functions of programs and libraries, of code that a program made, and of the kernel.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use blazesym::symbolize::Symbolizer;
use recording::{Frame, FrameSide, Module, Warning};

use super::address_space::{AddressSpace, Content, FileKey, Region};
use super::files::Root;
use super::jit::JitMap;
use super::kernel_symbols::KernelSymbols;
use super::known_file::{KnownFile, file_name, hold};
use super::mappings::{Change, Mappings};
use crate::processes;

/// Everything that names are looked up in. It asks processes while they live, and the kernel tells what they
/// do in between.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    kernel: KernelSymbols,
    mappings: Mappings,
    processes: BTreeMap<u32, KnownProcess>,
    /// In the order of their ends.
    ended: VecDeque<u32>,
    files: BTreeMap<FileKey, KnownFile>,
    symbolizer: Symbolizer,
    names: BTreeMap<(FileKey, u64), Option<String>>,
}

#[derive(Clone, Debug, Default)]
struct KnownProcess {
    /// Shared with the processes that it forked, until they begin a program of their own.
    space: Arc<AddressSpace>,
    /// Held, so that files can be found when the process has ended. That of its parent, until it is asked.
    root: Option<Arc<Root>>,
    /// `None` where it was never asked.
    identity: Option<Identity>,
    jit: Arc<JitMap>,
    ended: bool,
}

/// Whose map of functions is whose.
#[derive(Clone, Copy, Debug)]
struct Identity {
    /// Its id as it knows it itself.
    inner_pid: u32,
    uid: u32,
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
            mappings: Mappings::attach(),
            ..Self::default()
        }
    }

    /// Takes in what processes did until now, `CLOCK_MONOTONIC`, and asks those that are alive and were not
    /// asked yet.
    pub(crate) fn meet(&mut self, pids: &BTreeSet<u32>, now_ns: u64) {
        self.take_in(now_ns.saturating_sub(SETTLED_NS));
        for &pid in pids {
            let process = self.processes.get(&pid);
            if process.is_none_or(|process| process.identity.is_none()) {
                self.look_at(pid);
            }
        }
    }

    /// Takes in all that is there, and asks those that are alive again.
    pub(crate) fn look_again(&mut self, pids: &BTreeSet<u32>) {
        self.take_in(u64::MAX);
        for &pid in pids {
            self.look_at(pid);
        }
        let makers = self.processes.values_mut();
        for process in makers.filter(|process| process.space.has_anonymous()) {
            if let Some(map) = process.read_jit_map() {
                process.jit = Arc::new(JitMap::parse(&map));
            }
        }
    }

    fn take_in(&mut self, until_ns: u64) {
        for change in self.mappings.take(until_ns) {
            self.apply(change);
        }
    }

    /// Of processes that are known, and so of those that they fork.
    fn apply(&mut self, change: Change) {
        match change {
            Change::Ended { pid } => {
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.ended = true;
                    self.ended.push_back(pid);
                }
                self.forget_ended();
            }
            Change::Forked { parent, child } => {
                // Whoever had this id has ended.
                self.processes.remove(&child);
                if let Some(process) = self.processes.get(&parent).map(KnownProcess::fork) {
                    self.processes.insert(child, process);
                }
            }
            Change::Mapped { pid, region } => {
                if let Some(process) = self.processes.get_mut(&pid) {
                    hold(&mut self.files, pid, process.root.as_deref(), &region);
                    Arc::make_mut(&mut process.space).put(region);
                }
            }
        }
    }

    fn forget_ended(&mut self) {
        while self.ended.len() > MOST_ENDED
            && let Some(pid) = self.ended.pop_front()
        {
            if self
                .processes
                .get(&pid)
                .is_some_and(|process| process.ended)
            {
                self.processes.remove(&pid);
            }
        }
    }

    fn look_at(&mut self, pid: u32) {
        let Some(space) = AddressSpace::of(pid) else {
            return;
        };
        let asked = self.processes.values();
        let roots = asked.filter(|process| process.identity.is_some()).count();
        let process = self.processes.entry(pid).or_default();
        if process.identity.is_none() {
            if roots < MOST_ROOTS
                && let Ok(root) = Root::of(pid)
            {
                process.root = Some(Arc::new(root));
            }
            process.identity = Identity::of(pid);
        }
        for region in space.regions() {
            hold(&mut self.files, pid, process.root.as_deref(), region);
        }
        Arc::make_mut(&mut process.space).update(space);
    }

    /// What is to be said of processes whose code is not known.
    pub(super) fn warning(&self) -> Option<Warning> {
        let text = match (self.mappings.refused(), self.mappings.lost()) {
            (None, 0) => return None,
            (None, lost) => format!(
                "the kernel told of {lost} mappings, forks and ends more than its buffers hold between two \
                 looks, so functions of processes that began and ended in between may have no names: the \
                 machine starts very many processes"
            ),
            (Some(error), _) => format!(
                "the kernel does not tell what processes map ({error}), so functions of processes that ended \
                 within 100 ms have no names: it takes CAP_PERFMON"
            ),
        };
        Some(Warning {
            code: "mappings_lost".into(),
            text,
        })
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
        let Some(file) = self.files.get(&key) else {
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
        let files = self.files.values();
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

impl KnownProcess {
    /// A process that it begins: the same code, and nobody has asked it.
    fn fork(&self) -> Self {
        Self {
            identity: None,
            ended: false,
            ..self.clone()
        }
    }

    /// The map of functions that a program made, where it is the program's own: `/tmp` is everybody's.
    fn read_jit_map(&self) -> Option<Vec<u8>> {
        use std::io::Read as _;
        let (root, identity) = self.root.as_ref().zip(self.identity)?;
        let path = PathBuf::from(format!("/tmp/perf-{}.map", identity.inner_pid));
        let file = root.open(&path).ok()?;
        if file.metadata().ok()?.uid() != identity.uid {
            return None;
        }
        let mut text = Vec::new();
        file.take(MOST_JIT_BYTES).read_to_end(&mut text).ok()?;
        Some(text)
    }
}

impl Identity {
    fn of(pid: u32) -> Option<Self> {
        let ids = processes::ids_in_namespaces(pid);
        Some(Self {
            inner_pid: ids.last().copied().unwrap_or(pid),
            uid: std::fs::metadata(format!("/proc/{pid}")).ok()?.uid(),
        })
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
const MOST_ROOTS: usize = 256;
/// Processes that ended and whose functions have names: 2 KB each.
const MOST_ENDED: usize = 8_192;
/// What a CPU stamped before this has been written by now: it does both with interrupts off.
const SETTLED_NS: u64 = 1_000_000;
/// A large program of Node.js writes a tenth of it.
const MOST_JIT_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// This test under the id of a process that cannot exist, forked from itself.
    fn forked() -> Symbols {
        let mut symbols = Symbols::default();
        let own = std::process::id();
        symbols.meet(&[own].into(), 0);
        symbols.apply(Change::Forked {
            parent: own,
            child: GONE,
        });
        symbols
    }

    fn here() -> u64 {
        (here as fn() -> u64 as usize) as u64
    }

    fn name(symbols: &mut Symbols, pid: u32, address: u64) -> Option<String> {
        symbols.in_program(pid, address).frame.name
    }

    /// A process that ended before anybody asked it has the functions of its parent, and those of what it
    /// mapped, where its parent's were not.
    #[test]
    fn ended_unseen() {
        let mut symbols = forked();
        let own = std::process::id();
        let expected = name(&mut symbols, own, here()).unwrap();
        assert!(expected.ends_with("here"), "{expected}");
        assert_eq!(name(&mut symbols, GONE, here()).as_ref(), Some(&expected));
        let space = symbols.processes[&own].space.clone();
        let mut region = space.find(here()).unwrap().clone();
        let moved = here() - region.start + MOVED;
        region.end = MOVED + (region.end - region.start);
        region.start = MOVED;
        symbols.files.clear();
        for pid in [GONE, GONE - 1] {
            symbols.apply(Change::Mapped {
                pid,
                region: region.clone(),
            });
        }
        symbols.apply(Change::Ended { pid: GONE });
        assert_eq!(name(&mut symbols, GONE, moved), Some(expected));
        assert_eq!(name(&mut symbols, own, moved), None);
        assert!(!symbols.processes.contains_key(&(GONE - 1)));
    }

    /// An id that is given again is another process: without the code of the last one.
    #[test]
    fn ids_are_given_again() {
        let mut symbols = forked();
        symbols.apply(Change::Ended { pid: GONE });
        symbols.apply(Change::Forked {
            parent: GONE - 1,
            child: GONE,
        });
        assert_eq!(name(&mut symbols, GONE, here()), None);
    }

    /// Of those that ended, the latest are known, however many there were.
    #[test]
    fn forgets_the_oldest() {
        let mut symbols = forked();
        let many: Vec<u32> = (1 << 30..).take(MOST_ENDED + 1).collect();
        for &child in &many {
            symbols.apply(Change::Forked {
                parent: std::process::id(),
                child,
            });
            symbols.apply(Change::Ended { pid: child });
        }
        assert_eq!(symbols.processes.len(), MOST_ENDED + 2);
        assert!(!symbols.processes.contains_key(&many[0]));
        assert!(symbols.processes.contains_key(&many[1]));
        assert!(symbols.processes.contains_key(&GONE));
    }

    /// An id that no kernel gives.
    const GONE: u32 = 0x7fff_fff0;
    /// Where nothing is.
    const MOVED: u64 = 0x1000;
}

//! Programs in the kernel: ours by their names, and those of others by what they do.

use std::io;

use profiler_common::program;
use recording::Detail;

use super::below;
use super::bpf::loaded;
use super::programs::{FUNCTION, programs};

/// A program that the kernel holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// Its type, as `enum bpf_prog_type` numbers it.
    pub(crate) kind: u32,
    /// Its name, at most 15 bytes of it.
    pub(crate) name: String,
    pub(crate) id: u32,
    /// Whether a link attaches it. A program that nobody holds any more is freed some time after its link.
    pub(crate) attached: bool,
}

/// How many programs of ours the kernel holds, of this and of other processes, recognised by their
/// names. Zero once every session has ended.
pub fn loaded_programs() -> io::Result<usize> {
    let ours = [Detail::Floor, Detail::Counts, Detail::Times, Detail::Sched]
        .into_iter()
        .flat_map(programs)
        .chain([FUNCTION])
        .map(|(name, _)| name)
        .chain([program::STACK_SAMPLE, program::TLS_ENTER, program::TLS_EXIT])
        .chain(below::PROGRAMS);
    // The kernel keeps 15 bytes of a name.
    let names: Vec<&str> = ours.map(|name| name.get(..15).unwrap_or(name)).collect();
    let is_ours = |program: &&Loaded| names.contains(&program.name.as_str());
    Ok(loaded()?.iter().filter(is_ours).count())
}

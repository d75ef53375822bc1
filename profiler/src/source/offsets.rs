//! Where the fields are that the programs read, in the structures of the running kernel.

use profiler_common::global;

use super::below;
use crate::ProfilerError;
use crate::btf::Btf;

/// Offsets of the fields that the programs read.
pub(super) struct Offsets(pub(super) Vec<(&'static str, u32)>);

impl Offsets {
    /// Finds them; those of what a kernel may lack are left out.
    pub(super) fn find(btf: &Btf<'_>) -> Result<Self, ProfilerError> {
        let task = |path: &[&str], size| btf.field_offset("task_struct", path, size);
        let field = |structure, path: &[&str], size| btf.field_offset(structure, path, size);
        let mut offsets = vec![
            (global::TASK_TGID, task(&["tgid"], 4)?),
            (global::TASK_PID, task(&["pid"], 4)?),
            (global::TASK_STATE, task(&["__state"], 4)?),
            (global::TASK_STATUS, task(&["thread_info", "status"], 4)?),
            (global::TASK_SIGNAL, task(&["signal"], 8)?),
            (
                global::SIGNAL_LIVE,
                field("signal_struct", &["live", "counter"], 4)?,
            ),
            (global::TASK_FILES, task(&["files"], 8)?),
            (global::FILES_FDT, field("files_struct", &["fdt"], 8)?),
            (global::FDT_MAX_FDS, field("fdtable", &["max_fds"], 4)?),
            (global::FDT_FD, field("fdtable", &["fd"], 8)?),
            (global::FILE_INODE, field("file", &["f_inode"], 8)?),
            (
                global::FILE_DENTRY,
                field("file", &["f_path", "dentry"], 8)?,
            ),
            (
                global::DENTRY_NAME,
                field("dentry", &["d_name", "name"], 8)?,
            ),
            (global::INODE_MODE, field("inode", &["i_mode"], 2)?),
            (global::INODE_SB, field("inode", &["i_sb"], 8)?),
            (global::SB_MAGIC, field("super_block", &["s_magic"], 8)?),
        ];
        // A kernel of one CPU has none.
        offsets.extend(task(&["on_cpu"], 4).map(|offset| (global::TASK_ON_CPU, offset)));
        offsets.extend(queue_clocks(btf).into_iter().flatten());
        offsets.extend(below::offsets(btf));
        Ok(Self(offsets))
    }
}

/// Where the clocks of run queues are; `None` where a thread does not lead to its run queue (a kernel
/// without groups of threads for the scheduler).
fn queue_clocks(btf: &Btf<'_>) -> Option<[(&'static str, u32); 6]> {
    let field = |structure, path: &[&str]| btf.field_offset(structure, path, 8).ok();
    Some([
        (
            global::TASK_EXEC_START,
            field("task_struct", &["se", "exec_start"])?,
        ),
        (
            global::TASK_SUM_EXEC,
            field("task_struct", &["se", "sum_exec_runtime"])?,
        ),
        (
            global::TASK_CFS_RQ,
            field("task_struct", &["se", "cfs_rq"])?,
        ),
        (global::CFS_RQ_RQ, field("cfs_rq", &["rq"])?),
        (global::RQ_CLOCK, field("rq", &["clock"])?),
        (global::RQ_CLOCK_TASK, field("rq", &["clock_task"])?),
    ])
}

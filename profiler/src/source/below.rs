//! What is loaded to see below the calls: which programs, for which tracepoints, and where fields
//! are. All of that depends on the kernel.

use profiler_common::{global, program};
use recording::Detail;

use crate::btf::Btf;

/// Names of all programs.
pub(super) const PROGRAMS: [&str; 7] = [
    program::URING_SUBMIT,
    program::URING_COMPLETE,
    program::URING_COMPLETE_RESULT,
    program::URING_OVERFLOW,
    program::TCP_RETRANSMIT,
    program::TCP_RESET_SENT,
    program::TCP_RESET_RECEIVED,
];

/// Programs for this kernel with their tracepoints, and the tracepoints that it lacks.
#[derive(Debug, Default)]
pub(super) struct Programs {
    pub(super) present: Vec<(&'static str, &'static str)>,
    pub(super) missing: Vec<&'static str>,
}

impl Programs {
    /// `look_up`: whether programs may read memory of the kernel, which following requests takes.
    pub(super) fn find(btf: &Btf<'_>, detail: Detail, look_up: bool) -> Self {
        let mut found = Self::default();
        if detail == Detail::Floor {
            return found;
        }
        // Only together do they make sense.
        match uring_programs(btf, look_up) {
            Ok(programs) => found.present.extend(programs),
            Err(tracepoint) => found.missing.push(tracepoint),
        }
        for (name, tracepoint) in [
            (program::TCP_RETRANSMIT, TCP_RETRANSMIT),
            (program::TCP_RESET_SENT, TCP_RESET_SENT),
            (program::TCP_RESET_RECEIVED, TCP_RESET_RECEIVED),
        ] {
            if btf.tracepoint_arguments(tracepoint).is_some() && ports(btf).is_some() {
                found.present.push((name, tracepoint));
            } else {
                found.missing.push(tracepoint);
            }
        }
        found
    }
}

/// Offsets of the fields that the programs read; of a kernel that has some of them no program is
/// loaded that needs the others.
pub(super) fn offsets(btf: &Btf<'_>) -> Vec<(&'static str, u32)> {
    let uring = kiocb(btf).into_iter().flatten();
    let ports = ports(btf).into_iter().flatten();
    uring.chain(ports).collect()
}

/// Whether a kernel may lack the tracepoint: the architecture's own ones.
pub(super) fn is_optional(name: &str) -> bool {
    let interrupts = program::INTERRUPTS.iter().map(|&(program, _)| program);
    interrupts
        .chain([program::PAGE_FAULT])
        .any(|optional| optional == name)
}

fn uring_programs(
    btf: &Btf<'_>,
    look_up: bool,
) -> Result<[(&'static str, &'static str); 3], &'static str> {
    let submit = [URING_SUBMIT, URING_SUBMIT_BEFORE_6_5]
        .into_iter()
        .find(|tracepoint| btf.tracepoint_arguments(tracepoint).is_some())
        .filter(|_| look_up && kiocb(btf).is_some())
        .ok_or(URING_SUBMIT)?;
    let complete = match btf.tracepoint_arguments(URING_COMPLETE) {
        Some(URING_COMPLETE_WHOLE) => program::URING_COMPLETE,
        Some(arguments) if arguments > URING_COMPLETE_WHOLE => program::URING_COMPLETE_RESULT,
        _ => return Err(URING_COMPLETE),
    };
    if btf.tracepoint_arguments(URING_OVERFLOW).is_none() {
        return Err(URING_OVERFLOW);
    }
    // The submissions last: every completion that is counted then has its chance of a time.
    Ok([
        (program::URING_OVERFLOW, URING_OVERFLOW),
        (complete, URING_COMPLETE),
        (program::URING_SUBMIT, submit),
    ])
}

fn kiocb(btf: &Btf<'_>) -> Option<[(&'static str, u32); 3]> {
    let field = |path: &[&str], size| btf.field_offset("io_kiocb", path, size).ok();
    Some([
        (global::KIOCB_OPCODE, field(&["opcode"], 1)?),
        (global::KIOCB_RING, field(&["ctx"], 8)?),
        (global::KIOCB_USER_DATA, field(&["cqe", "user_data"], 8)?),
    ])
}

fn ports(btf: &Btf<'_>) -> Option<[(&'static str, u32); 2]> {
    let field = |structure, path: &[&str]| btf.field_offset(structure, path, 2).ok();
    Some([
        (global::SOCK_NUM, field("sock_common", &["skc_num"])?),
        (global::INET_SPORT, field("inet_sock", &["inet_sport"])?),
    ])
}

/// First words of the tracepoints that are about `io_uring`.
pub(crate) const URING_TRACEPOINTS: &str = "io_uring_";
/// Retransmitted segments.
pub(crate) const TCP_RETRANSMIT: &str = "tcp_retransmit_skb";
/// Resets that are sent.
pub(crate) const TCP_RESET_SENT: &str = "tcp_send_reset";
/// Resets that are received.
pub(crate) const TCP_RESET_RECEIVED: &str = "tcp_receive_reset";

const URING_SUBMIT: &str = "io_uring_submit_req";
const URING_SUBMIT_BEFORE_6_5: &str = "io_uring_submit_sqe";
const URING_COMPLETE: &str = "io_uring_complete";
/// Its arguments where the last one is the completion.
const URING_COMPLETE_WHOLE: u32 = 3;
const URING_OVERFLOW: &str = "io_uring_cqe_overflow";

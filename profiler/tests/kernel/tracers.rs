//! Who else traces: programs in the kernel by their ids, strace by its process.

use std::process::{Child, Command, Stdio};

use profiler::{Config, Target, look_for_tracers};
use recording::{Detail, TracerLook};

use crate::kernel_state::{await_gone, programs_of};
use crate::workload_process::{Workload, attach, await_until};

/// Programs of a session are seen as long as it lives, each with its id, and none of them later. (Others
/// may come and go on a machine, so that nothing is said about them.)
#[test]
fn programs_in_the_kernel_are_seen() {
    let workload = Workload::start(&["calls", "1"]);
    let session = attach(Config::new([Target::Pid(workload.pid())], Detail::Counts));
    let programs = programs_of(std::process::id());
    assert!(!programs.is_empty());
    let look = look_for_tracers(&[workload.pid()]);
    assert_eq!(look.unseen, None);
    assert!(look.other_programs.is_some());
    assert!(programs.iter().all(|id| sees(&look, *id)), "{look:?}");
    drop(session);
    await_gone(&programs);
    let look = look_for_tracers(&[workload.pid()]);
    assert!(!programs.iter().any(|id| sees(&look, *id)), "{look:?}");
}

/// Strace is seen by name on the process that it traces, and not on another one.
#[test]
fn strace_is_seen() {
    let traced = Workload::start(&["calls", "1"]);
    let other = Workload::start(&["calls", "1"]);
    let strace = Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "-p", &traced.pid().to_string()])
        .stdin(Stdio::null())
        .spawn()
        .expect("strace (Debian: package strace)");
    let strace = Mortal(strace);
    let name = format!("strace (pid {})", strace.0.id());
    let seen = |pid: u32| {
        let tracers = look_for_tracers(&[pid]).tracers;
        tracers.iter().any(|t| t.kind == "ptrace" && t.what == name)
    };
    await_until("strace to be seen", || seen(traced.pid()));
    assert!(!seen(other.pid()));
}

fn sees(look: &TracerLook, id: u32) -> bool {
    let named = format!("(id {id})");
    look.tracers
        .iter()
        .any(|tracer| tracer.what.ends_with(&named))
}

/// A child that is gone when the test is.
struct Mortal(Child);

impl Drop for Mortal {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

//! Functions of which it is known how long each takes, with frame pointers whatever the compiler does: written
//! in assembly, as a function table and as code that is made at run time.

use std::process::Command;

use crate::{done, raw, wait};

/// Turns of two functions, of which one takes three times as long as the other.
pub(crate) fn hot(turns: u64) {
    wait();
    raw::hot_turns(turns);
    done();
}

/// Programs that turn and end, one after the other; the last one takes the place of this.
pub(crate) fn short_lives(programs: u64, turns: &str) {
    wait();
    for _ in 1..programs {
        let status = Command::new(THIS).args(["hot-at-once", turns]).status();
        assert!(status.is_ok_and(|status| status.success()));
    }
    raw::exec(&[THIS, "hot-at-once", turns]);
}

/// The same function, made now, and told as the compilers of interpreters do.
pub(crate) fn jit(turns: u64) {
    let code = raw::Code::of_hot_loop();
    let (start, length) = code.place();
    let path = format!("/tmp/perf-{}.map", std::process::id());
    let map = format!("{start:x} {length:x} made_at_run_time;\u{1b}[31m\n");
    std::fs::write(&path, map).expect("/tmp can be written to");
    wait();
    for _ in 0..turns {
        code.run();
    }
    done();
    std::fs::remove_file(&path).expect("it was written above");
}

const THIS: &str = "/proc/self/exe";

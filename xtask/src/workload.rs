//! A target whose system calls are known: it makes so many, and prints what one took.

use std::hint::black_box;
use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use recording::exit_code;

/// Answers each line on stdin with the time of one call in nanoseconds, and ends with stdin.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Calls of `getppid` per line.
    calls: u32,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        line?;
        let start = Instant::now();
        for _call in 0..args.calls {
            // glibc keeps no copy of it, so each one is a system call.
            black_box(std::os::unix::process::parent_id());
        }
        let ns_per_call = start.elapsed().as_nanos() as f64 / f64::from(args.calls.max(1));
        writeln!(stdout, "{ns_per_call:.2}")?;
        stdout.flush()?;
    }
    Ok(ExitCode::from(exit_code::DONE))
}

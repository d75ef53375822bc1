//! A target whose system calls are known: it makes so many, and prints what one took.

use std::hint::black_box;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::time::Instant;

use anyhow::Result;
use recording::exit_code;

/// Answers each line on stdin with the time of one call in nanoseconds, and ends with stdin.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Calls of `getppid` per line, of each thread.
    calls: u32,
    /// Instead of calls, messages to another thread on the same CPU and back, through pipes.
    #[arg(long, conflicts_with = "threads")]
    round_trips: bool,
    /// Threads that make the calls, beside the first one, which only waits.
    #[arg(long, default_value_t = 0, value_name = "N")]
    threads: u32,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.round_trips {
        answer(&mut round_trips(args.calls)?)?;
    } else if args.threads > 0 {
        answer(&mut crowd(args.threads, args.calls))?;
    } else {
        answer(&mut || calls(args.calls))?;
    }
    Ok(ExitCode::from(exit_code::DONE))
}

/// Measures once per line.
fn answer(measure: &mut dyn FnMut() -> f64) -> Result<()> {
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        line?;
        writeln!(stdout, "{:.2}", measure())?;
        stdout.flush()?;
    }
    Ok(())
}

fn calls(count: u32) -> f64 {
    per_unit(count, || {
        // glibc keeps no copy of it, so each one is a system call.
        black_box(std::os::unix::process::parent_id());
    })
}

fn per_unit(units: u32, mut unit: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _unit in 0..units {
        unit();
    }
    start.elapsed().as_nanos() as f64 / f64::from(units.max(1))
}

/// Two threads that wake each other. The second ends with the process.
fn round_trips(count: u32) -> Result<impl FnMut() -> f64> {
    let (mut here, mut there_out) = io::pipe()?;
    let (mut there, mut here_out) = io::pipe()?;
    std::thread::spawn(move || {
        let mut byte = [0];
        while there.read_exact(&mut byte).is_ok() && there_out.write_all(&byte).is_ok() {}
    });
    Ok(move || {
        let mut byte = [0];
        per_unit(count, || {
            let sent = here_out.write_all(&byte);
            let received = here.read_exact(&mut byte);
            assert!(sent.is_ok() && received.is_ok(), "the other thread ended");
        })
    })
}

/// Threads that each make their calls when they are told to.
fn crowd(threads: u32, count: u32) -> impl FnMut() -> f64 {
    let all = Arc::new(Barrier::new(threads as usize + 1));
    for _thread in 0..threads {
        let all = Arc::clone(&all);
        let small = std::thread::Builder::new().stack_size(STACK_BYTES);
        let spawned = small.spawn(move || {
            loop {
                all.wait();
                calls(count);
                all.wait();
            }
        });
        spawned.expect("the machine has room for the threads");
    }
    move || {
        let start = Instant::now();
        all.wait();
        all.wait();
        start.elapsed().as_nanos() as f64 / f64::from(threads * count.max(1))
    }
}

/// Thousands of threads need little each.
const STACK_BYTES: usize = 64 * 1024;

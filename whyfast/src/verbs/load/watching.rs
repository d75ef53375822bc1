//! Following a load: ending it at Ctrl-C, and a bar on a terminal.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use loadgen::{Config, Control, Stop, StopHandle};
use recording::{LoadPhase, LoadSlice};

use crate::signals::Interrupt;

/// Shows progress on stderr where that is a terminal, and ends the run when a signal arrives.
pub(super) struct Watching {
    interrupt: Interrupt,
    bar: Option<ProgressBar>,
    counts_requests: bool,
    done_ns: u64,
}

impl Watching {
    /// Nothing is shown before the connections are open.
    pub(super) fn new(config: &Config) -> anyhow::Result<Self> {
        let (counts_requests, length) = match config.stop {
            Stop::Requests(requests) => (true, requests),
            Stop::Duration(duration) => (false, milliseconds(duration)),
        };
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(length);
            let style = ProgressStyle::with_template("{bar:24} {percent}%  {msg}");
            bar.set_style(style.expect("the template is constant"));
            bar
        });
        Ok(Self {
            interrupt: Interrupt::install()?,
            bar,
            counts_requests,
            done_ns: 0,
        })
    }
}

impl Control for Watching {
    fn started(&mut self, stop: StopHandle) {
        let interrupt = self.interrupt.clone();
        std::thread::spawn(move || {
            while !interrupt.is_set() {
                std::thread::sleep(POLL);
            }
            stop.stop("interrupted");
        });
    }

    fn phase(&mut self, phase: LoadPhase, _at_ns: u64, _barrier: bool) {
        let Some(bar) = &self.bar else {
            return;
        };
        self.done_ns = 0;
        match phase {
            LoadPhase::Warmup => bar.set_message("warming up"),
            LoadPhase::Measure => {
                bar.reset();
                bar.set_message("measuring");
            }
            LoadPhase::Drain => bar.set_message("waiting for what is in flight"),
        }
        bar.tick();
    }

    fn slice(&mut self, slice: &LoadSlice) {
        let Some(bar) = &self.bar else {
            return;
        };
        self.done_ns += slice.window.length_ns();
        if self.counts_requests {
            bar.inc(slice.ok + slice.failed);
        } else {
            bar.set_position(self.done_ns / NS_PER_MS);
        }
        let rate = slice.ok as f64 / slice.window.seconds().max(1e-9);
        let p99 = slice
            .p99_ns
            .map_or_else(String::new, |ns| format!("  p99 {:.2} ms", ns as f64 / 1e6));
        let failed = match slice.failed {
            0 => String::new(),
            failed => format!("  {failed} failed"),
        };
        bar.set_message(format!("{rate:.0} req/s{p99}{failed}"));
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How often a signal is looked for.
const POLL: Duration = Duration::from_millis(20);
const NS_PER_MS: u64 = 1_000_000;

//! Readers of other tools' output: one file a tool.
//!
//! A reader is asked at each line whether its tool's output begins there. It takes the lines that it
//! knows and leaves out what it cannot read; where a figure that it cannot do without is missing,
//! the block counts as unread.

mod ab;
mod benchmark_pl;
mod h2load;
mod hey;
mod httperf;
mod perf_trace;
mod strace;
mod wrk;

use recording::{ForeignCalls, ForeignLoad, Unread};

use super::lines::{Lines, number};

/// What a reader found.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Block {
    Load(Box<ForeignLoad>),
    Calls(ForeignCalls),
}

/// A block and the position after it; `None` where the tool's output does not begin at the line.
pub(super) type Found = Option<Read>;
type Read = Result<(Block, usize), Unread>;

/// Asks every reader.
pub(super) fn read(lines: &Lines<'_>, at: usize) -> Found {
    READERS.iter().find_map(|reader| reader(lines, at))
}

/// A load whose throughput is known, else why the block is unread.
fn load(
    tool: &str,
    at: usize,
    end: usize,
    rate_rps: Option<f64>,
    filled: impl FnOnce(&mut ForeignLoad),
) -> Read {
    match rate_rps {
        Some(rate_rps) => {
            let mut load = ForeignLoad {
                tool: tool.to_owned(),
                line: number(at),
                rate_rps,
                ..ForeignLoad::default()
            };
            filled(&mut load);
            load.failures.retain(|_, count| *count > 0);
            Ok((Block::Load(Box::new(load)), end))
        }
        None => Err(Unread {
            tool: tool.to_owned(),
            line: number(at),
            why: "no throughput that can be read in only one way".to_owned(),
        }),
    }
}

/// The word after another one.
fn after<'a>(words: &[&'a str], word: &str) -> Option<&'a str> {
    let at = words.iter().position(|known| *known == word)?;
    words.get(at + 1).copied()
}

const READERS: [fn(&Lines<'_>, usize) -> Found; 8] = [
    h2load::read,
    wrk::read,
    httperf::read,
    ab::read,
    hey::read,
    benchmark_pl::read,
    strace::read,
    perf_trace::read,
];

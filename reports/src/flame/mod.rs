//! Flame graphs and hot functions, from the stacks of a recording.
//!
//! `sampled` takes the stacks of a server out of its rounds, `tree` merges them, `functions` sums them
//! up by function, `difference` sets two servers against each other. `place` decides what is drawn
//! where, `frames` what stands in it; `picture` is the markup, in a page or, by `svg`, in a file of
//! its own. `folded` is the same for other tools. Widths are time, never numbers of samples.

mod difference;
mod folded;
mod frames;
mod functions;
mod picture;
mod place;
mod sampled;
mod svg;
#[cfg(test)]
mod tests;
mod tree;

pub use difference::Difference;
pub use folded::folded;
pub use sampled::Time;
pub use svg::svg;

pub(crate) use difference::{Delta, Picture};
pub(crate) use frames::{Change, Graph, Layout, deltas, graph};
pub(crate) use functions::{Function, functions};
pub(crate) use picture::{CHANGES, CLASSES, picture};
pub(crate) use sampled::{Facts, Sampled};
pub(crate) use tree::{Label, Tree};

use recording::Recording;

/// A recording without the stacks that were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoStacks {
    /// Functions were not sampled at all.
    #[error(
        "the recording has no stacks: functions were not sampled; measure with --detail stacks"
    )]
    AtAll,
    /// Switches were not looked at.
    #[error(
        "the recording has no stacks of threads that wait, only of running ones: switches were not \
         looked at; measure again with --detail stacks"
    )]
    OffCpu,
    /// Nothing of the target was seen.
    #[error(
        "the recording has no sample: the target did not run during the window; measure while it works, \
         or for longer"
    )]
    Empty,
}

/// The servers that have stacks of one time.
fn stacks_of(recording: &Recording, time: Time) -> Result<Vec<Sampled<'_>>, NoStacks> {
    let arms = Sampled::all(recording);
    if arms.is_empty() {
        return Err(NoStacks::AtAll);
    }
    let has_set = |arm: &Sampled<'_>| time == Time::OnCpu || arm.first().off_cpu.is_some();
    if !arms.iter().any(has_set) {
        return Err(NoStacks::OffCpu);
    }
    let arms: Vec<Sampled<'_>> = arms
        .into_iter()
        .filter(|arm| arm.facts(time, arm.per()).is_some())
        .collect();
    if arms.is_empty() {
        return Err(NoStacks::Empty);
    }
    Ok(arms)
}

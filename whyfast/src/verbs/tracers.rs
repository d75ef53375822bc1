//! The eyes of a comparison for tracers of others: looks once, prints what it saw as JSON.
//!
//! A process of its own, because looking takes privileges that the comparison itself does not keep.

use recording::exit_code;

use crate::args::TracersArgs;
use crate::output::Output;

/// Looks and prints.
pub(crate) fn tracers(args: &TracersArgs) -> anyhow::Result<u8> {
    let look = profiler::look_for_tracers(&args.pids);
    Output::Stdout.write(&(serde_json::to_string(&look)? + "\n"))?;
    Ok(exit_code::DONE)
}

//! The exit codes of `whyfast`: a public contract, the same for every verb.

/// Done; for a comparison: any established verdict.
pub const DONE: u8 = 0;
/// The tool or its surroundings failed.
pub const FAILED: u8 = 1;
/// The command line cannot be understood.
pub const USAGE: u8 = 2;
/// A limit was broken: a gate of CI, errors above the allowed, events lost.
pub const LIMIT_BROKEN: u8 = 3;
/// Measured, but the interval is too wide for a verdict.
pub const INCONCLUSIVE: u8 = 4;
/// A gate refused: the arms cannot be compared.
pub const NOT_COMPARABLE: u8 = 5;
/// This machine cannot measure it (no root, no BTF...).
pub const CANNOT_MEASURE: u8 = 6;
/// Interrupted by Ctrl-C before the asked work was done.
pub const INTERRUPTED: u8 = 130;

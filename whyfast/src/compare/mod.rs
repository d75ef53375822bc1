//! `whyfast compare`: servers against each other, with the reason.
//!
//! The order of things: plan, prepare the arms, parity, rounds, analysis (in `reports`), output.
//! The halves run as children (`whyfast load`, `whyfast profile`) and speak JSON Lines.

pub(crate) mod access;
pub(crate) mod arms;
pub(crate) mod built_in;
pub(crate) mod certificate;
pub(crate) mod cookbook;
pub(crate) mod fact;
pub(crate) mod limits;
pub(crate) mod npm;
pub(crate) mod page;
pub(crate) mod parity;
pub(crate) mod placeholders;
pub(crate) mod plan;
pub(crate) mod prepare;
pub(crate) mod progress;
pub(crate) mod recipe;
pub(crate) mod recipe_folder;
pub(crate) mod round;
pub(crate) mod rounds;
pub(crate) mod run;
pub(crate) mod scenario;
pub(crate) mod schedule;
pub(crate) mod server;
pub(crate) mod template;
pub(crate) mod tracers;
pub(crate) mod transport;
pub(crate) mod wire;
pub(crate) mod workspace;

pub(crate) use run::compare;

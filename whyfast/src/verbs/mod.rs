//! The verbs other than `compare`, one file each, and what they share in rendering.

pub(crate) mod autopsy;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod gate;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod probe;
pub(crate) mod profile;
pub(crate) mod render;
pub(crate) mod report;
pub(crate) mod stored;
pub(crate) mod testserver;
pub(crate) mod tracers;
mod wait;

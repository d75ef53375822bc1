//! Stacks as folded text: a line per stack, for tools that draw or compare them.

use std::fmt::Write as _;

use recording::Recording;

use super::sampled::Time;
use super::tree::Tree;
use super::{NoStacks, stacks_of};
use crate::layout::WRITES;

/// The stacks of a recording, one a line: `comm;outermost;...;innermost microseconds`. With several
/// servers in the recording each line begins with the name of its server.
///
/// Values are whole microseconds of all rounds together; what rounding takes from a line, the next one
/// gets, so that the sum is right to a microsecond. Control characters and `;` in names are written as
/// escapes (`\x3b`), and a stack without its outermost part begins with `[ends early]` behind its `comm`.
pub fn folded(recording: &Recording, time: Time) -> Result<String, NoStacks> {
    let arms = stacks_of(recording, time)?;
    let several = arms.len() > 1;
    let mut text = String::new();
    for arm in &arms {
        let server = several.then(|| frame(&crate::clean::clean(arm.arm)));
        lines(&arm.tree(time), server.as_deref(), &mut text);
    }
    Ok(text)
}

fn lines(tree: &Tree, server: Option<&str>, text: &mut String) {
    let mut ns_written = 0_u64;
    let mut ns_seen = 0_u64;
    for (index, node) in tree.nodes.iter().enumerate() {
        if node.own[0].ns == 0 {
            continue;
        }
        ns_seen = ns_seen.saturating_add(node.own[0].ns);
        let us = (ns_seen.saturating_sub(ns_written).saturating_add(500)) / 1000;
        if us == 0 {
            continue;
        }
        ns_written = ns_written.saturating_add(us * 1000);
        let path = tree.path(index);
        let names = path.iter().map(|label| frame(&label.text));
        let names: Vec<String> = server.map(str::to_owned).into_iter().chain(names).collect();
        writeln!(text, "{} {us}", names.join(";")).expect(WRITES);
    }
}

/// A clean name that ends no frame.
fn frame(name: &str) -> String {
    name.replace(';', "\\x3b")
}

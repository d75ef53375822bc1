//! Where the frames of a flame graph stand: their width is time.

use super::tree::{Tree, Weight};

/// A frame with its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed {
    /// Position in the nodes of the tree.
    pub(crate) node: usize,
    /// Left edge and width, as shares of the whole, 0..=1.
    pub(crate) left: f64,
    pub(crate) width: f64,
}

/// The frames that are drawn, and what is not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placement {
    pub(crate) frames: Vec<Placed>,
    /// Levels that have a frame.
    pub(crate) levels: usize,
    /// Nodes that are left out.
    pub(crate) cut: usize,
    /// Time in them that no drawn frame above them shows as theirs.
    pub(crate) cut_weight: Weight,
    /// The width below which they were left out, as a share of the whole.
    pub(crate) narrowest: f64,
}

/// Frames by the time of one side: those at least `narrowest` wide, or wider ones until no more than `most`
/// are left.
pub(crate) fn place(tree: &Tree, side: usize, mut narrowest: f64, most: usize) -> Placement {
    loop {
        let placement = at_least(tree, side, narrowest);
        if placement.frames.len() <= most {
            return placement;
        }
        narrowest *= 1.25;
    }
}

fn at_least(tree: &Tree, side: usize, narrowest: f64) -> Placement {
    let whole = tree.whole(side).ns as f64;
    let mut placement = Placement {
        frames: Vec::new(),
        levels: 0,
        cut: 0,
        cut_weight: Weight::default(),
        narrowest,
    };
    // Where the next node of each depth begins, ns.
    let mut next: Vec<u64> = vec![0];
    let mut cut_above: Option<usize> = None;
    for (index, node) in tree.nodes.iter().enumerate() {
        let Weight { ns, .. } = node.total[side];
        if ns == 0 {
            continue;
        }
        if cut_above.is_some_and(|depth| node.depth > depth) {
            placement.cut += 1;
            continue;
        }
        cut_above = None;
        next.resize(node.depth + 1, 0);
        let left = next[node.depth];
        next[node.depth] = left.saturating_add(ns);
        next.push(left);
        let width = ns as f64 / whole;
        if width < narrowest || node.depth >= LEVELS {
            cut_above = Some(node.depth);
            placement.cut += 1;
            placement.cut_weight.add(node.total[side]);
            continue;
        }
        placement.levels = placement.levels.max(node.depth + 1);
        placement.frames.push(Placed {
            node: index,
            left: left as f64 / whole,
            width,
        });
    }
    placement
}

/// Levels of one graph: twice what the kernel walks of a program and of itself.
const LEVELS: usize = 512;

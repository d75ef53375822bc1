//! Functions by their time, whoever called them.

use super::tree::{Both, Kind, Tree};

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Position in the labels of the tree.
    pub(crate) label: usize,
    /// In itself.
    pub(crate) own: Both,
    /// In itself and what it calls; once where it calls itself.
    pub(crate) total: Both,
}

/// Every function of a tree, in the order of its labels.
pub(crate) fn functions(tree: &Tree) -> Vec<Function> {
    let blank = |label| Function {
        label,
        own: Both::default(),
        total: Both::default(),
    };
    let mut functions: Vec<Function> = (0..tree.labels.len()).map(blank).collect();
    // How often each label stands between the root and a node.
    let mut above = vec![0_u32; tree.labels.len()];
    let mut path: Vec<usize> = Vec::new();
    for node in &tree.nodes {
        while path.len() > node.depth {
            let left = path.pop().expect("longer than a depth");
            above[left] -= 1;
        }
        let function = &mut functions[node.label];
        for side in [0, 1] {
            function.own[side].add(node.own[side]);
            if above[node.label] == 0 {
                function.total[side].add(node.total[side]);
            }
        }
        above[node.label] += 1;
        path.push(node.label);
    }
    functions.retain(|function| {
        let seen = function
            .total
            .iter()
            .any(|weight| weight.count > 0 || weight.ns > 0);
        seen && matches!(tree.labels[function.label].kind, Kind::Function(_))
    });
    functions
}

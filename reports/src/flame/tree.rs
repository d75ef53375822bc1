//! Stacks merged into a tree: functions by who called them, with their time.
//!
//! A tree holds one or two sides at once, so that the same function of two servers is one node. It
//! knows nothing of widths, units or colours.

use std::collections::HashMap;

use recording::{Frame, FrameSide, StackSet, Stacks};

use crate::clean::clean;

/// What a node stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Label {
    /// Its name, clean.
    pub(crate) text: String,
    /// The file that it is in, clean.
    pub(crate) module: Option<String>,
    pub(crate) kind: Kind,
}

/// Of what kind a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Everything.
    All,
    /// Threads of one name.
    Thread,
    /// Stacks whose outer part is not known.
    EndsEarly,
    /// A function.
    Function(FrameSide),
}

/// Samples, or switches, and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) count: u64,
    pub(crate) ns: u64,
}

impl Weight {
    pub(crate) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.ns = self.ns.saturating_add(other.ns);
    }
}

/// The weights of both sides; of a single one, the first.
pub(crate) type Both = [Weight; 2];

/// A node; children stand behind their parent, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Position in the labels of the tree.
    pub(crate) label: usize,
    /// 0 for the root.
    pub(crate) depth: usize,
    /// Position of its parent; the root is its own.
    pub(crate) parent: usize,
    /// Of stacks that end here.
    pub(crate) own: Both,
    /// Of stacks that pass through or end here.
    pub(crate) total: Both,
}

/// Stacks by who called whom. The first node is the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    /// In their order, each once.
    pub(crate) labels: Vec<Label>,
    /// Every node before its children, and these one whole branch after the other.
    pub(crate) nodes: Vec<Node>,
}

impl Tree {
    pub(crate) fn label(&self, node: &Node) -> &Label {
        &self.labels[node.label]
    }

    /// Everything.
    pub(crate) fn whole(&self, side: usize) -> Weight {
        self.nodes[0].total[side]
    }

    /// The labels from the outermost function to a node.
    pub(crate) fn path(&self, mut node: usize) -> Vec<&Label> {
        let mut path = Vec::new();
        while node != 0 {
            path.push(self.label(&self.nodes[node]));
            node = self.nodes[node].parent;
        }
        path.reverse();
        path
    }
}

/// Stacks on their way into a tree.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    labels: Vec<Label>,
    known: HashMap<Label, usize>,
    stacks: Vec<Path>,
}

#[derive(Debug)]
struct Path {
    labels: Vec<usize>,
    side: usize,
    weight: Weight,
}

impl Gathered {
    /// Adds the stacks of a set to a side; `threads` has each begin with the name of its thread.
    pub(crate) fn add(&mut self, stacks: &Stacks, set: &StackSet, side: usize, threads: bool) {
        let frames: Vec<usize> = stacks
            .frames
            .iter()
            .map(|frame| self.known(label(frame)))
            .collect();
        let early = self.known(ends_early());
        let missing = self.known(nameless(None, FrameSide::User));
        for stack in &set.stacks {
            let mut labels = Vec::with_capacity(stack.frames.len() + 2);
            if threads {
                labels.push(self.known(thread(&stack.comm)));
            }
            if stack.ends_early {
                labels.push(early);
            }
            let known = |frame: &u32| {
                let frame = usize::try_from(*frame).ok()?;
                frames.get(frame).copied()
            };
            // A frame that the table lacks is one that is not known.
            labels.extend(stack.frames.iter().map(|f| known(f).unwrap_or(missing)));
            self.stacks.push(Path {
                labels,
                side,
                weight: Weight {
                    count: stack.count,
                    ns: stack.ns,
                },
            });
        }
    }

    /// The tree of everything that was added, the same in whatever order it was.
    pub(crate) fn tree(self) -> Tree {
        let Self {
            labels, mut stacks, ..
        } = self;
        let (labels, ranks) = ranked(labels);
        for path in &mut stacks {
            for label in &mut path.labels {
                *label = ranks[*label];
            }
        }
        stacks.sort_unstable_by(|a, b| a.labels.cmp(&b.labels));
        let root = labels.iter().position(|label| label.kind == Kind::All);
        let mut nodes = vec![Node::new(root.unwrap_or(0), 0, 0)];
        // The nodes from the root to where the stack before ended.
        let mut open = vec![0];
        let mut before: &[usize] = &[];
        for path in &stacks {
            let shared = path.labels.iter().zip(before);
            let shared = shared.take_while(|(a, b)| a == b).count();
            open.truncate(shared + 1);
            for &label in &path.labels[shared..] {
                nodes.push(Node::new(label, open.len(), open[open.len() - 1]));
                open.push(nodes.len() - 1);
            }
            nodes[open[open.len() - 1]].own[path.side].add(path.weight);
            before = &path.labels;
        }
        for index in (0..nodes.len()).rev() {
            let Node { own, parent, .. } = nodes[index];
            for side in [0, 1] {
                nodes[index].total[side].add(own[side]);
                if index > 0 {
                    let total = nodes[index].total[side];
                    nodes[parent].total[side].add(total);
                }
            }
        }
        Tree { labels, nodes }
    }

    fn known(&mut self, label: Label) -> usize {
        if let Some(&index) = self.known.get(&label) {
            return index;
        }
        self.labels.push(label.clone());
        self.known.insert(label, self.labels.len() - 1);
        self.labels.len() - 1
    }
}

impl Node {
    fn new(label: usize, depth: usize, parent: usize) -> Self {
        Self {
            label,
            depth,
            parent,
            own: Both::default(),
            total: Both::default(),
        }
    }
}

/// Labels in their order with that of the root, and the new place of each.
fn ranked(labels: Vec<Label>) -> (Vec<Label>, Vec<usize>) {
    let root = Label {
        text: "all".to_owned(),
        module: None,
        kind: Kind::All,
    };
    let mut sorted: Vec<(usize, Label)> = labels.into_iter().enumerate().collect();
    sorted.sort_unstable_by(|a, b| a.1.cmp(&b.1));
    let mut ranks = vec![0; sorted.len()];
    for (rank, (place, _)) in sorted.iter().enumerate() {
        ranks[*place] = rank;
    }
    let labels = sorted.into_iter().map(|(_, label)| label);
    (labels.chain([root]).collect(), ranks)
}

/// What a frame is called. Addresses without a name are one per file: they are those of calls, and
/// tell no two functions apart.
fn label(frame: &Frame) -> Label {
    let module = frame.module.as_deref().map(clean);
    match frame.name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => Label {
            text: clean(name),
            module,
            kind: Kind::Function(frame.side),
        },
        None => nameless(module, frame.side),
    }
}

fn nameless(module: Option<String>, side: FrameSide) -> Label {
    let text = match &module {
        Some(module) => format!("[no name in {module}]"),
        None => "[unknown]".to_owned(),
    };
    Label {
        text,
        module,
        kind: Kind::Function(side),
    }
}

fn thread(comm: &str) -> Label {
    let name = if comm.is_empty() { "[unnamed]" } else { comm };
    Label {
        text: clean(name),
        module: None,
        kind: Kind::Thread,
    }
}

fn ends_early() -> Label {
    Label {
        text: "[ends early]".to_owned(),
        module: None,
        kind: Kind::EndsEarly,
    }
}

//! Laws of merging and placing, and small trees that can be checked by hand.

use proptest::prelude::*;
use recording::{Frame, FrameSide, Stack, StackClock, StackSet, Stacks};

use super::functions::functions;
use super::picture::{CHANGES, CLASSES, STYLE};
use super::place::place;
use super::tree::{Gathered, Tree, Weight};

/// Functions `f0`... of a program, of which the last is the kernel's.
fn frames(count: usize) -> Vec<Frame> {
    (0..count)
        .map(|index| Frame {
            name: Some(format!("f{index}")),
            module: Some("server".to_owned()),
            offset: None,
            side: if index + 1 == count {
                FrameSide::Kernel
            } else {
                FrameSide::User
            },
        })
        .collect()
}

fn stacks(frames: Vec<Frame>, stacks: Vec<Stack>) -> Stacks {
    Stacks {
        clock: StackClock::CpuClock,
        hz: 99,
        frames,
        on_cpu: StackSet {
            stacks,
            lost: 0,
            lost_ns: None,
        },
        off_cpu: None,
        modules: Vec::new(),
    }
}

fn stack(frames: &[u32], count: u64, ns: u64) -> Stack {
    Stack {
        comm: "server".to_owned(),
        frames: frames.to_vec(),
        count,
        ns,
        ends_early: false,
    }
}

/// Both sides of a tree may be given; what is not is left empty.
fn tree(sides: &[&Stacks]) -> Tree {
    let mut gathered = Gathered::default();
    for (side, stacks) in sides.iter().enumerate() {
        gathered.add(stacks, &stacks.on_cpu, side, true);
    }
    gathered.tree()
}

/// Each node: its depth, name, own and total ns.
fn told(tree: &Tree) -> Vec<(usize, &str, u64, u64)> {
    let nodes = tree.nodes.iter();
    nodes
        .map(|node| {
            let label = tree.label(node);
            (
                node.depth,
                label.text.as_str(),
                node.own[0].ns,
                node.total[0].ns,
            )
        })
        .collect()
}

/// Three stacks of which two begin alike: children are in the order of their names, totals add up, and the
/// part of a stack that is not known stands where it is missing.
#[test]
fn a_tree_by_hand() {
    let mut early = stack(&[2], 1, 10);
    early.ends_early = true;
    let all = vec![
        stack(&[0, 2], 4, 40),
        stack(&[0, 1], 3, 30),
        stack(&[0], 2, 20),
        early,
    ];
    let tree = tree(&[&stacks(frames(3), all)]);
    assert_eq!(
        told(&tree),
        [
            (0, "all", 0, 100),
            (1, "server", 0, 100),
            (2, "[ends early]", 0, 10),
            (3, "f2", 10, 10),
            (2, "f0", 20, 90),
            (3, "f1", 30, 30),
            (3, "f2", 40, 40),
        ]
    );
    let placement = place(&tree, 0, 0.15, usize::MAX);
    let drawn: Vec<(&str, f64, f64)> = placement
        .frames
        .iter()
        .map(|frame| {
            let label = tree.label(&tree.nodes[frame.node]);
            (label.text.as_str(), frame.left, frame.width)
        })
        .collect();
    assert_eq!(
        drawn,
        [
            ("all", 0.0, 1.0),
            ("server", 0.0, 1.0),
            ("f0", 0.1, 0.9),
            ("f1", 0.1, 0.3),
            ("f2", 0.4, 0.4),
        ]
    );
    assert_eq!((placement.cut, placement.cut_weight.ns), (2, 10));
}

/// A function that calls itself has its time once, and one that is called from two places has both.
#[test]
fn functions_have_their_time_once() {
    let all = vec![
        stack(&[0, 1, 0, 1], 1, 5),
        stack(&[0, 1], 1, 7),
        stack(&[2, 1], 1, 11),
    ];
    let tree = tree(&[&stacks(frames(3), all)]);
    let found: Vec<(&str, u64, u64)> = functions(&tree)
        .iter()
        .map(|function| {
            let label = &tree.labels[function.label];
            (
                label.text.as_str(),
                function.own[0].ns,
                function.total[0].ns,
            )
        })
        .collect();
    assert_eq!(found, [("f0", 0, 12), ("f1", 23, 23), ("f2", 0, 11)]);
}

/// Positions that no frame has, no frames, no name, no time: nothing panics, and nothing is lost.
#[test]
fn broken_tables_are_read() {
    let mut recorded = stacks(
        frames(2),
        vec![
            stack(&[7, u32::MAX], 1, 10),
            stack(&[], 1, 20),
            stack(&[0], 1, 0),
        ],
    );
    recorded.frames[1].name = Some(String::new());
    let read = tree(&[&recorded]);
    assert_eq!(read.whole(0), Weight { count: 3, ns: 30 });
    assert_eq!(told(&read)[2], (2, "[unknown]", 0, 10));
    let nothing = tree(&[]);
    assert_eq!(place(&nothing, 0, 0.1, 9).frames, []);
    assert_eq!(functions(&nothing), []);
}

/// Deeper than any kernel walks: a tree is built and drawn to a limit, and what is cut is counted.
#[test]
fn deep_stacks_are_cut() {
    let deep: Vec<u32> = vec![0; 100_000];
    let tree = tree(&[&stacks(frames(1), vec![stack(&deep, 1, 10)])]);
    let placement = place(&tree, 0, 0.01, 4000);
    assert_eq!(placement.levels, 512);
    assert_eq!(placement.frames.len() + placement.cut, 100_002);
    assert_eq!(placement.cut_weight.ns, 10);
}

/// More frames than a page takes: the narrowest are left out until the rest fits, and all time is accounted
/// for.
#[test]
fn wide_trees_are_cut() {
    let all: Vec<Stack> = (0..10_000).map(|index| stack(&[index], 1, 1000)).collect();
    let tree = tree(&[&stacks(frames(10_000), all)]);
    let placement = place(&tree, 0, 0.000_05, 4000);
    assert_eq!(placement.frames.len(), 2);
    assert_eq!(placement.cut_weight.ns, 10_000_000);
}

/// Every fill differs by at least 3 to 1 from the paper in both colour schemes, and by 4.5 to 1 from the text in
/// it (WCAG 2.2, 1.4.11 and 1.4.3).
#[test]
fn colours_have_contrast() {
    let of_classes = CLASSES.iter().map(|(kind, _)| kind.class());
    let classes = of_classes.chain(CHANGES.iter().map(|(change, _)| change.class()));
    for class in classes {
        let rule = STYLE
            .lines()
            .find(|line| line.contains(&format!(".{class}")) && line.contains("{ fill:"))
            .unwrap();
        let colour = &rule[rule.find('#').unwrap()..][..7];
        for (other, least) in [("#ffffff", 3.0), ("#15181b", 3.0), ("#111111", 4.5)] {
            let contrast = contrast(colour, other);
            assert!(contrast >= least, "{class} {other}: {contrast:.2}");
        }
    }
}

/// By the definition of WCAG 2.2.
fn contrast(a: &str, b: &str) -> f64 {
    let luminance = |colour: &str| {
        let channel = |at: usize| {
            let value = u8::from_str_radix(&colour[at..at + 2], 16).unwrap();
            let value = f64::from(value) / 255.0;
            if value <= 0.040_45 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    };
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn any_stacks() -> impl Strategy<Value = Stacks> {
    let stack = (
        proptest::collection::vec(0_u32..6, 0..6),
        0_u64..50,
        0_u64..1_000_000,
        any::<bool>(),
        "[ab]",
    );
    let stack = stack.prop_map(|(frames, count, ns, ends_early, comm)| Stack {
        comm,
        frames,
        count,
        ns,
        ends_early,
    });
    proptest::collection::vec(stack, 0..30).prop_map(|all| stacks(frames(6), all))
}

proptest! {
    /// Stacks merge to the same tree in whatever order and groups they come.
    #[test]
    fn merging_is_associative(a in any_stacks(), b in any_stacks(), c in any_stacks()) {
        let merged = |parts: &[&Stacks]| {
            let mut gathered = Gathered::default();
            for part in parts {
                gathered.add(part, &part.on_cpu, 0, true);
            }
            gathered.tree()
        };
        let together = |x: &Stacks, y: &Stacks| {
            stacks(frames(6), [x.on_cpu.stacks.clone(), y.on_cpu.stacks.clone()].concat())
        };
        let whole = merged(&[&a, &b, &c]);
        prop_assert_eq!(&merged(&[&together(&a, &b), &c]), &whole);
        prop_assert_eq!(&merged(&[&a, &together(&b, &c)]), &whole);
        prop_assert_eq!(&merged(&[&c, &b, &a]), &whole);
    }

    /// A node has the time of its children and its own; what ends anywhere is everything; a function has at most
    /// everything, and all of them in themselves have everything that ends in a function.
    #[test]
    fn time_adds_up(recorded in any_stacks()) {
        let tree = tree(&[&recorded]);
        prop_assert_eq!(tree.whole(0).ns, recorded.on_cpu.ns_total());
        prop_assert_eq!(tree.whole(0).count, recorded.on_cpu.count());
        let mut sums: Vec<u64> = tree.nodes.iter().map(|node| node.own[0].ns).collect();
        for node in tree.nodes.iter().skip(1) {
            sums[node.parent] += node.total[0].ns;
        }
        let totals: Vec<u64> = tree.nodes.iter().map(|node| node.total[0].ns).collect();
        prop_assert_eq!(sums, totals);
        let empty = recorded.on_cpu.stacks.iter().filter(|stack| stack.frames.is_empty());
        let empty: u64 = empty.map(|stack| stack.ns).sum();
        let found = functions(&tree);
        let own: u64 = found.iter().map(|function| function.own[0].ns).sum();
        prop_assert_eq!(own + empty, tree.whole(0).ns);
        prop_assert!(found.iter().all(|function| function.total[0].ns <= tree.whole(0).ns));
    }

    /// Frames lie within their parents and beside their siblings, the outermost is as wide as the picture, and
    /// what is drawn nowhere is counted as cut.
    #[test]
    fn frames_lie_within_their_parents(recorded in any_stacks(), narrowest in 0.0_f64..0.2) {
        let tree = tree(&[&recorded]);
        let placement = place(&tree, 0, narrowest, usize::MAX);
        let seen = tree.nodes.iter().filter(|node| node.total[0].ns > 0).count();
        prop_assert_eq!(placement.frames.len() + placement.cut, seen);
        let mut ends: Vec<(usize, f64)> = Vec::new();
        for frame in &placement.frames {
            let node = &tree.nodes[frame.node];
            prop_assert!(frame.width >= narrowest);
            if frame.node == 0 {
                prop_assert_eq!((frame.left, frame.width), (0.0, 1.0));
            } else {
                let parent = placement.frames.iter().find(|other| other.node == node.parent).unwrap();
                prop_assert!(frame.left >= parent.left - 1e-9);
                prop_assert!(frame.left + frame.width <= parent.left + parent.width + 1e-9);
            }
            let before = ends.iter().filter(|(depth, _)| *depth == node.depth);
            prop_assert!(before.clone().all(|(_, end)| frame.left >= end - 1e-9));
            ends.push((node.depth, frame.left + frame.width));
        }
    }

    /// Both sides of a tree are what each is alone.
    #[test]
    fn sides_keep_apart(a in any_stacks(), b in any_stacks()) {
        let both = tree(&[&a, &b]);
        prop_assert_eq!(both.whole(0), tree(&[&a]).whole(0));
        prop_assert_eq!(both.whole(1), tree(&[&b]).whole(0));
    }
}

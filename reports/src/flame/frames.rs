//! What stands in each frame of a flame graph: its name, its figures, and what its colour means.

use recording::FrameSide;

use super::difference::{Delta, Picture};
use super::place::{Placed, place};
use super::sampled::Facts;
use super::tree::{Kind, Label, Tree};
use crate::clean::clean_to;
use crate::diff::word;
use crate::figures::{counted, grouped, percent};

/// A flame graph, ready to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Graph {
    /// What it shows, for those who do not see it.
    pub(crate) label: String,
    pub(crate) frames: Vec<Frame>,
    /// Rows of frames.
    pub(crate) levels: usize,
    /// What is not drawn; `None` where everything is.
    pub(crate) cut: Option<String>,
}

/// One frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    /// Left edge and width, as shares of the whole, 0..=1.
    pub(crate) left: f64,
    pub(crate) width: f64,
    /// 0 for the outermost.
    pub(crate) level: usize,
    /// What gives it its colour.
    pub(crate) class: &'static str,
    /// Shown while it is pointed at.
    pub(crate) title: String,
    /// Shown in it, as far as there is room.
    pub(crate) text: String,
}

/// Where a graph is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// In a page, beside others.
    Page,
    /// In a file of its own.
    File,
}

/// How the time of a frame differs, where the samples tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// By more than half of the first side.
    MuchMore,
    More,
    Same,
    Less,
    /// To less than two thirds of it.
    MuchLess,
}

impl Layout {
    /// Frames narrower than this share of the width are left out: a pixel in a file, more in a page
    /// that has several graphs.
    fn narrowest(self) -> f64 {
        match self {
            Self::Page => 0.002,
            Self::File => 0.001,
        }
    }

    /// Frames of one graph: more make a page that no browser scrolls well, and no mail takes.
    fn most(self) -> usize {
        match self {
            Self::Page => 1500,
            Self::File => 4000,
        }
    }
}

impl Change {
    pub(crate) fn of(delta: Delta) -> Self {
        let [a, b] = delta.ns;
        match delta.difference_ns() {
            _ if !delta.is_told() => Self::Same,
            more if more > 0.0 && b > STRONG * a => Self::MuchMore,
            more if more > 0.0 => Self::More,
            _ if a > STRONG * b => Self::MuchLess,
            _ => Self::Less,
        }
    }

    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::MuchMore => "flame-much-more",
            Self::More => "flame-more",
            Self::Same => "flame-same",
            Self::Less => "flame-less",
            Self::MuchLess => "flame-much-less",
        }
    }
}

impl Kind {
    /// What gives a frame its colour.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::All | Self::Thread => "flame-thread",
            Self::EndsEarly => "flame-early",
            Self::Function(FrameSide::User) => "flame-user",
            Self::Function(FrameSide::Jit) => "flame-jit",
            Self::Function(FrameSide::Kernel) => "flame-kernel",
        }
    }
}

/// The flame graph of one time of a server.
pub(crate) fn graph(arm: &str, tree: &Tree, facts: &Facts, layout: Layout) -> Graph {
    let placement = place(tree, 0, layout.narrowest(), layout.most());
    let frame = |placed: &Placed| {
        let node = &tree.nodes[placed.node];
        let label = tree.label(node);
        let weight = node.total[0];
        // Of everything, the whole is no estimate.
        let error = facts.share_error(weight).filter(|_| placed.node != 0);
        let error = error.map_or_else(String::new, |error| format!(" ± {}", percent(error)));
        let title = format!(
            "{}: {} µs per {}, {}{error} of the {}; {}, {} µs in itself",
            named(label),
            micros(facts.per_unit(weight)),
            word(facts.per),
            percent(facts.share(weight)),
            facts.time.words(),
            number(facts, weight.count),
            micros(facts.per_unit(node.own[0])),
        );
        drawn(placed, node.depth, label, label.kind.class(), title, "")
    };
    Graph {
        label: format!(
            "Flame graph of {arm}, {}: {} µs per {}",
            facts.time.words(),
            micros(facts.per_unit(facts.whole)),
            word(facts.per)
        ),
        frames: placement.frames.iter().map(frame).collect(),
        levels: placement.levels,
        cut: cut(&placement, facts),
    }
}

/// The differential flame graph of two servers: widths are those of one side, colours tell what the
/// other one has more or less.
pub(crate) fn deltas(arms: &[String; 2], picture: &Picture, side: usize, layout: Layout) -> Graph {
    let tree = &picture.tree;
    let facts = &picture.facts[side];
    let placement = place(tree, side, layout.narrowest(), layout.most());
    let frame = |placed: &Placed| {
        let node = &tree.nodes[placed.node];
        let label = tree.label(node);
        let delta = picture.delta(&node.total);
        let change = Change::of(delta);
        let [a, b] = delta.ns.map(micros);
        let difference = signed(delta.difference_ns());
        let told = if change == Change::Same {
            "not distinguishable: "
        } else {
            ""
        };
        let title = format!(
            "{}: {a} | {b} µs per {}, {told}{difference} ± {} µs",
            named(label),
            word(facts.per),
            micros(delta.error_ns)
        );
        let sign = match change {
            Change::MuchMore | Change::More => "+ ",
            Change::Same => "",
            Change::Less | Change::MuchLess => "\u{2212} ",
        };
        drawn(placed, node.depth, label, change.class(), title, sign)
    };
    Graph {
        label: format!(
            "Differential flame graph of {}, {}, as wide as in {}",
            arms.join(" and "),
            facts.time.words(),
            arms[side]
        ),
        frames: placement.frames.iter().map(frame).collect(),
        levels: placement.levels,
        cut: cut(&placement, facts),
    }
}

/// A name with the file that it is in.
pub(crate) fn named(label: &Label) -> String {
    let name = clean_to(&label.text, TITLE_CHARACTERS);
    match (&label.module, label.kind) {
        (_, Kind::Thread) => format!("threads named {name}"),
        (_, Kind::EndsEarly) => format!("{name}, callers not known"),
        (Some(module), _) if !label.text.contains(module) => {
            format!("{name} ({})", clean_to(module, MODULE_CHARACTERS))
        }
        _ => name,
    }
}

/// Microseconds to a nanosecond, whatever their size.
pub(crate) fn micros(ns: f64) -> String {
    format!("{:.3}", ns / 1e3)
}

/// Microseconds with their sign.
pub(crate) fn signed(ns: f64) -> String {
    format!("{:+.3}", ns / 1e3)
}

/// `12 samples`, `1 wait`.
pub(crate) fn number(facts: &Facts, count: u64) -> String {
    let noun = match facts.time {
        super::Time::OnCpu => "sample",
        super::Time::OffCpu => "wait",
    };
    if count == 1 {
        counted(1, noun)
    } else {
        format!("{} {noun}s", grouped(count))
    }
}

fn drawn(
    placed: &Placed,
    level: usize,
    label: &Label,
    class: &'static str,
    title: String,
    sign: &str,
) -> Frame {
    // No more than can be seen at full width.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a small number"
    )]
    let room = (placed.width * CHARACTERS) as usize;
    let text = if room < LEAST_CHARACTERS {
        String::new()
    } else {
        format!("{sign}{}", clean_to(&label.text, room))
    };
    Frame {
        left: placed.left,
        width: placed.width,
        level,
        class,
        title,
        text,
    }
}

fn cut(placement: &super::place::Placement, facts: &Facts) -> Option<String> {
    (placement.cut > 0).then(|| {
        format!(
            "not drawn: {}, each narrower than {} of the width, together {} µs per {} ({})",
            counted(placement.cut, "frame"),
            percent(placement.narrowest),
            micros(facts.per_unit(placement.cut_weight)),
            word(facts.per),
            percent(facts.share(placement.cut_weight))
        )
    })
}

/// A side that has one and a half times as much has much more.
const STRONG: f64 = 1.5;
/// Characters that fit side by side into the widest graph.
const CHARACTERS: f64 = 190.0;
/// Fewer tell nothing.
const LEAST_CHARACTERS: usize = 3;
/// Characters of a name that is pointed at: those of templates fill screens.
const TITLE_CHARACTERS: usize = 300;
const MODULE_CHARACTERS: usize = 60;

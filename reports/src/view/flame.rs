//! What is said about stacks: how far they can be believed, the hottest functions, and what differs.

use recording::{
    Denominator, DiffWord, FunctionDiff, Recording, StackClock, StackTime, SyscallDiff,
};

use super::{Line, Table, name, or_absent};
use crate::clean::clean_to;
use crate::diff::word;
use crate::figures::{counted, grouped, micros, percent};
use crate::flame::{
    Change, Delta, Difference, Facts, Function, Label, Picture, Sampled, Time, Tree, functions,
};
use crate::layout::Tone;

/// How far the figures of one time can be believed.
pub(crate) fn notes(facts: &Facts) -> Vec<Line> {
    let mut notes = vec![Line::new("stacks", measured(facts))];
    notes.extend(early(facts));
    notes.extend(lost(facts));
    notes
}

fn measured(facts: &Facts) -> String {
    let whole = format!(
        "{} us per {} in",
        micros(facts.per_unit(facts.whole)),
        word(facts.per)
    );
    let count = grouped(facts.whole.count);
    match facts.time {
        Time::OffCpu => {
            format!("{whole} {count} waits, each with its exact time, idle ones included")
        }
        Time::OnCpu => {
            let clock = match facts.clock {
                StackClock::Cycles => "cycles",
                StackClock::CpuClock => {
                    "the CPU clock: code with interrupts off shows where they are switched on again"
                }
            };
            let errors: Vec<String> = [0.1, 0.01]
                .into_iter()
                .filter_map(|share| Some((share, facts.error_of_share(share)?)))
                .map(|(share, error)| format!("{} +- {}", percent(share), percent(error)))
                .collect();
            format!(
                "{whole} {count} samples, {} per second of running, by {clock}; shares are {} (95%)",
                facts.hz,
                errors.join(", ")
            )
        }
    }
}

fn early(facts: &Facts) -> Option<Line> {
    if facts.early.count == 0 {
        return None;
    }
    let text = format!(
        "{} of this time is in stacks that end early, without their outermost functions: compiled without \
         frame pointers, or too deep; they stand on [ends early]",
        percent(facts.share(facts.early))
    );
    Some(Line::toned("early", text, Tone::Caution))
}

fn lost(facts: &Facts) -> Option<Line> {
    if facts.lost == 0 {
        return None;
    }
    let time = facts.lost_ns.map_or_else(
        || "of unknown time".to_owned(),
        |ns| {
            let ns = ns as f64 / facts.units;
            format!("{} us per {}", micros(ns), word(facts.per))
        },
    );
    let text = format!(
        "{} of {} not stored, the kernel's table was full ({time})",
        grouped(facts.lost),
        grouped(facts.lost.saturating_add(facts.whole.count))
    );
    Some(Line::toned("LOST", text, Tone::Bad))
}

/// How many stacks a profile has and how far they can be believed, on one line; and lines for what was lost
/// or ends early.
pub(crate) fn lines(recording: &Recording) -> Vec<Line> {
    let arms = Sampled::all(recording);
    let facts = arms
        .iter()
        .filter_map(|arm| arm.facts(Time::OnCpu, arm.per()));
    facts.flat_map(|facts| notes(&facts)).collect()
}

/// The functions with the most time in themselves, of the first server that has stacks.
pub(crate) fn hottest(recording: &Recording, rows: usize) -> Table {
    let arms = Sampled::all(recording);
    let found = arms.iter().find_map(|arm| {
        let facts = arm.facts(Time::OnCpu, arm.per())?;
        Some(function_table(&arm.tree(Time::OnCpu), &facts, rows))
    });
    found.unwrap_or_default()
}

/// Functions by the time in themselves.
pub(crate) fn function_table(tree: &Tree, facts: &Facts, rows: usize) -> Table {
    let unit = per(facts.per);
    let title = match facts.time {
        Time::OnCpu => "function, on CPU",
        Time::OffCpu => "function, off CPU",
    };
    let mut found = functions(tree);
    found.sort_by_key(|function| std::cmp::Reverse(function.own[0].ns));
    let row = |function: &Function| {
        let label = &tree.labels[function.label];
        let own = function.own[0];
        let error = facts.share_error(own);
        let mut row = in_file(label);
        row.extend([
            micros(facts.per_unit(own)),
            percent(facts.share(own)),
            or_absent(error, percent),
            micros(facts.per_unit(function.total[0])),
        ]);
        row
    };
    Table {
        header: [
            title,
            "in",
            &format!("us{unit} self"),
            "self",
            "+-",
            &format!("us{unit} with callees"),
        ]
        .map(str::to_owned)
        .into(),
        rows: found
            .iter()
            .filter(|function| function.own[0].ns > 0)
            .take(rows)
            .map(row)
            .collect(),
        left: vec![1],
        optional: vec![5, 1],
    }
}

/// The frames of a flame graph that are wide enough to be read, as a table: the graph for those who do not
/// see it.
pub(crate) fn frame_table(tree: &Tree, facts: &Facts) -> Table {
    let wide = |ns: u64| ns as f64 >= READABLE * facts.whole.ns as f64;
    let frames = tree.nodes.iter().filter(|node| wide(node.total[0].ns));
    Table {
        header: [
            "frame",
            "level",
            &format!("us{}", per(facts.per)),
            "share",
            "+-",
        ]
        .map(str::to_owned)
        .into(),
        rows: frames
            .take(FRAME_ROWS)
            .map(|node| {
                let total = node.total[0];
                vec![
                    name(&tree.label(node).text),
                    node.depth.to_string(),
                    micros(facts.per_unit(total)),
                    percent(facts.share(total)),
                    or_absent(facts.share_error(total).filter(|_| node.depth > 0), percent),
                ]
            })
            .collect(),
        left: Vec::new(),
        optional: Vec::new(),
    }
}

/// Where the names of functions came from.
pub(crate) fn modules(arm: &Sampled<'_>) -> Table {
    let mut modules: Vec<_> = arm.first().modules.iter().collect();
    modules.sort_by(|a, b| b.share.total_cmp(&a.share));
    Table {
        header: ["file", "share of samples", "names from", "build id"]
            .map(str::to_owned)
            .into(),
        rows: modules
            .iter()
            .take(MODULE_ROWS)
            .map(|module| {
                vec![
                    name(&module.name),
                    percent(module.share),
                    module.names.as_deref().map_or("no names".to_owned(), name),
                    or_absent(module.build_id.as_deref(), name),
                ]
            })
            .collect(),
        left: vec![2, 3],
        optional: Vec::new(),
    }
}

/// Functions of one time by the difference between two servers; those that the samples do not tell apart are
/// left out.
pub(crate) fn difference_table(diff: &SyscallDiff, time: StackTime, rows: usize) -> Table {
    function_differences(&diff.functions, diff.per, time, rows)
}

/// The same without the difference in calls.
pub(crate) fn function_differences(
    found: &[FunctionDiff],
    per: Denominator,
    time: StackTime,
    rows: usize,
) -> Table {
    let told = found.iter().filter(|function| {
        function.time == time && function.change != DiffWord::NotDistinguishable
    });
    let title = match time {
        StackTime::OnCpu => "function, on CPU",
        StackTime::OffCpu => "function, off CPU",
    };
    let unit = self::per(per);
    let row = |function: &FunctionDiff| {
        let own = [function.a, function.b].map(|side| side.map(|time| time.own_ns));
        let difference = own[1].unwrap_or(0.0) - own[0].unwrap_or(0.0);
        let change = match function.change {
            DiffWord::Gone => "gone",
            DiffWord::New => "new",
            DiffWord::Changed | DiffWord::NotDistinguishable => "changed",
        };
        vec![
            clean_to(&function.function, NAME_CHARACTERS),
            or_absent(function.module.as_deref(), name),
            change.to_owned(),
            or_absent(own[0], micros),
            or_absent(own[1], micros),
            signed(difference),
            micros(function.error_ns),
        ]
    };
    Table {
        header: [
            title,
            "in",
            "what",
            &format!("us{unit} -"),
            &format!("us{unit} +"),
            "difference",
            "+-",
        ]
        .map(str::to_owned)
        .into(),
        rows: told.take(rows).map(row).collect(),
        left: vec![1, 2],
        optional: vec![1, 2],
    }
}

/// What the functions of a difference cannot say; nothing where there are none.
pub(crate) fn difference_notes(diff: &SyscallDiff) -> Vec<Line> {
    if diff.functions.is_empty() {
        return Vec::new();
    }
    let same = |function: &&FunctionDiff| function.change == DiffWord::NotDistinguishable;
    let alike = diff.functions.iter().filter(same).count();
    vec![Line::new(
        "stacks",
        format!(
            "self time of functions in us per {}, with what sampling leaves open at 95%; {} not \
             distinguishable. Off the CPU the error is that of the number of waits, the least it can be",
            word(diff.per),
            counted(alike, "function")
        ),
    )]
}

/// Frames of one side that the other one does not have at all, the outermost of each, with what they
/// took; only those that the samples tell from nothing are named.
pub(crate) fn gone(difference: &Difference, picture: &Picture, side: usize) -> Vec<Line> {
    let (tree, other) = (&picture.tree, 1 - side);
    let gone = |node: usize| tree.nodes[node].total[other].count == 0;
    let mut found: Vec<(usize, Delta)> = (1..tree.nodes.len())
        .filter(|&node| tree.nodes[node].total[side].count > 0)
        .filter(|&node| gone(node) && !gone(tree.nodes[node].parent))
        .map(|node| (node, picture.delta(&tree.nodes[node].total)))
        .collect();
    let all = found.len();
    found.retain(|(_, delta)| Change::of(*delta) != Change::Same);
    found.sort_by(|a, b| b.1.ns[side].total_cmp(&a.1.ns[side]));
    let few = all - found.len();
    let label = if side == 0 { "gone" } else { "new" };
    let arm = name(&difference.arms[side]);
    let unit = word(picture.facts[side].per);
    let named = found.iter().take(GONE_ROWS).map(|(node, delta)| {
        let path: Vec<String> = tree.path(*node).iter().map(|l| name(&l.text)).collect();
        let tail = path[path.len().saturating_sub(PATH_FRAMES)..].join(" > ");
        let dots = if path.len() > PATH_FRAMES {
            ".. > "
        } else {
            ""
        };
        format!(
            "only in {arm}: {dots}{tail}  {} +- {} us per {unit}",
            micros(delta.ns[side]),
            micros(delta.error_ns)
        )
    });
    let mut lines: Vec<Line> = named.map(|text| Line::new(label, text)).collect();
    let more = found.len().saturating_sub(GONE_ROWS);
    if more + few > 0 {
        lines.push(Line::new(
            label,
            format!(
                "{} more only in {arm}, {} of them in too few samples to say so",
                counted(more + few, "branch"),
                grouped(few as u64)
            )
            .replace("branchs", "branches"),
        ));
    }
    lines
}

fn in_file(label: &Label) -> Vec<String> {
    vec![
        clean_to(&label.text, NAME_CHARACTERS),
        or_absent(label.module.as_deref(), name),
    ]
}

fn signed(ns: f64) -> String {
    if ns < 0.0 {
        micros(ns)
    } else {
        format!("+{}", micros(ns))
    }
}

/// Behind a unit: `us/request`.
fn per(per: Denominator) -> String {
    match per {
        Denominator::Request => "/req".to_owned(),
        Denominator::Second => "/s".to_owned(),
        Denominator::Connection => "/conn".to_owned(),
    }
}

/// Frames of a table have at least this share of the time.
const READABLE: f64 = 0.01;
const FRAME_ROWS: usize = 400;
const MODULE_ROWS: usize = 50;
/// Branches that only one side has and that are named.
const GONE_ROWS: usize = 12;
/// Frames of a path that are named, the innermost ones.
const PATH_FRAMES: usize = 3;
/// Characters of a function's name in a table.
const NAME_CHARACTERS: usize = 60;

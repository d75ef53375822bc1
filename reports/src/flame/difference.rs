//! The stacks of two servers in one tree, per request or per second, and what differs.

use recording::{Denominator, DiffWord, FrameSide, FunctionDiff, FunctionTime, StackTime};

use super::functions::functions;
use super::sampled::{Facts, Sampled, Time};
use super::tree::{Gathered, Kind, Tree, Weight};
use crate::diff::Operand;

/// The stacks of two servers against each other.
#[derive(Clone, Debug)]
pub struct Difference {
    pub(crate) arms: [String; 2],
    /// One for each time that both have.
    pub(crate) pictures: Vec<Picture>,
}

/// One time of both.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub(crate) facts: [Facts; 2],
    /// Without names of threads: two servers name theirs as they like.
    pub(crate) tree: Tree,
}

/// How a node of both differs, per unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Delta {
    /// Each side, ns.
    pub(crate) ns: [f64; 2],
    /// By how much their difference may be off, at 95 %, ns.
    pub(crate) error_ns: f64,
}

impl Difference {
    /// Two servers, divided by `per`; by default requests, where both counted them, else seconds. `None`
    /// where one has no stacks, or cannot be divided by that.
    pub fn of(a: Operand<'_>, b: Operand<'_>, per: Option<Denominator>) -> Option<Self> {
        let sides = [a, b].map(|side| Sampled::of(side.recording, side.arm));
        let [Some(one), Some(other)] = sides else {
            return None;
        };
        Self::between(&one, &other, per)
    }

    pub(crate) fn between(
        a: &Sampled<'_>,
        b: &Sampled<'_>,
        per: Option<Denominator>,
    ) -> Option<Self> {
        // The weaker one of both counts.
        let per = per.unwrap_or_else(|| match (a.per(), b.per()) {
            (Denominator::Request, Denominator::Request) => Denominator::Request,
            _ => Denominator::Second,
        });
        let pictures: Vec<Picture> = Time::ALL
            .into_iter()
            .filter_map(|time| {
                let facts = [a.facts(time, per)?, b.facts(time, per)?];
                let mut gathered = Gathered::default();
                a.gather(time, &mut gathered, 0, false);
                b.gather(time, &mut gathered, 1, false);
                Some(Picture {
                    facts,
                    tree: gathered.tree(),
                })
            })
            .collect();
        (!pictures.is_empty()).then(|| Self {
            arms: [a.arm.to_owned(), b.arm.to_owned()],
            pictures,
        })
    }

    /// Every function that both do not have alike, the largest difference first.
    pub fn functions(&self) -> Vec<FunctionDiff> {
        self.pictures.iter().flat_map(Picture::functions).collect()
    }
}

impl Picture {
    pub(crate) fn delta(&self, weights: &[Weight; 2]) -> Delta {
        let [a, b] = &self.facts;
        let errors = [a.error_ns(weights[0]), b.error_ns(weights[1])];
        Delta {
            ns: [a.per_unit(weights[0]), b.per_unit(weights[1])],
            error_ns: errors[0].hypot(errors[1]),
        }
    }

    fn functions(&self) -> Vec<FunctionDiff> {
        let time = match self.facts[0].time {
            Time::OnCpu => StackTime::OnCpu,
            Time::OffCpu => StackTime::OffCpu,
        };
        let mut found: Vec<FunctionDiff> = functions(&self.tree)
            .iter()
            .filter(|function| function.own.iter().any(|own| own.count > 0))
            .map(|function| {
                let label = &self.tree.labels[function.label];
                let delta = self.delta(&function.own);
                let total = self.delta(&function.total);
                let of = |side: usize| {
                    (function.total[side].count > 0).then_some(FunctionTime {
                        own_ns: delta.ns[side],
                        total_ns: total.ns[side],
                        own_count: function.own[side].count,
                    })
                };
                FunctionDiff {
                    function: label.text.clone(),
                    module: label.module.clone(),
                    side: match label.kind {
                        Kind::Function(side) => side,
                        Kind::All | Kind::EndsEarly | Kind::Thread => FrameSide::User,
                    },
                    time,
                    change: delta.change(function.total.map(|total| total.count > 0)),
                    a: of(0),
                    b: of(1),
                    error_ns: delta.error_ns,
                }
            })
            .collect();
        let size = |function: &FunctionDiff| {
            let ns = |side: &Option<FunctionTime>| side.map_or(0.0, |time| time.own_ns);
            (
                function.change != DiffWord::NotDistinguishable,
                (ns(&function.b) - ns(&function.a)).abs(),
            )
        };
        found.sort_by(|x, y| {
            let (x_size, y_size) = (size(x), size(y));
            let by_size = y_size.1.total_cmp(&x_size.1);
            y_size.0.cmp(&x_size.0).then(by_size)
        });
        found
    }
}

impl Delta {
    /// From the first to the second side, ns.
    pub(crate) fn difference_ns(self) -> f64 {
        self.ns[1] - self.ns[0]
    }

    /// Whether it is larger than it may be off.
    pub(crate) fn is_told(self) -> bool {
        self.difference_ns().abs() > self.error_ns
    }

    fn change(self, seen: [bool; 2]) -> DiffWord {
        match seen {
            _ if !self.is_told() => DiffWord::NotDistinguishable,
            [true, false] => DiffWord::Gone,
            [false, true] => DiffWord::New,
            _ => DiffWord::Changed,
        }
    }
}

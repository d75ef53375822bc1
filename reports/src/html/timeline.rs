//! Throughput and calls per request over time, a small picture for each round.

use maud::{Markup, html};
use recording::{Load, Probes, Profile, Recording, Round, RoundRole, Window};

use super::axis::{Axis, plain};
use super::element::{self, arm_class, portion};
use super::plot::{Height, path, plot};
use crate::figures::{counted, rate};
use crate::metrics::is_good;
use crate::view;

/// Main rounds of every arm over time; nothing where no load was kept.
pub(super) fn over_time(recording: &Recording) -> Markup {
    let rounds: Vec<Course<'_>> = recording
        .rounds
        .iter()
        .filter(|round| round.role == RoundRole::Main)
        .filter_map(Course::of)
        .collect();
    let shown = &rounds[..rounds.len().min(ROUNDS)];
    let y = Axis::linear("", (0.0, largest(shown.iter().map(|c| &c.rates))), short);
    let calls = largest(shown.iter().map(|course| &course.calls));
    let calls = Axis::linear("", (0.0, calls), plain);
    html! {
        @if shown.is_empty() {
            p { "Not measured: no round has a course of its load." }
        } @else {
            (element::arms_legend(recording))
            p.small {
                "Requests per second, with the warm-up shaded, on one scale for all rounds. Dashed, on the axis at \
                 the right: calls per request in each slice, where a round was probed, so that it does not just \
                 repeat the throughput."
            }
            p.pick {
                label for="round-pick" { "Round " }
                select #round-pick disabled {
                    option value="" { "all rounds" }
                    @for course in shown {
                        option value=(course.round.order) { (course.title()) }
                    }
                }
                noscript { " (all are shown: picking one takes JavaScript)" }
            }
            div #rounds-over-time.multiples {
                @for course in shown { (course.picture(recording, &y, &calls)) }
            }
            @if rounds.len() > shown.len() {
                p.small { (counted(rounds.len() - shown.len(), "round")) " more, not drawn" }
            }
        }
    }
}

/// A load over time, for a report of one.
pub(super) fn of_load(load: &Load) -> Markup {
    let rates = rates(load);
    let axes = (
        seconds_axis(&rates, load),
        Axis::linear(
            "requests per second",
            (0.0, rates.iter().map(|(_, rps)| *rps).fold(0.0, f64::max)),
            plain,
        ),
    );
    let axes = (&axes.0, &axes.1);
    let label = "Requests per second over time";
    let curves = html! { path class="curve arm0" d=(path(axes, &rates)) {} };
    plot(label, Height::Tall, axes, &curves, &warm_up(axes.0))
}

/// A round over time.
struct Course<'a> {
    round: &'a Round,
    load: &'a Load,
    /// Seconds from the start of the window, and requests per second.
    rates: Vec<(f64, f64)>,
    /// Seconds from the start of the window, and calls per request.
    calls: Vec<(f64, f64)>,
}

impl<'a> Course<'a> {
    fn of(round: &'a Round) -> Option<Self> {
        let load = round.load.as_ref()?;
        let rates = rates(load);
        let calls = round.profile.as_ref().map(|profile| calls(profile, load));
        (rates.len() > 1).then(|| Self {
            round,
            load,
            rates,
            calls: calls.unwrap_or_default(),
        })
    }

    fn title(&self) -> String {
        let probes = match self.round.probes {
            Probes::On => "probed",
            Probes::Off => "not probed",
        };
        let not_used = if is_good(self.round) {
            ""
        } else {
            ", not used"
        };
        format!(
            "pair {}, {}, {probes}{not_used}",
            self.round.pair + 1,
            view::name(&self.round.arm)
        )
    }

    fn picture(&self, recording: &Recording, y: &Axis, calls: &Axis) -> Markup {
        let arm = recording
            .arms
            .iter()
            .position(|arm| arm.name == self.round.arm)
            .unwrap_or(0);
        let x = seconds_axis(&self.rates, self.load);
        let probed = !self.calls.is_empty();
        let curves = html! {
            path class={ "curve solid " (arm_class(arm)) } d=(path((&x, y), &self.rates)) {}
            @if probed {
                path.curve.calls d=(path((&x, calls), &self.calls)) {}
            }
        };
        let marks = html! {
            (warm_up(&x))
            @if probed {
                @for (value, label) in &calls.ticks {
                    text.tick.calls x="100%" dx="6" y=(portion(1.0 - calls.at(*value))) dy="0.32em" { (label) }
                }
            }
        };
        let mean = self.load.ledger.ok as f64 / self.load.window.seconds();
        let label = format!("{}: {} requests per second", self.title(), rate(mean));
        html! {
            figure.multiple data-round=(self.round.order) aria-label=(self.title()) {
                figcaption { (self.title()) " " span.small { (rate(mean)) " req/s" } }
                (plot(&label, Height::Small, (&x, y), &curves, &marks))
            }
        }
    }
}

fn seconds_axis(rates: &[(f64, f64)], load: &Load) -> Axis {
    let first = rates.first().map_or(0.0, |(at, _)| *at);
    let last = rates.last().map_or(0.0, |(at, _)| *at);
    Axis::exact(
        "",
        (first.min(0.0), last.max(load.window.seconds())),
        |value| format!("{}s", (value * 100.0).round() / 100.0),
    )
}

/// What lies before the window.
fn warm_up(x: &Axis) -> Markup {
    let begin = x.at(0.0);
    html! {
        @if begin > 0.0 { rect.warm-up x="0" y="0" width=(portion(begin)) height="100%" {} }
    }
}

/// Requests per second over the whole run, the bins put together to at most [`POINTS`]; where no bins
/// were kept, over the slices of the window.
fn rates(load: &Load) -> Vec<(f64, f64)> {
    let start_ns = load.window.start_ns as f64;
    let timeline = &load.timeline;
    if timeline.completed.is_empty() || timeline.bin_ns == 0 {
        let slices = load.slices.iter().filter(|s| s.window.length_ns() > 0);
        return slices
            .map(|slice| {
                (
                    middle(slice.window, start_ns),
                    slice.ok as f64 / slice.window.seconds(),
                )
            })
            .collect();
    }
    let bin_ns = timeline.bin_ns as f64;
    // Nothing is kept behind the last completion, and what completes while the load drains is no rate.
    let bins = ((load.window.end_ns as f64 - timeline.start_ns as f64) / bin_ns).floor();
    let known = timeline.completed.iter().copied();
    let counts: Vec<u32> = known
        .chain(std::iter::repeat(0))
        .take(whole(bins))
        .collect();
    let together = counts.len().div_ceil(POINTS).max(1);
    let width_ns = together as f64 * bin_ns;
    let chunks = counts.chunks_exact(together).enumerate();
    chunks
        .map(|(index, counts)| {
            let from_ns = timeline.start_ns as f64 + index as f64 * width_ns;
            let completed: f64 = counts.iter().map(|&count| f64::from(count)).sum();
            let at = (from_ns + width_ns / 2.0 - start_ns) / 1e9;
            (at, completed / (width_ns / 1e9))
        })
        .collect()
}

/// A number of bins: not beyond what a recording can hold.
fn whole(bins: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped just before"
    )]
    let bins = bins.clamp(0.0, BINS) as usize;
    bins
}

/// Calls per request in each slice of a profile during which something completed.
fn calls(profile: &Profile, load: &Load) -> Vec<(f64, f64)> {
    let together = profile.slices.len().div_ceil(POINTS).max(1);
    profile
        .slices
        .chunks(together)
        .filter_map(|slices| {
            let window = Window {
                start_ns: slices.first()?.window.start_ns,
                end_ns: slices.last()?.window.end_ns,
            };
            let requests = load.timeline.completed_in(window);
            let counts = slices.iter().flat_map(|slice| &slice.calls);
            let calls: u64 = counts.map(|call| call.count).sum();
            (requests >= 1.0).then(|| {
                (
                    middle(window, load.window.start_ns as f64),
                    calls as f64 / requests,
                )
            })
        })
        .collect()
}

#[expect(
    single_use_lifetimes,
    reason = "an anonymous lifetime in impl Trait is unstable"
)]
fn largest<'a>(courses: impl Iterator<Item = &'a Vec<(f64, f64)>>) -> f64 {
    let values = courses.flatten().map(|(_, value)| *value);
    values.fold(0.0, f64::max)
}

/// `50k`: an axis of a small picture has little room.
fn short(rps: f64) -> String {
    if rps >= 1000.0 {
        format!("{}k", rps / 1000.0)
    } else {
        format!("{rps}")
    }
}

/// The middle of a window, seconds after a start.
fn middle(window: Window, start_ns: f64) -> f64 {
    (f64::midpoint(window.start_ns as f64, window.end_ns as f64) - start_ns) / 1e9
}

/// Points of one curve: with more of them a picture would show the waits of single milliseconds.
const POINTS: usize = 60;
/// Rounds that are drawn: 50 pairs of two arms with and without probes.
const ROUNDS: usize = 200;
/// A day in milliseconds.
const BINS: f64 = 86_400_000.0;

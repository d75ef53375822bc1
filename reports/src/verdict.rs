//! From an interval and a margin to one of five words.
//!
//! The words are the same in every format and in the exit code. A gate that refuses leaves no
//! winner; an interval that is too wide says how many pairs would do.

use recording::{Comparison, GateStatus, Probes, Recording, Round, Verdict, VerdictWord};

use crate::figures::{counted, grouped, interval, percent, ratio, rounded};
use crate::gates::{Saturation, half_width, saturation};
use crate::metrics::{AA_THROUGHPUT, EQUAL_RATE, Metric, is_good, is_main, paired};
use crate::statistics::{paired_ratio, pairs_needed};

/// The level of every interval that a report shows.
pub const LEVEL: f64 = 0.99;

/// Pairs below which a verdict is called indicative.
pub const PAIRS_FOR_A_CLAIM: u32 = 8;

/// Pairs below which an interval says nothing that a reader could use.
pub(crate) const PAIRS_FOR_AN_INTERVAL: u32 = 3;

/// What stands in the place of such an interval.
pub(crate) const TOO_FEW_PAIRS: &str = "too few pairs";

/// Pairs above which a quieter machine is the better remedy.
const SANE_PAIRS: u32 = 100;

/// The word for one arm against the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct PairVerdict {
    /// The reference arm.
    pub a: String,
    /// The other arm.
    pub b: String,
    /// The word.
    pub word: VerdictWord,
    /// The faster arm, where the word is `faster`.
    pub winner: Option<String>,
    /// What was judged: throughput, or CPU time per request where the client was the limiter.
    pub metric: Metric,
    /// Pairs of rounds that it rests on.
    pub pairs: u32,
    /// One sentence with the numbers.
    pub text: String,
}

/// The verdict of a comparison, from its gates and comparisons; `None` for rounds by count, whose
/// result is exact counts and no speed.
pub fn verdict(recording: &Recording) -> Option<Verdict> {
    let scenario = recording.scenario.as_ref()?;
    let refused: Vec<String> = recording
        .gates
        .iter()
        .filter(|gate| gate.status == GateStatus::Refuse)
        .map(|gate| format!("{} {}: {}", gate.id, gate.title, gate.value))
        .collect();
    if !refused.is_empty() {
        return Some(Verdict {
            word: VerdictWord::NotComparable,
            winner: None,
            metric: Metric::Throughput.name().to_owned(),
            text: format!("not comparable: {}", refused.join("; ")),
            indicative: true,
            margin: None,
        });
    }
    if scenario.lock_step_requests.is_some() {
        return None;
    }
    let pairs = pair_verdicts(recording);
    let word = overall_word(&pairs)?;
    let by_cpu = pairs.iter().any(|pair| pair.metric == Metric::ServerCpu);
    let judged = if by_cpu {
        Metric::ServerCpu
    } else {
        Metric::Throughput
    };
    let texts: Vec<&str> = pairs.iter().map(|pair| pair.text.as_str()).collect();
    let controlled = recording
        .gates
        .iter()
        .any(|gate| gate.id == "G10" && gate.status == GateStatus::Ok);
    let enough = pairs.iter().all(|pair| pair.pairs >= PAIRS_FOR_A_CLAIM);
    Some(Verdict {
        word,
        winner: overall_winner(&pairs),
        metric: judged.name().to_owned(),
        text: texts.join("; "),
        indicative: !(controlled && enough),
        margin: Some(margin(recording)),
    })
}

/// The margin below which a difference is not material: that of the scenario, or what two copies of one
/// server differ by where that is more.
pub fn margin(recording: &Recording) -> f64 {
    let asked = recording.scenario.as_ref().map_or(0.0, |s| s.margin);
    let control = recording
        .comparisons
        .iter()
        .find(|row| row.metric == AA_THROUGHPUT)
        .and_then(|row| row.interval);
    control.map_or(asked, |bounds| asked.max(half_width(bounds)))
}

/// The word for each arm against the first one: on throughput, or on CPU time per request where the
/// client limited one of both.
pub fn pair_verdicts(recording: &Recording) -> Vec<PairVerdict> {
    let margin = margin(recording);
    let Some((first, others)) = recording.arms.split_first() else {
        return Vec::new();
    };
    others
        .iter()
        .map(|other| {
            let limited = [first, other]
                .iter()
                .any(|arm| saturation(recording, &arm.name) == Saturation::Client);
            let by_cpu = compared(recording, Metric::ServerCpu, &first.name, &other.name);
            let (metric, comparison) = if limited && by_cpu.is_some() {
                (Metric::ServerCpu, by_cpu)
            } else {
                let throughput = Metric::Throughput;
                let row = compared(recording, throughput, &first.name, &other.name);
                (throughput, row)
            };
            match comparison {
                Some(comparison) => {
                    let verdict = judge(recording, metric, comparison, margin);
                    mixed(recording, verdict, margin)
                }
                None => PairVerdict {
                    a: first.name.clone(),
                    b: other.name.clone(),
                    word: VerdictWord::Inconclusive,
                    winner: None,
                    metric,
                    pairs: 0,
                    text: format!(
                        "{} against {}: inconclusive, no pair of good rounds, {}",
                        first.name,
                        other.name,
                        failed_arms(recording, &first.name, &other.name)
                            .unwrap_or_else(|| "more pairs needed".to_owned())
                    ),
                },
            }
        })
        .collect()
}

/// The word that an interval of a ratio deserves under a margin.
pub fn word(interval: Option<(f64, f64)>, margin: f64) -> VerdictWord {
    let Some((low, high)) = interval else {
        return VerdictWord::Inconclusive;
    };
    let (bottom, top) = (1.0 / (1.0 + margin), 1.0 + margin);
    if low > top || high < bottom {
        VerdictWord::Faster
    } else if low > bottom && high < top {
        VerdictWord::Equivalent
    } else if low > 1.0 || high < 1.0 {
        VerdictWord::Immaterial
    } else {
        VerdictWord::Inconclusive
    }
}

/// The comparison of a metric between two arms at saturation.
fn compared<'a>(
    recording: &'a Recording,
    metric: Metric,
    a: &str,
    b: &str,
) -> Option<&'a Comparison> {
    let rows = recording.comparisons.iter();
    let mut of_both = rows.filter(|row| row.a == a && row.b == b);
    of_both.find(|row| row.metric == metric.name())
}

/// A verdict of which another established result says the opposite has no single winner.
fn mixed(recording: &Recording, verdict: PairVerdict, margin: f64) -> PairVerdict {
    let Some(winner) = verdict.winner.as_deref() else {
        return verdict;
    };
    let opposite = |row: &&Comparison| {
        let less_is_better =
            row.metric == Metric::ServerCpu.name() || row.metric.starts_with(EQUAL_RATE);
        let of_both = row.a == verdict.a && row.b == verdict.b;
        let other_metric = row.metric != verdict.metric.name();
        let better = if row.ratio < 1.0 { &row.a } else { &row.b };
        less_is_better
            && of_both
            && other_metric
            && word(row.interval, margin) == VerdictWord::Faster
            && better != winner
    };
    let against: Vec<String> = recording
        .comparisons
        .iter()
        .filter(opposite)
        .map(|row| {
            let (more, less, (factor, bounds)) = if row.ratio >= 1.0 {
                (&row.a, &row.b, (row.ratio, row.interval))
            } else {
                (&row.b, &row.a, inverted(row))
            };
            let at = row.rate_rps.map_or(String::new(), |rps| {
                format!(" at {} req/s each", rounded(rps))
            });
            format!(
                "{more} has {} times the {} of {less}{at} {}",
                ratio(factor),
                plain_name(&row.metric),
                interval(bounds)
            )
        })
        .collect();
    if against.is_empty() {
        return verdict;
    }
    PairVerdict {
        word: VerdictWord::Mixed,
        winner: None,
        text: format!("mixed: {}; but {}", verdict.text, against.join(", ")),
        ..verdict
    }
}

/// A metric in words.
pub(crate) fn plain_name(metric: &str) -> &'static str {
    let metric = metric.strip_prefix(EQUAL_RATE).unwrap_or(metric);
    let known = Metric::ALL.into_iter().find(|known| known.name() == metric);
    match known {
        Some(Metric::LatencyP50) => "p50 latency",
        Some(Metric::LatencyP99) => "p99 latency",
        Some(Metric::ServerCpu) | None => "CPU time per request",
        Some(Metric::Throughput) => "throughput",
    }
}

fn judge(
    recording: &Recording,
    metric: Metric,
    comparison: &Comparison,
    margin: f64,
) -> PairVerdict {
    let word = word(comparison.interval, margin);
    let (a, b) = (&comparison.a, &comparison.b);
    let by_cpu = metric == Metric::ServerCpu;
    // Of CPU time less is better.
    let a_leads = (comparison.ratio >= 1.0) != by_cpu;
    let (leader, other) = if a_leads { (a, b) } else { (b, a) };
    let evidence = |bounds| {
        format!(
            "{} {} CI, {}",
            interval(bounds),
            percent(comparison.level),
            counted(comparison.pairs as usize, "pair")
        )
    };
    // The factor is told from the side of the leader; where the tables have its inverse, so is that.
    let lead = || {
        let direct = comparison.ratio >= 1.0;
        let (factor, bounds) = if direct {
            (comparison.ratio, comparison.interval)
        } else {
            inverted(comparison)
        };
        let inverse = if direct {
            String::new()
        } else {
            format!("  ({a}/{b} {})", ratio(comparison.ratio))
        };
        let text = if by_cpu {
            format!(
                "client-limited, so by CPU per request: {other} needs {} times as much as {leader}",
                ratio(factor)
            )
        } else {
            format!("{leader} {} times as fast as {other}", ratio(factor))
        };
        (text, format!("{}{inverse}", evidence(bounds)))
    };
    let quotient = format!(
        "{}{a}/{b} {}",
        if by_cpu { "CPU per request " } else { "" },
        ratio(comparison.ratio)
    );
    let text = match word {
        VerdictWord::Faster => {
            let (lead, evidence) = lead();
            format!("{lead}  {evidence}")
        }
        VerdictWord::Immaterial => {
            let (lead, evidence) = lead();
            let margin = percent(margin);
            format!("{lead}, established but not beyond the margin of {margin}  {evidence}")
        }
        VerdictWord::Equivalent => format!(
            "{a} and {b} equivalent within {}: {quotient}  {}",
            percent(margin),
            evidence(comparison.interval)
        ),
        VerdictWord::Inconclusive | VerdictWord::Mixed | VerdictWord::NotComparable => {
            let evidence = if comparison.pairs < PAIRS_FOR_AN_INTERVAL {
                let pairs = counted(comparison.pairs as usize, "pair");
                format!("{TOO_FEW_PAIRS} for an interval ({pairs})")
            } else {
                evidence(comparison.interval)
            };
            let why = more_pairs(recording, comparison, margin);
            format!("{a} against {b}: inconclusive, {why}: {quotient}  {evidence}")
        }
    };
    PairVerdict {
        a: a.clone(),
        b: b.clone(),
        word,
        winner: (word == VerdictWord::Faster).then(|| leader.clone()),
        metric,
        pairs: comparison.pairs,
        text,
    }
}

/// The ratio and its interval with the arms exchanged.
pub(crate) fn inverted(comparison: &Comparison) -> (f64, Option<(f64, f64)>) {
    let interval = comparison.interval;
    (
        1.0 / comparison.ratio,
        interval.map(|(low, high)| (1.0 / high, 1.0 / low)),
    )
}

/// What would make the interval narrow enough to tell: rounds that do not fail, or more pairs, as
/// many as follow from the spread seen.
fn more_pairs(recording: &Recording, comparison: &Comparison, margin: f64) -> String {
    let judged = Metric::ALL
        .into_iter()
        .find(|metric| metric.name() == comparison.metric)
        .unwrap_or(Metric::Throughput);
    let (a, b) = paired(recording, judged, &comparison.a, &comparison.b);
    let target = (margin / 2.0).max(0.01);
    let deviation = paired_ratio(&a, &b, comparison.level).and_then(|ratio| ratio.log_deviation);
    let needed = deviation.and_then(|deviation| {
        pairs_needed(deviation, target, comparison.level).filter(|needed| *needed <= SANE_PAIRS)
    });
    let planned = recording.scenario.as_ref().map_or(0, |s| s.pairs);
    let would_do = needed.map_or(deviation.is_none(), |needed| needed <= planned);
    if let Some(failed) = failed_arms(recording, &comparison.a, &comparison.b).filter(|_| would_do)
    {
        return failed;
    }
    match needed {
        Some(needed) if needed > comparison.pairs => {
            let more = needed - comparison.pairs;
            let noun = if more == 1 { "pair" } else { "pairs" };
            format!("about {} more {noun} needed", grouped(more.into()))
        }
        None if deviation.is_some() => {
            format!("more than {SANE_PAIRS} pairs needed, quiet the machine")
        }
        _ => "more pairs needed".to_owned(),
    }
}

/// Which of two arms has failed rounds without probes, as a reason; `None` where neither has.
fn failed_arms(recording: &Recording, a: &str, b: &str) -> Option<String> {
    let parts: Vec<String> = [a, b]
        .into_iter()
        .filter_map(|arm| {
            let of_arm = |round: &&Round| is_main(round, arm, Probes::Off) && !is_good(round);
            let failed = recording.rounds.iter().filter(of_arm).count();
            (failed > 0).then(|| format!("{} of {arm}", counted(failed, "round")))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("because {} failed", parts.join(" and ")))
}

/// With several arms the word that claims least: a doubt about one arm is a doubt about the run.
fn overall_word(pairs: &[PairVerdict]) -> Option<VerdictWord> {
    let caution = |word: &VerdictWord| match word {
        VerdictWord::NotComparable => 5,
        VerdictWord::Inconclusive => 4,
        VerdictWord::Mixed => 3,
        VerdictWord::Faster => 2,
        VerdictWord::Immaterial => 1,
        VerdictWord::Equivalent => 0,
    };
    pairs.iter().map(|pair| pair.word).max_by_key(caution)
}

/// The arm that is faster than all others as far as comparisons with the reference can show it.
fn overall_winner(pairs: &[PairVerdict]) -> Option<String> {
    let reference = &pairs.first()?.a;
    let beaten = |pair: &PairVerdict| pair.winner.as_ref() == Some(reference);
    if pairs.iter().all(beaten) {
        return Some(reference.clone());
    }
    // An arm that beats the reference also beats every arm that the reference beats.
    let mut unbeaten = pairs.iter().filter(|pair| !beaten(pair));
    match (unbeaten.next(), unbeaten.next()) {
        (Some(only), None) => only.winner.clone(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The five places where an interval can lie.
    #[test]
    fn words_follow_the_interval() {
        for (interval, expected) in [
            (Some((1.66, 1.71)), VerdictWord::Faster),
            (Some((0.5, 0.6)), VerdictWord::Faster),
            (Some((0.99, 1.01)), VerdictWord::Equivalent),
            (Some((1.005, 1.015)), VerdictWord::Equivalent),
            (Some((1.005, 1.05)), VerdictWord::Immaterial),
            (Some((0.97, 0.999)), VerdictWord::Immaterial),
            (Some((0.9, 1.1)), VerdictWord::Inconclusive),
            (None, VerdictWord::Inconclusive),
        ] {
            assert_eq!(word(interval, 0.02), expected, "{interval:?}");
        }
    }

    proptest! {
        /// Swapping the arms inverts the interval and keeps the word.
        #[test]
        fn the_word_does_not_depend_on_the_order(
            low in 0.5_f64..2.0,
            width in 1.0001_f64..1.5,
            margin in 0.001_f64..0.2,
        ) {
            let high = low * width;
            let swapped = (1.0 / high, 1.0 / low);
            // At the very edges of the band rounding decides; keep away from them.
            let edges = [1.0, 1.0 + margin, 1.0 / (1.0 + margin)];
            let near = edges.iter().any(|e| (low - e).abs() < 1e-9 || (high - e).abs() < 1e-9);
            prop_assume!(!near);
            prop_assert_eq!(word(Some((low, high)), margin), word(Some(swapped), margin));
        }
    }
}

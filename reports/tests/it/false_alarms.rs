//! How often differences are declared that there are not, and how often those that there are: the
//! statistics of a comparison on simulated rounds, 200 comparisons each.

use recording::VerdictWord;
use reports::statistics::holm::{holm, p_of_zero_mean};
use reports::statistics::paired_ratio;
use reports::statistics::random::SplitMix64;
use reports::verdict::{LEVEL, word};
use statrs::distribution::{ContinuousCDF as _, Normal};

/// Rounds of a machine whose speed varies from round to round, and falls over the session.
struct Machine {
    random: SplitMix64,
    /// Speed that is lost from one round to the next, as a share.
    drift: f64,
    round: f64,
}

impl Machine {
    fn new(seed: u64, drift: f64) -> Self {
        Self {
            random: SplitMix64::new(seed),
            drift,
            round: 0.0,
        }
    }

    fn noise(&mut self) -> f64 {
        Normal::standard().inverse_cdf(self.random.unit())
    }

    /// Throughput of the next round of a server that is so fast.
    fn measure(&mut self, rps: f64) -> f64 {
        self.round += 1.0;
        rps * (ROUND_NOISE * self.noise() - self.drift * self.round).exp()
    }

    /// The word about two servers after a comparison in the order A B, B A.
    fn compare(&mut self, a_rps: f64, b_rps: f64) -> VerdictWord {
        self.round = 0.0;
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for pair in 0..PAIRS {
            if pair % 2 == 0 {
                a.push(self.measure(a_rps));
                b.push(self.measure(b_rps));
            } else {
                b.push(self.measure(b_rps));
                a.push(self.measure(a_rps));
            }
        }
        let ratio = paired_ratio(&a, &b, LEVEL).unwrap();
        word(ratio.interval, MARGIN)
    }

    /// Of so many comparisons those that have a winner.
    fn winners(&mut self, a_rps: f64, b_rps: f64) -> usize {
        let words = (0..COMPARISONS).map(|_| self.compare(a_rps, b_rps));
        words.filter(|word| *word == VerdictWord::Faster).count()
    }
}

/// Of 200 comparisons of equal servers at most five have a winner, and of 200 with a difference of
/// three margins at least 180, on a steady machine and on one that gets slower by 5 %.
#[test]
fn winners_are_few_without_a_difference_and_many_with_one() {
    for drift in [0.0, 0.05 / (2.0 * f64::from(PAIRS))] {
        let mut machine = Machine::new(7, drift);
        let false_winners = machine.winners(50_000.0, 50_000.0);
        assert!(false_winners <= 5, "{false_winners} with {drift}");
        let slower = 50_000.0 / (1.0 + 3.0 * MARGIN);
        let winners = machine.winners(50_000.0, slower);
        assert!(winners >= 180, "{winners} with {drift}");
    }
}

/// Under Holm, a table of bars without a difference has an established one in about 5 % of all
/// comparisons, and a bar of three margins is established in at least 180 of 200, whatever stands
/// beside it.
#[test]
fn bars_are_established_where_there_is_something() {
    let mut machine = Machine::new(11, 0.0);
    let mut table = |first: f64| -> Vec<f64> {
        let rows = (0..BARS).map(|bar| {
            let mean = if bar == 0 { first } else { 0.0 };
            let pairs: Vec<f64> = (0..PAIRS)
                .map(|_| mean + BAR_NOISE * machine.noise())
                .collect();
            p_of_zero_mean(&pairs).unwrap()
        });
        holm(&rows.collect::<Vec<f64>>())
    };
    let wrong = (0..COMPARISONS)
        .filter(|_| table(0.0).iter().any(|p| *p <= 0.05))
        .count();
    // 10 are expected; 20 is the 99.9 % point of the binomial.
    assert!(wrong <= 20, "{wrong}");
    let found = (0..COMPARISONS)
        .filter(|_| table(3.0 * MARGIN)[0] <= 0.05)
        .count();
    assert!(found >= 180, "{found}");
}

const COMPARISONS: usize = 200;
/// The fewest pairs that give intervals, which is what `--quick` runs.
const PAIRS: u32 = 6;
const MARGIN: f64 = 0.02;
/// Deviation of a round, as a share: what a quiet machine has in windows of a second.
const ROUND_NOISE: f64 = 0.01;
/// Bars of a comparison at detail `sched`, and their deviation as a share of the time per request.
const BARS: usize = 15;
const BAR_NOISE: f64 = 0.015;

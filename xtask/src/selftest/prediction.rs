//! Predictions against measurements: the throughput that `--without CAUSE` says, beside that of the same
//! server without the cause.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use recording::{Probes, Recording, Round, RoundRole};

use super::injection::{self, Case, Expected};
use super::judge::{Outcome, interval, refused_instead};

/// What one comparison says about a prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Removal {
    /// Time per request with the cause, ns.
    pub(super) with_ns: f64,
    /// Logarithm of the throughput without the cause, as a ratio to that with it: the mean over the
    /// pairs of rounds and its 95 % interval.
    pub(super) measured: (f64, f64, f64),
    /// The same as it is predicted.
    pub(super) predicted: f64,
}

/// Causes that are taken out for real, each in another style.
pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, styles, options, without| Case {
        styles,
        options,
        ..Case::new(name, [&[], &[]], Expected::Predicted { without })
    };
    vec![
        case(
            "memory without reads until EAGAIN",
            ["memory", "memory,read=eagain"],
            &["--without", EAGAIN],
            EAGAIN,
        ),
        // The file is read before the first request.
        case(
            "pread without reading the file",
            ["memory", "pread"],
            &["--without", READ_FILE],
            READ_FILE,
        ),
    ]
}

/// One of each cause.
pub(super) fn one_of_each() -> Vec<Case> {
    let opened = injection::predictions()
        .into_iter()
        .find(|case| case.styles[1] == "sendfile");
    cases().into_iter().chain(opened).collect()
}

/// Judges a comparison whose first arm is the second one without the cause: the interval of what is
/// measured has to reach to within 5 % of what is predicted.
pub(super) fn judge(recording: &Recording, without: &str) -> Outcome {
    let Some(removal) = removal(recording, without) else {
        return Outcome {
            seen: Some("nothing was predicted".to_owned()),
            ..refused_instead(recording)
        };
    };
    let (low, high) = removal.error_interval();
    let (measured, predicted) = (removal.measured.0.exp(), removal.predicted.exp());
    Outcome {
        accepted: low <= MAX_ERROR && high >= -MAX_ERROR,
        seen: Some(format!(
            "{measured:.3} times as fast without it, {predicted:.3} predicted, {:+.1} % [{:+.1}, {:+.1}]",
            removal.error() * 100.0,
            low * 100.0,
            high * 100.0
        )),
        removal: Some(removal),
        ..Outcome::default()
    }
}

/// What is wrong with the predictions of a case. Single comparisons may be disturbed; from three on
/// the median is not, and then it has to be within 5 %.
pub(super) fn fault(removals: &[Removal]) -> Option<String> {
    let error = median(removals.iter().map(Removal::error))?;
    (removals.len() >= TELLING_RUNS && error.abs() > MAX_ERROR)
        .then(|| format!("measured {:+.1} % beside the prediction", error * 100.0))
}

/// The head of the table of predictions.
pub(super) const HEAD: &str = "| cause taken out | us per request with it | measured without it | 95 % | predicted | error | runs accepted | from | |\n\
     |---|---:|---:|---:|---:|---:|---:|---:|---|";

/// The cells of a case between its name and its runs: medians over the comparisons.
pub(super) fn cells(removals: &[Removal]) -> String {
    let of = |figure: fn(&Removal) -> f64| median(removals.iter().map(figure));
    let mut text = String::new();
    let times = |log: Option<f64>| log.map_or("-".to_owned(), |log| format!("{:.3}", log.exp()));
    let us = of(|removal| removal.with_ns).map_or("-".to_owned(), |ns| format!("{:.2}", ns / 1e3));
    let (low, high) = (
        of(|removal| removal.measured.1),
        of(|removal| removal.measured.2),
    );
    let error = of(Removal::error).map_or("-".to_owned(), |e| format!("{:+.1} %", e * 100.0));
    write!(
        text,
        "{us} | × {} | {} to {} | × {} | {error}",
        times(of(|removal| removal.measured.0)),
        times(low),
        times(high),
        times(of(|removal| removal.predicted)),
    )
    .expect("writing to memory does not fail");
    text
}

impl Removal {
    /// By how much more is measured than predicted, as a share.
    fn error(&self) -> f64 {
        (self.measured.0 - self.predicted).exp_m1()
    }

    fn error_interval(&self) -> (f64, f64) {
        let beside = |log: f64| (log - self.predicted).exp_m1();
        (beside(self.measured.1), beside(self.measured.2))
    }
}

fn removal(recording: &Recording, without: &str) -> Option<Removal> {
    let [a, b] = [0, 1].map(|arm| recording.arms.get(arm).map(|arm| arm.name.as_str()));
    let (a, b) = a.zip(b)?;
    let prediction = recording
        .predictions
        .iter()
        .find(|prediction| prediction.without == without && prediction.arm == b)?;
    let [a, b] = [a, b].map(|arm| by_pair(recording, arm));
    let ratios: Vec<f64> = a
        .iter()
        .filter_map(|(pair, without_it)| Some((without_it / b.get(pair)?).ln()))
        .collect();
    let (low, high) = interval(&ratios)?;
    Some(Removal {
        with_ns: 1e9 / prediction.throughput_rps,
        measured: (f64::midpoint(low, high), low, high),
        predicted: (prediction.predicted_rps / prediction.throughput_rps).ln(),
    })
}

/// Throughput of the undisturbed rounds of an arm without probes, requests per second.
fn by_pair(recording: &Recording, arm: &str) -> BTreeMap<u32, f64> {
    let good = |round: &&Round| {
        round.arm == arm
            && round.role == RoundRole::Main
            && round.probes == Probes::Off
            && round.failed.is_none()
            && round.excluded.is_none()
    };
    let rounds = recording.rounds.iter().filter(good);
    rounds
        .filter_map(|round| {
            let load = round.load.as_ref()?;
            let seconds = load.window.seconds();
            let rps = load.ledger.ok as f64 / seconds;
            (seconds > 0.0 && rps > 0.0).then_some((round.pair, rps))
        })
        .collect()
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    Some(f64::midpoint(values[(values.len() - 1) / 2], upper))
}

/// The finding about reads that end in EAGAIN, and the part of CPU time that reads of files are.
const EAGAIN: &str = "reads-ending-in-eagain";
const READ_FILE: &str = "read_file";
/// Of the throughput that is predicted.
const MAX_ERROR: f64 = 0.05;
/// Of fewer comparisons one that was disturbed decides the median.
const TELLING_RUNS: usize = 3;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn removal(measured: f64, reach: f64, predicted: f64) -> Removal {
        let log = measured.ln();
        Removal {
            with_ns: 12_340.0,
            measured: (log, log - reach, log + reach),
            predicted: predicted.ln(),
        }
    }

    /// Errors are relative to the prediction, and intervals move with them.
    #[test]
    fn errors_are_relative_to_the_prediction() {
        let found = removal(1.26, 0.01, 1.2);
        assert!((found.error() - 0.05).abs() < 1e-12);
        let (low, high) = found.error_interval();
        assert!((low - (1.05 * (-0.01_f64).exp() - 1.0)).abs() < 1e-12);
        assert!((high - (1.05 * 0.01_f64.exp() - 1.0)).abs() < 1e-12);
    }

    /// From three comparisons on the median has to be within 5 %, of which one may be disturbed.
    #[test]
    fn the_median_has_to_be_near() {
        let (good, far) = (removal(1.21, 0.1, 1.2), removal(1.4, 0.1, 1.2));
        assert_eq!(fault(&[]), None);
        assert_eq!(fault(&[far, far]), None);
        assert_eq!(fault(&[far, good, good]), None);
        let said = fault(&[far, far, good]);
        assert_eq!(
            said.as_deref(),
            Some("measured +16.7 % beside the prediction")
        );
    }

    /// The cells of the table.
    #[test]
    fn cells_have_medians() {
        let three = [1.2, 1.3, 1.25].map(|measured| removal(measured, 0.008, 1.26));
        assert_eq!(
            cells(&three),
            "12.34 | × 1.250 | 1.240 to 1.260 | × 1.260 | -0.8 %"
        );
        assert_eq!(cells(&[]), "- | × - | - to - | × - | -");
    }

    /// Three causes in three styles.
    #[test]
    fn there_are_three_causes_and_styles() {
        let all = one_of_each();
        let cause = |case: &Case| match case.expected {
            Expected::Predicted { without } => Some(without),
            _ => None,
        };
        let causes: BTreeSet<&str> = all.iter().filter_map(cause).collect();
        let styles: BTreeSet<&str> = all.iter().map(|case| case.styles[1]).collect();
        assert_eq!((all.len(), causes.len(), styles.len()), (3, 3, 3));
    }
}

//! What injections cost by themselves: the times that both servers took of them in the windows that
//! the comparison measured without probes. Pure.

use anyhow::{Context as _, Result};
use recording::{Probes, Recording, RoundRole, Window};

use super::injection::Injection;

/// What the injections of a server took over some milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slice {
    start_ns: u64,
    requests: f64,
    /// Mean time per request by knob, ns.
    means: Vec<(String, f64)>,
}

/// Reads what a server printed at its end.
pub(super) fn slices(printed: &str) -> Result<Vec<Slice>> {
    let lines = printed
        .lines()
        .filter_map(|line| line.strip_prefix("injected "));
    lines
        .map(|line| {
            slice(line).with_context(|| format!("the server says what cannot be read: {line:?}"))
        })
        .collect()
}

fn slice(line: &str) -> Option<Slice> {
    let mut words = line.split(' ');
    let (start_ns, requests) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let mean = |word: &str| {
        let (knob, ns) = word.split_once('=')?;
        Some((knob.to_owned(), ns.parse().ok()?))
    };
    Some(Slice {
        start_ns,
        requests,
        means: words.map(mean).collect::<Option<_>>()?,
    })
}

/// What each injection adds to a request of the second server, pair by pair, ns; `None` where a round
/// without probes has no slice.
pub(super) fn costs(
    recording: &Recording,
    slices: &[Vec<Slice>; 2],
    injections: &[Injection],
) -> Option<Vec<Vec<f64>>> {
    let windows = [windows(recording, 0)?, windows(recording, 1)?];
    let costs = injections.iter().map(|injection| {
        let knob = injection.knob.split('=').next()?;
        let in_arm = |arm: usize| -> Option<Vec<f64>> {
            let windows = windows[arm].iter();
            windows
                .map(|window| mean_in(&slices[arm], *window, knob))
                .collect()
        };
        let (a, b) = (in_arm(0)?, in_arm(1)?);
        Some(a.iter().zip(&b).map(|(a, b)| b - a).collect())
    });
    costs.collect()
}

/// Windows of the good rounds of an arm without probes, in the order of pairs.
fn windows(recording: &Recording, arm: usize) -> Option<Vec<Window>> {
    let name = &recording.arms.get(arm)?.name;
    let rounds = recording.rounds.iter().filter(|round| {
        round.arm == *name
            && round.probes == Probes::Off
            && round.role == RoundRole::Main
            && round.failed.is_none()
    });
    rounds.map(|round| round.window).collect()
}

/// The mean over the requests of the slices that begin in a window.
fn mean_in(slices: &[Slice], window: Window, knob: &str) -> Option<f64> {
    let (mut requests, mut sum) = (0.0, 0.0);
    let inside = |slice: &&Slice| (window.start_ns..window.end_ns).contains(&slice.start_ns);
    for slice in slices.iter().filter(inside) {
        let (_, ns) = slice.means.iter().find(|(name, _)| name == knob)?;
        requests += slice.requests;
        sum += ns * slice.requests;
    }
    (requests > 0.0).then(|| sum / requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server prints, and the mean over the slices of a window by their requests.
    #[test]
    fn slices_of_a_window_are_averaged() {
        let printed = "injected 10 2 spin-us=1.0 open=5.0\ninjected 20 6 spin-us=1.0 open=9.0\n\
                       injected 30 1 spin-us=1.0 open=100.0\n";
        let slices = slices(printed).expect("lines of a server");
        let window = Window {
            start_ns: 5,
            end_ns: 30,
        };
        assert_eq!(mean_in(&slices, window, "open"), Some(8.0));
        assert_eq!(mean_in(&slices, window, "getppid"), None);
        let later = Window {
            start_ns: 31,
            end_ns: 40,
        };
        assert_eq!(mean_in(&slices, later, "open"), None);
        assert!(super::slices("injected 10 x\n").is_err());
    }
}

//! Targets that end and come back: how long they were away.

use std::time::Duration;

use recording::Warning;

use super::{Session, clock_ns};

/// When which target had no process.
#[derive(Debug, Default)]
pub(super) struct Absences {
    /// Since when it has none, by its place in the configuration, ns.
    away_since_ns: Vec<Option<u64>>,
    /// The first ones of the window, in the order of their ends.
    over: Vec<Absence>,
    /// Those beyond.
    more: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Absence {
    target: usize,
    from_ns: u64,
    /// `None` while it lasts.
    to_ns: Option<u64>,
}

impl Absences {
    /// A window begins: what was before is not part of it.
    pub(super) fn begin_window(&mut self) {
        self.over.clear();
        self.more = 0;
    }

    /// Notes which targets have a process at this moment.
    fn note(&mut self, there: &[bool], at_ns: u64) {
        self.away_since_ns.resize(there.len(), None);
        for (target, (since_ns, &is_there)) in self.away_since_ns.iter_mut().zip(there).enumerate()
        {
            if !is_there {
                since_ns.get_or_insert(at_ns);
            } else if let Some(from_ns) = since_ns.take() {
                if self.over.len() < TOLD_ONE_BY_ONE {
                    self.over.push(Absence {
                        target,
                        from_ns,
                        to_ns: Some(at_ns),
                    });
                } else {
                    self.more += 1;
                }
            }
        }
    }

    /// Since when no target has a process, ns; `None` where one has.
    fn all_away_since_ns(&self) -> Option<u64> {
        let away = self.away_since_ns.iter().copied();
        away.reduce(|a, b| Some(a?.max(b?))).flatten()
    }

    /// What the reader has to know, with times since the start of the window.
    fn warnings(&self, labels: &[String], start_ns: u64) -> Vec<Warning> {
        let lasting = self.away_since_ns.iter().enumerate();
        let lasting = lasting.filter_map(|(target, since_ns)| {
            Some(Absence {
                target,
                from_ns: (*since_ns)?,
                to_ns: None,
            })
        });
        let told = self.over.iter().copied().chain(lasting);
        let mut warnings: Vec<Warning> = told
            .map(|absence| absence.warning(labels, start_ns))
            .collect();
        if self.more > 0 {
            warnings.push(Warning {
                code: TARGET_WAS_AWAY.into(),
                text: format!(
                    "targets ended and came back {} more times, which are not told one by one",
                    self.more
                ),
            });
        }
        warnings
    }
}

impl Absence {
    fn warning(self, labels: &[String], start_ns: u64) -> Warning {
        let label = labels.get(self.target).map_or("the target", String::as_str);
        let seconds = |ns: u64| ns.saturating_sub(start_ns) as f64 / 1e9;
        let from_s = seconds(self.from_ns);
        let text = match self.to_ns {
            Some(to_ns) => format!(
                "{label} had no process from {from_s:.1} s to {:.1} s of the window: it ended and came \
                 back; what its new processes did before they were found, at most a moment, is not \
                 counted, and listening sockets and counters of the hardware are those of its first \
                 processes",
                seconds(to_ns)
            ),
            None => format!(
                "{label} had no process from {from_s:.1} s of the window to its end: it did not come back"
            ),
        };
        Warning {
            code: TARGET_WAS_AWAY.into(),
            text,
        }
    }
}

impl Session {
    /// Whether every process of the target has ended, and none comes back within the time that it is
    /// [given](crate::Config::return_within); a name or a control group can gain others.
    pub fn target_ended(&mut self) -> bool {
        self.take_events();
        self.note_returns();
        if !self.tracked.alive().is_empty() {
            return false;
        }
        if let Some(within) = self.config.return_within {
            let away_ns = self.absences.all_away_since_ns();
            let away_ns = away_ns.map_or(0, |since_ns| clock_ns().saturating_sub(since_ns));
            return Duration::from_nanos(away_ns) >= within;
        }
        self.rescan_open_ended();
        self.tracked.alive().is_empty()
    }

    /// Whether a target that can come back is awaited and none of its processes is there.
    pub(super) fn is_awaited(&self, target: usize) -> bool {
        self.config.return_within.is_some() && !self.tracked.has(target)
    }

    /// Looks which targets are there, where it matters.
    pub(super) fn note_returns(&mut self) {
        if self.config.return_within.is_some() {
            let there: Vec<bool> = (0..self.config.targets.len())
                .map(|target| self.tracked.has(target))
                .collect();
            self.absences.note(&there, clock_ns());
        }
    }

    /// What the reader has to know of the processes of the window.
    pub(super) fn about_processes(&self, start_ns: u64) -> Vec<Warning> {
        let mut warnings = self
            .absences
            .warnings(self.tracked.target_labels(), start_ns);
        let unlisted = self.tracked.unlisted();
        if unlisted > 0 {
            warnings.push(Warning {
                code: "processes_not_listed".into(),
                text: format!(
                    "{unlisted} more processes of the target ended than are listed: a window without an \
                     end lists only the latest of them; what they did is counted"
                ),
            });
        }
        warnings
    }
}

/// Absences that have a warning each: a unit that fails in a loop would have one every second.
const TOLD_ONE_BY_ONE: usize = 16;
const TARGET_WAS_AWAY: &str = "target_was_away";

#[cfg(test)]
mod tests {
    use super::*;

    /// A target that is away and comes back is told with the times of both, one that stays away too;
    /// while another one is there, not all are away.
    #[test]
    fn absences_are_told() {
        let labels = ["unit a".to_owned(), "port 80".to_owned()];
        let mut absences = Absences::default();
        absences.begin_window();
        absences.note(&[true, true], 1_000_000_000);
        assert_eq!(absences.all_away_since_ns(), None);
        absences.note(&[false, true], 2_000_000_000);
        assert_eq!(absences.all_away_since_ns(), None);
        absences.note(&[false, false], 3_000_000_000);
        assert_eq!(absences.all_away_since_ns(), Some(3_000_000_000));
        absences.note(&[true, false], 3_500_000_000);
        let warnings = absences.warnings(&labels, 1_000_000_000);
        let texts: Vec<&str> = warnings.iter().map(|told| told.text.as_str()).collect();
        assert!(texts[0].starts_with("unit a had no process from 1.0 s to 2.5 s of the window"));
        assert!(texts[1].starts_with("port 80 had no process from 2.0 s of the window to its end"));
        assert_eq!(texts.len(), 2);
    }

    /// A target that fails in a loop grows the list only so far; the rest is a number.
    #[test]
    fn many_absences_are_counted() {
        let mut absences = Absences::default();
        for at_ns in 0..1_000 {
            absences.note(&[at_ns % 2 == 0], at_ns);
        }
        let warnings = absences.warnings(&["comm x".to_owned()], 0);
        // Away at every odd time, and back at the next: 499 times, and once to the end.
        assert_eq!(warnings.len(), TOLD_ONE_BY_ONE + 2);
        let last = &warnings.last().unwrap().text;
        assert!(
            last.contains(&format!("{} more times", 499 - TOLD_ONE_BY_ONE)),
            "{last}"
        );
    }
}

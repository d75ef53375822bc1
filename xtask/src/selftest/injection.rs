//! The costs that the built-in server can be given, and what has to be found of each.

use recording::ArmLimit;

/// One known cost, whose time the server measures by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Injection {
    /// The knob of the built-in server.
    pub(super) knob: &'static str,
    /// The same knob of the server without the cost, where that has some of it already.
    pub(super) before: Option<&'static str>,
    /// The bars of calls that it belongs to, by the first part of their identifiers.
    pub(super) groups: &'static [&'static str],
    /// Calls per request that it adds.
    pub(super) calls: f64,
    /// Whether it is time in user code.
    pub(super) user: bool,
    /// The bars that its sleep belongs to, the first one above all.
    pub(super) idle: &'static [&'static str],
}

pub(super) const SPIN: Injection = Injection {
    knob: "spin-us=10",
    before: None,
    groups: &[],
    calls: 0.0,
    user: true,
    idle: &[],
};

pub(super) const GETPPID: Injection = Injection {
    knob: "getppid=10",
    before: None,
    groups: &["other"],
    calls: 10.0,
    user: false,
    idle: &[],
};

pub(super) const OPEN: Injection = Injection {
    knob: "open=1",
    before: None,
    groups: &["open", "stat", "close_file"],
    calls: 3.0,
    user: false,
    idle: &[],
};

pub(super) const SLEEP: Injection = Injection {
    knob: "sleep-us=120",
    // Beside a server that sleeps the client waits for every single response, and to wake it up is
    // work of the kernel at the server's side: so it does beside the other one.
    before: Some("sleep-us=20"),
    // The kernel charges a thread from its wake-up on.
    groups: &["sleep", "switches"],
    calls: 0.0,
    user: false,
    // While the thread sleeps, the CPU may do something else, and after it has been woken up it waits
    // for the CPU to come back.
    idle: &[
        "idle.blocked",
        "idle.interrupts",
        "idle.none_asleep",
        "idle.other_tasks",
        "idle.runnable_elsewhere",
        "idle.unlabelled",
    ],
};

/// A response in four writes rather than one; what that costs is not known, how many calls it adds
/// is.
pub(super) const SPLIT: &str = "split=4";
const SPLIT_CALLS: Calls = Calls {
    group: "send",
    // The head in four pieces, and the file.
    per_request: 5.0,
    added: 3.0,
};

/// Calls per request of the second arm in one group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Calls {
    pub(super) group: &'static str,
    pub(super) per_request: f64,
    /// Of them, those that the first arm does not make.
    pub(super) added: f64,
}

/// One comparison that is made again and again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) name: String,
    /// How the arms serve, but for their knobs.
    pub(super) styles: [&'static str; 2],
    /// Knobs of both arms on top of the base.
    pub(super) knobs: [Vec<&'static str>; 2],
    /// Options of `compare` on top.
    pub(super) options: &'static [&'static str],
    /// Share of one CPU that a control group allows the second arm.
    pub(super) quota: Option<f64>,
    pub(super) expected: Expected,
}

/// What has to be seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expected {
    /// The bars of each injection cover its cost, and the calls are as many as they are.
    Attributed {
        injections: Vec<Injection>,
        calls: Option<Calls>,
    },
    /// The second arm is limited by one of these.
    Limited(&'static [ArmLimit]),
    /// One of these gates refuses, and nothing is attributed.
    Refused(&'static [&'static str]),
    /// The first arm is the second one without this cause: what is predicted for the second is what
    /// the first one reaches.
    Predicted { without: &'static str },
}

impl Case {
    /// What is injected into the second arm and has to be found.
    pub(super) fn injections(&self) -> &[Injection] {
        match &self.expected {
            Expected::Attributed { injections, .. } => injections,
            _ => &[],
        }
    }

    /// The spec of the server of an arm: the base, its knobs replaced by those of the arm.
    pub(super) fn spec(&self, arm: usize) -> String {
        let knobs = &self.knobs[arm];
        let name = |knob: &str| knob.split('=').next().map(str::to_owned);
        let kept = BASE_KNOBS
            .iter()
            .filter(|base| knobs.iter().all(|knob| name(knob) != name(base)));
        let all: Vec<&str> = std::iter::once(&self.styles[arm])
            .chain(kept)
            .chain(knobs)
            .copied()
            .collect();
        all.join(",")
    }

    /// A comparison of two servers of the base style.
    pub(super) fn new(name: &str, knobs: [&[&'static str]; 2], expected: Expected) -> Self {
        Self {
            name: name.to_owned(),
            styles: [BASE_STYLE; 2],
            knobs: knobs.map(<[_]>::to_vec),
            options: &[],
            quota: None,
            expected,
        }
    }
}

/// The four of the short form, which cover user code, cheap calls, calls with files, and sleep.
pub(super) fn singles() -> Vec<Case> {
    [SPIN, GETPPID, OPEN, SLEEP]
        .into_iter()
        .map(|injection| attributed(&[injection], None))
        .collect()
}

/// Those whose size is no time, which only the long form runs.
pub(super) fn changes() -> Vec<Case> {
    let calls = |group, per_request| Expected::Attributed {
        injections: Vec::new(),
        calls: Some(Calls {
            group,
            per_request,
            added: 0.0,
        }),
    };
    let lock: [&[&str]; 2] = [&["workers=4"], &["workers=4", "lock-us=50"]];
    vec![
        attributed(&[], Some(SPLIT_CALLS)),
        Case::new("max-events=1", [&[], &["max-events=1"]], calls("poll", 1.0)),
        Case::new(
            "lock-us=50, 4 workers",
            lock,
            Expected::Limited(&[ArmLimit::Blocked, ArmLimit::Lock]),
        ),
        Case {
            quota: Some(0.5),
            ..Case::new(
                "quota of half a CPU",
                [&[], &[]],
                Expected::Limited(&[ArmLimit::Throttled]),
            )
        },
        Case {
            options: &["--connections", "1"],
            ..Case::new(
                "one connection",
                [&[], &[]],
                Expected::Limited(&[ArmLimit::Client]),
            )
        },
        Case::new("gzip=1", [&[], &["gzip=1"]], Expected::Refused(&["G1"])),
        // The parity check sees one of a hundred requests fail, or the rounds do.
        Case::new(
            "error-every=500",
            [&[], &["error-every=500"]],
            Expected::Refused(&["G1", "G5"]),
        ),
    ]
}

/// Two at once: both have to be found, each in its own bars.
pub(super) fn pairs() -> Vec<Case> {
    let both = [
        [SPIN, GETPPID],
        [SPIN, OPEN],
        [SPIN, SLEEP],
        [GETPPID, OPEN],
        [GETPPID, SLEEP],
        [OPEN, SLEEP],
    ];
    let with_split = [SPIN, GETPPID, OPEN, SLEEP];
    both.iter()
        .map(|pair| attributed(pair, None))
        .chain(with_split.map(|injection| attributed(&[injection], Some(SPLIT_CALLS))))
        .collect()
}

/// A cause that is taken out for real, in three styles: a file that is opened for each request. The
/// last one is a style of its own, which reads a file that it keeps open once that is taken out.
pub(super) fn predictions() -> Vec<Case> {
    let without = |styles: [&'static str; 2], knobs: [&[&'static str]; 2]| Case {
        styles,
        options: &["--without", OPENED],
        ..Case::new(
            &format!("{} without opening files", styles[1]),
            knobs,
            Expected::Predicted { without: OPENED },
        )
    };
    let same_loop: &[&str] = &["poller=epoll", "read=short"];
    vec![
        without(["memory"; 2], [&[], &["open=1"]]),
        without(["sendfile"; 2], [&[], &["open=1"]]),
        without(["pread", "open-read"], [same_loop; 2]),
    ]
}

fn attributed(injections: &[Injection], calls: Option<Calls>) -> Case {
    let mut knobs: Vec<&str> = injections.iter().map(|injection| injection.knob).collect();
    if calls.is_some() {
        knobs.push(SPLIT);
    }
    let expected = Expected::Attributed {
        injections: injections.to_vec(),
        calls,
    };
    let before: Vec<&str> = injections
        .iter()
        .filter_map(|injection| injection.before)
        .collect();
    Case::new(&knobs.join(" and "), [&before, &knobs], expected)
}

/// The server that costs are added to: so slow that its CPU, not the client, is the limit, and with
/// calls of several kinds, so that there is something to leak into.
const BASE_STYLE: &str = "sendfile";
const BASE_KNOBS: [&str; 1] = ["spin-us=5"];

/// The finding about files that are opened for each request, whose cost is that of the calls.
const OPENED: &str = "file-opened-per-request";

#[cfg(test)]
mod tests {
    use super::*;

    /// Knobs are added to the base, and one that the base has is replaced.
    #[test]
    fn specs_are_made_of_the_base() {
        let knobs: [&[&'static str]; 2] = [&["getppid=10"], &["spin-us=10", "open=1"]];
        let case = Case::new("", knobs, Expected::Limited(&[]));
        assert_eq!(case.spec(0), "sendfile,spin-us=5,getppid=10");
        assert_eq!(case.spec(1), "sendfile,spin-us=10,open=1");
        assert_eq!(attributed(&[SPIN], None).spec(0), "sendfile,spin-us=5");
        let sleeps = attributed(&[SLEEP], None);
        assert_eq!(sleeps.spec(0), "sendfile,spin-us=5,sleep-us=20");
        assert_eq!(sleeps.spec(1), "sendfile,spin-us=5,sleep-us=120");
    }

    /// There are ten pairs, each another one.
    #[test]
    fn there_are_ten_pairs() {
        let mut names: Vec<String> = pairs().into_iter().map(|case| case.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 10);
    }
}

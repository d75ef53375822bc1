//! Rounds that are left out by the rule that looks at the machine alone.

use recording::{Probes, Recording};

use crate::fixture::{comparison, h2o, nginx, work_of_others};

/// A recording whose rounds had this share of other work, by order.
fn with_foreign(share: impl Fn(u32) -> f64) -> Recording {
    let mut recording = comparison(&[nginx(), h2o()], 4);
    work_of_others(&mut recording, |round| share(round.order) + TICK_SHARE);
    recording
}

/// A clock tick of 10 ms in 2 s is within the resolution.
const TICK_SHARE: f64 = 0.005;

/// A disturbed round is left out with its pair, stays in the recording, and says why; a second look
/// changes nothing.
#[test]
fn disturbed_rounds_are_left_out() {
    let mut recording = with_foreign(|order| if order == 1 { 0.08 } else { 0.01 });
    reports::leave_out_disturbed(&mut recording);
    let left_out: Vec<u32> = recording
        .rounds
        .iter()
        .filter(|round| round.excluded.is_some())
        .map(|round| round.order)
        .collect();
    assert_eq!(left_out, [1]);
    let why = recording.rounds[1].excluded.clone().unwrap();
    assert_eq!(
        why,
        "disturbed: others had 8% of the server's CPUs, limit 5%"
    );
    let pairs = |recording: &mut Recording| {
        reports::analyse(recording);
        let rows = recording.comparisons.iter();
        let mut throughput = rows.filter(|row| row.metric == "throughput_rps");
        throughput.next().unwrap().pairs
    };
    let mut whole_run = with_foreign(|_| 0.01);
    assert_eq!(pairs(&mut recording) + 1, pairs(&mut whole_run));
    let once = recording.clone();
    reports::leave_out_disturbed(&mut recording);
    assert_eq!(recording, once);
}

/// Where others are always there, and where client and servers share CPUs, nothing is left out; what a
/// reader left out by hand stays.
#[test]
fn the_usual_is_no_disturbance() {
    let mut loud = with_foreign(|_| 0.3);
    loud.rounds[0].excluded = Some("by hand".to_owned());
    reports::leave_out_disturbed(&mut loud);
    let mut shared = with_foreign(|order| if order == 1 { 0.3 } else { 0.0 });
    let scenario = shared.scenario.as_mut().unwrap();
    scenario.client_cpus.clone_from(&scenario.server_cpus);
    reports::leave_out_disturbed(&mut shared);
    for recording in [&loud, &shared] {
        assert!(recording.rounds[1..].iter().all(|r| r.excluded.is_none()));
    }
    assert_eq!(loud.rounds[0].excluded.as_deref(), Some("by hand"));
}

/// Rounds with probes are judged like those without.
#[test]
fn rounds_with_probes_are_judged() {
    let probed = comparison(&[nginx(), h2o()], 4);
    let probed = probed.rounds.iter().position(|r| r.probes == Probes::On);
    let order = u32::try_from(probed.unwrap()).unwrap();
    let mut recording = with_foreign(|at| if at == order { 0.2 } else { 0.0 });
    reports::leave_out_disturbed(&mut recording);
    assert!(recording.rounds[probed.unwrap()].excluded.is_some());
}

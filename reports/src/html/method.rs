//! How it was measured, what that cannot show, and what was not measured at all.

use maud::{Markup, html};
use recording::Recording;

use super::element;
use crate::figures::percent;
use crate::join::ArmFigures;
use crate::verdict::{LEVEL, PAIRS_FOR_A_CLAIM};
use crate::view::{self, Line, compare as view_of};

/// Method and limits.
pub(super) fn method(recording: &Recording, figures: &[ArmFigures]) -> Markup {
    let mut lines: Vec<Line> = view_of::probes(recording, figures).into_iter().collect();
    lines.extend(view_of::unused_rounds(recording));
    lines.extend(view_of::headers(recording));
    lines.extend(view::warnings(recording));
    let derived = view_of::derived_not_measured(recording, figures);
    lines.extend(view::not_measured(recording, &derived));
    html! {
        (element::lines(&lines))
        h3 { "How it was measured" }
        ul {
            li { "A round is one start of a server and one measured window after a warm-up. Rounds come in pairs, one of \
                  each arm next to each other, their order turned from pair to pair. Rounds without probes give \
                  throughput, latency and CPU time; rounds with probes in the kernel explain them." }
            li { "Ratio: d = ln(a/b) of each pair; the ratio is exp(mean d), its " (percent(LEVEL)) " interval \
                  exp(mean d ± t·s/√n) with n - 1 degrees of freedom. The round is the unit: windows inside one share \
                  its start, and are no replicates." }
            li { "Verdict: faster when the interval lies outside of 1/(1+δ) to 1+δ, equivalent when inside, immaterial \
                  when it excludes 1 but touches the margin δ, else inconclusive. A gate that refuses leaves no verdict. \
                  With fewer than " (PAIRS_FOR_A_CLAIM) " pairs, or without an A/A control, it is indicative." }
            li { "Why: X = m·U/D, throughput is CPUs times utilisation by CPU time per request. The difference of 1/X is \
                  split over the terms of D (number of calls and cost of one, each at the mean of the other) and of U; \
                  the bars add up to it by construction, and what no probe saw is a bar of its own." }
        }
        h3 { "What it cannot show" }
        ul {
            li { "One machine, one load, these configurations: another load can turn the result." }
            li { "Client and server on one machine share its caches and its memory, and a loopback has no network." }
            li { "Probes cost time: what they cost is measured and taken out, what they change otherwise is a bar." }
            li { "That two servers differ in a call does not prove that the call causes the difference; the waterfall says \
                  how much it can account for." }
        }
    }
}

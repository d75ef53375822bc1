//! A load as httperf prints it (0.9.0).

use std::fmt::Write as _;

use recording::{FailureClass, LatencyHistogram, Load, Recording, Spread, Window};

use super::{Summary, failures, histogram, measures, responses, sent_bytes, statuses};
use crate::clean;
use crate::layout::WRITES;
use crate::view::load as view;

/// A load in the layout and by the definitions of httperf; empty where nothing was measured.
///
/// The first line names the command of whyfast, since there is none of httperf.
pub fn httperf(recording: &Recording) -> String {
    let Some(load) = view::load(recording) else {
        return String::new();
    };
    let command: Vec<String> = recording.command.iter().map(|word| clean(word)).collect();
    let mut text = format!(
        "{}\nMaximum connect burst length: {}\n\n",
        command.join(" "),
        load.plan.connections
    );
    let run = Run::of(load);
    run.connections(&mut text, load);
    run.requests(&mut text, load);
    run.replies(&mut text, load);
    run.resources(&mut text, load);
    errors(&mut text, load);
    text
}

/// The figures that several lines share.
struct Run {
    seconds: f64,
    connections: u64,
    requests: u64,
    replies: u64,
}

impl Run {
    fn of(load: &Load) -> Self {
        let counts = &load.connections;
        let refused = load
            .ledger
            .failed
            .iter()
            .filter(|failure| failure.phase == "connect");
        Self {
            seconds: load.window.seconds(),
            connections: counts.open_at_start
                + counts.established
                + refused.map(|failure| failure.count).sum::<u64>(),
            requests: load.ledger.sent,
            replies: responses(load) + load.interim_responses,
        }
    }

    fn connections(&self, text: &mut String, load: &Load) {
        let Self {
            seconds,
            connections,
            requests,
            replies,
        } = *self;
        let phases = measures(load).map(|measures| &measures.phases);
        let life = phases.and_then(|phases| phases.connection_life.as_ref());
        let connect = phases
            .and_then(|phases| phases.connect.as_ref())
            .or(load.connect_time.as_ref());
        let lives = Summary::of(life);
        let ms = |ns: f64| ns / 1e6;
        write!(
            text,
            "Total: connections {connections} requests {requests} replies {replies} \
             test-duration {seconds:.3} s\n\n\
             Connection rate: {:.1} conn/s ({:.1} ms/conn, <={} concurrent connections)\n\
             Connection time [ms]: min {:.1} avg {:.1} max {:.1} median {:.1} stddev {:.1}\n\
             Connection time [ms]: connect {:.1}\n\
             Connection length [replies/conn]: {:.3}\n\n",
            per(connections as f64, seconds),
            per(seconds * 1e3, connections as f64),
            load.plan.connections,
            ms(lives.min),
            ms(lives.mean),
            ms(lives.max),
            median_ms(life),
            ms(lives.sd),
            ms(Summary::of(connect).mean),
            per(replies as f64, lives.count as f64),
        )
        .expect(WRITES);
    }

    fn requests(&self, text: &mut String, load: &Load) {
        let Self {
            seconds, requests, ..
        } = *self;
        let size = sent_bytes(load).checked_div(requests).unwrap_or(0);
        write!(
            text,
            "Request rate: {:.1} req/s ({:.1} ms/req)\nRequest size [B]: {size}.0\n\n",
            per(requests as f64, seconds),
            per(seconds * 1e3, requests as f64)
        )
        .expect(WRITES);
    }

    fn replies(&self, text: &mut String, load: &Load) {
        let rates = reply_rates(load);
        let spread = Spread::of(&rates).unwrap_or(NO_SAMPLES);
        let phases = measures(load).map(|measures| &measures.phases);
        let mean_ms = |stored: Option<&LatencyHistogram>| Summary::of(stored).mean / 1e6;
        let each = |bytes: u64| bytes.checked_div(self.replies).unwrap_or(0);
        let header = each(load.traffic.head_bytes);
        let content = each(load.traffic.body_bytes);
        write!(
            text,
            "Reply rate [replies/s]: min {:.1} avg {:.1} max {:.1} stddev {:.1} ({} samples)\n\
             Reply time [ms]: response {:.1} transfer {:.1}\n\
             Reply size [B]: header {header}.0 content {content}.0 footer 0.0 (total {}.0)\n\
             Reply status: 1xx={} 2xx={} 3xx={} 4xx={} 5xx={}\n\n",
            spread.min,
            spread.mean,
            spread.max,
            spread.sd,
            rates.len(),
            mean_ms(phases.and_then(|phases| phases.first_byte.as_ref())),
            mean_ms(phases.and_then(|phases| phases.receive.as_ref())),
            header + content,
            load.interim_responses,
            statuses(load, 200..300),
            statuses(load, 300..400),
            statuses(load, 400..500),
            statuses(load, 500..600),
        )
        .expect(WRITES);
    }

    fn resources(&self, text: &mut String, load: &Load) {
        let cpu = &load.client_cpu;
        let (user, system) = (cpu.user_ns as f64 / 1e9, cpu.system_ns as f64 / 1e9);
        let share = |time: f64| 100.0 * per(time, self.seconds);
        let traffic = &load.traffic;
        let bytes = (sent_bytes(load) + traffic.head_bytes + traffic.body_bytes) as f64;
        let rate = per(bytes, self.seconds);
        write!(
            text,
            "CPU time [s]: user {user:.2} system {system:.2} \
             (user {:.1}% system {:.1}% total {:.1}%)\n\
             Net I/O: {:.1} KB/s ({:.1}*10^6 bps)\n\n",
            share(user),
            share(system),
            share(user + system),
            rate / 1024.0,
            8.0 * rate / 1e6
        )
        .expect(WRITES);
    }
}

fn errors(text: &mut String, load: &Load) {
    let of = |class| failures(load, &[class]);
    let timeout = of(FailureClass::Timeout);
    let refused = of(FailureClass::Refused);
    let reset = of(FailureClass::Reset) + of(FailureClass::Closed);
    let address = of(FailureClass::AddressUnavailable);
    // A complete reply is no error to httperf, whatever it says.
    let total =
        load.ledger.failed_total() - failures(load, &[FailureClass::Status, FailureClass::Content]);
    let other = total.saturating_sub(timeout + refused + reset + address);
    write!(
        text,
        "Errors: total {total} client-timo {timeout} socket-timo 0 connrefused {refused} \
         connreset {reset}\n\
         Errors: fd-unavail 0 addrunavail {address} ftab-full 0 other {other}\n"
    )
    .expect(WRITES);
}

/// Replies per second in each whole five seconds.
fn reply_rates(load: &Load) -> Vec<f64> {
    let Window { start_ns, end_ns } = load.window;
    let mut rates = Vec::new();
    let mut at_ns = start_ns;
    while at_ns + SAMPLE_NS <= end_ns {
        let sample = Window {
            start_ns: at_ns,
            end_ns: at_ns + SAMPLE_NS,
        };
        rates.push(load.timeline.completed_in(sample) / sample.seconds());
        at_ns += SAMPLE_NS;
    }
    rates
}

/// The middle of the millisecond that holds the median.
fn median_ms(life: Option<&LatencyHistogram>) -> f64 {
    histogram(life).map_or(0.0, |histogram| {
        (histogram.value_at_quantile(0.5) / 1_000_000) as f64 + 0.5
    })
}

/// A ratio; 0 where there is nothing to divide by.
fn per(value: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { value / divisor } else { 0.0 }
}

/// How often httperf takes the reply rate.
const SAMPLE_NS: u64 = 5_000_000_000;
const NO_SAMPLES: Spread = Spread {
    count: 0,
    min: 0.0,
    max: 0.0,
    mean: 0.0,
    sd: 0.0,
    within_sd: 0.0,
};

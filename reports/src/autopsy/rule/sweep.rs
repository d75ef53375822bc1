//! The same pair at several requests per connection: what belongs to the connection, and what to the
//! request.

use recording::StatementKind::{Follows, Suspicion};
use recording::{ExaminedServer, Statement};

use super::time;
use crate::autopsy::servers::by_condition;
use crate::autopsy::statement;

/// All rules over a pair.
pub(super) fn rules(a: &ExaminedServer, b: &ExaminedServer) -> Vec<Statement> {
    let (in_a, in_b) = (points(a), points(b));
    let both: Vec<(u64, f64)> = in_a
        .iter()
        .filter_map(|&(k, rate)| Some((k, rate / in_b.iter().find(|(other, _)| *other == k)?.1)))
        .collect();
    let (Some(first), Some(last)) = (both.first(), both.last()) else {
        return Vec::new();
    };
    if both.len() < 2 {
        return Vec::new();
    }
    let each: Vec<String> = both
        .iter()
        .map(|(k, ratio)| format!("{ratio:.3} at K={k}"))
        .collect();
    let falls = (last.1 - 1.0).abs() < (first.1 - 1.0).abs();
    let reading = if falls {
        ": the gap closes as a connection carries more requests, so it is in opening connections more than in \
         serving requests"
    } else {
        ": the gap does not close as a connection carries more requests"
    };
    let text = format!("{} over {}: {}{reading}", a.name, b.name, each.join(", "));
    let mut found = vec![statement("sweep", Follows, &[a, b], text)];
    found.extend([a, b].into_iter().filter_map(split));
    found
}

/// A line through the time that a connection's work takes a worker of the client: what remains at no
/// requests is the connection's.
fn split(server: &ExaminedServer) -> Option<Statement> {
    let workers = server.loads.iter().find_map(|load| load.connections)? as f64;
    let points: Vec<(f64, f64)> = points(server)
        .into_iter()
        .map(|(k, rate)| (k as f64, workers * k as f64 / rate))
        .collect();
    if points.len() < 3 {
        return None;
    }
    let n = points.len() as f64;
    let (mean_k, mean_s) = points.iter().fold((0.0, 0.0), |(k, s), point| {
        (k + point.0 / n, s + point.1 / n)
    });
    let slope = points
        .iter()
        .map(|(k, s)| (k - mean_k) * (s - mean_s))
        .sum::<f64>()
        / points
            .iter()
            .map(|(k, _)| (k - mean_k).powi(2))
            .sum::<f64>();
    let connection_s = mean_s - slope * mean_k;
    (slope > 0.0 && connection_s > 0.0).then(|| {
        let text = format!(
            "a straight line through {} points puts {} into opening a connection and {} into each request \
             (client included; fits, not proven)",
            points.len(),
            time(connection_s),
            time(slope)
        );
        statement("sweep-split", Suspicion, &[server], text)
    })
}

/// Requests per connection and the mean rate, ascending.
fn points(server: &ExaminedServer) -> Vec<(u64, f64)> {
    let conditions = by_condition(server);
    let mut points: Vec<(u64, f64)> = conditions
        .iter()
        .filter_map(|(condition, rates)| {
            let k = condition.requests_per_connection?;
            Some((k, rates.iter().sum::<f64>() / rates.len() as f64))
        })
        .collect();
    points.sort_by_key(|point| point.0);
    points
}

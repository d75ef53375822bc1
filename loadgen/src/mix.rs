//! Several requests in one load, each with a weight.

use std::ops::RangeInclusive;

use crate::check::Check;
use crate::config::{Config, ConfigError};
use crate::request::Request;
use crate::target::Target;

/// One request of several, as it is asked for; what is `None` is as in the rest of the load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSpec {
    /// Its class in the results.
    pub name: String,
    /// How often it is sent, in proportion to the weights of the others.
    pub weight: u32,
    /// Method.
    pub method: Option<String>,
    /// Path with query.
    pub path: Option<String>,
    /// Header lines after those of the load; a name that is given here replaces it there.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Option<Vec<u8>>,
    /// Statuses that make a response ok.
    pub expected_statuses: Option<Vec<RangeInclusive<u16>>>,
    /// What the body has to be.
    pub check: Option<Check>,
    /// Where it stands (`file:line`), for errors.
    pub origin: String,
}

/// Requests that are sent in the proportion of their weights.
#[derive(Debug)]
pub(crate) struct Mix {
    requests: Vec<Request>,
    /// The classes of numbers in a row, which repeat.
    cycle: Box<[u16]>,
    /// Name and weight of each class.
    pub(crate) classes: Vec<(String, u32)>,
}

impl Mix {
    /// The requests of a load; `None` where it has one.
    pub(crate) fn build(config: &Config, target: &Target) -> Result<Option<Self>, ConfigError> {
        if config.requests.is_empty() {
            return Ok(None);
        }
        let count = config.requests.len();
        if count > REQUESTS_MAX {
            return Err(ConfigError::TooManyRequests {
                count,
                max: REQUESTS_MAX,
            });
        }
        let cycle = cycle(&config.requests)?;
        let base = Config {
            requests: Vec::new(),
            ..config.clone()
        };
        let mut requests = Vec::new();
        for spec in &config.requests {
            let (config, target) = merged(&base, target, spec)?;
            let mut request =
                Request::build(&config, &target).map_err(|error| within(spec, error))?;
            let own = spec.expected_statuses.is_some();
            request.expected = own.then(|| config.expected_table());
            requests.push(request);
        }
        for request in &mut requests {
            // Only requests that are all alike are written several at once as they are.
            request.bytes.truncate(request.length);
        }
        let specs = &config.requests;
        Ok(Some(Self {
            requests,
            cycle,
            classes: specs
                .iter()
                .map(|spec| (spec.name.clone(), spec.weight))
                .collect(),
        }))
    }

    /// The request of a class.
    #[inline]
    pub(crate) fn request(&self, class: u16) -> &Request {
        &self.requests[usize::from(class)]
    }

    /// The class of the request with a number.
    #[inline]
    pub(crate) fn class_of(&self, number: u64) -> u16 {
        let length = self.cycle.len() as u64;
        usize::try_from(number % length).map_or(0, |place| self.cycle[place])
    }
}

/// What a request is when the rest of the load fills its gaps.
fn merged(
    config: &Config,
    target: &Target,
    spec: &RequestSpec,
) -> Result<(Config, Target), ConfigError> {
    let (mut config, mut target) = (config.clone(), target.clone());
    if let Some(path) = &spec.path {
        target = target
            .with_path(path)
            .map_err(|error| within(spec, error.into()))?;
    }
    if let Some(body) = &spec.body {
        config.body = Some(body.clone());
        "POST".clone_into(&mut config.method);
    }
    if let Some(method) = &spec.method {
        config.method.clone_from(method);
    }
    let replaced = |name: &str| {
        let mut own = spec.headers.iter();
        own.any(|(own, _)| own.eq_ignore_ascii_case(name))
    };
    config.headers.retain(|(name, _)| !replaced(name));
    config.headers.extend(spec.headers.iter().cloned());
    if let Some(check) = &spec.check {
        config.check = check.clone();
    }
    if let Some(expected) = &spec.expected_statuses {
        config.expected_statuses.clone_from(expected);
        if expected.iter().all(RangeInclusive::is_empty) {
            return Err(within(spec, ConfigError::NoExpectedStatus));
        }
    }
    Ok((config, target))
}

fn within(spec: &RequestSpec, error: ConfigError) -> ConfigError {
    ConfigError::Request {
        origin: spec.origin.clone(),
        reason: Box::new(error),
    }
}

/// Spreads the classes as evenly as their weights allow: each time the one that is furthest behind.
fn cycle(specs: &[RequestSpec]) -> Result<Box<[u16]>, ConfigError> {
    let common = specs
        .iter()
        .fold(0, |common, spec| gcd(common, spec.weight));
    if common == 0 {
        return Err(ConfigError::Zero {
            what: "the weight of at least one request",
        });
    }
    let weights: Vec<i64> = specs
        .iter()
        .map(|spec| i64::from(spec.weight / common))
        .collect();
    let total: i64 = weights.iter().sum();
    if total > CYCLE_MAX || weights.len() > usize::from(u16::MAX) {
        return Err(ConfigError::Weights {
            total: total.unsigned_abs(),
        });
    }
    let mut credit = vec![0; weights.len()];
    let next = |_| {
        for (credit, weight) in credit.iter_mut().zip(&weights) {
            *credit += weight;
        }
        let best = (0..credit.len())
            .rev()
            .max_by_key(|&class| credit[class])
            .unwrap_or(0);
        credit[best] -= total;
        u16::try_from(best).unwrap_or(0)
    };
    Ok((0..total).map(next).collect())
}

fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Each thread counts each of them apart, with a histogram of latencies.
const REQUESTS_MAX: usize = 1000;
/// Finer proportions than a hundredth of a per cent are hardly meant.
const CYCLE_MAX: i64 = 10_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn specs(weights: &[u32]) -> Vec<RequestSpec> {
        weights
            .iter()
            .map(|&weight| RequestSpec {
                weight,
                ..RequestSpec::default()
            })
            .collect()
    }

    proptest! {
        /// A cycle holds each class as often as its reduced weight says.
        #[test]
        fn cycles_are_exact(weights in prop::collection::vec(0_u32..40, 1..8)) {
            prop_assume!(weights.iter().any(|&weight| weight > 0));
            let cycle = cycle(&specs(&weights)).unwrap();
            let common = weights.iter().fold(0, |common, &weight| gcd(common, weight));
            for (class, &weight) in (0..).zip(&weights) {
                let count = cycle.iter().filter(|&&found| found == class).count();
                prop_assert_eq!(count, (weight / common) as usize);
            }
        }
    }

    /// Rare requests are spread, not sent in a row.
    #[test]
    fn rare_requests_are_spread() {
        assert_eq!(*cycle(&specs(&[90, 30])).unwrap(), [0, 0, 1, 0]);
    }

    /// Weights that are all zero or too fine are refused.
    #[test]
    fn weights_have_limits() {
        assert!(matches!(
            cycle(&specs(&[0, 0])),
            Err(ConfigError::Zero { .. })
        ));
        assert!(matches!(
            cycle(&specs(&[10_000, 1])),
            Err(ConfigError::Weights { total: 10_001 })
        ));
    }
}

//! The figures of publications that scenarios repeat: where they are read from.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use recording::Published;

use crate::failure::Failure;

/// The figures of a publication: of a built-in scenario by name, as far as there are any; of a file of
/// the user's own in a file beside it.
pub(super) fn read(scenario: &str, figures: &str) -> anyhow::Result<Option<Published>> {
    if super::names().contains(&scenario) {
        let text = PUBLISHED.iter().find(|(known, _)| *known == figures);
        return text
            .map(|(_, text)| toml::from_str(text))
            .transpose()
            .with_context(|| format!("built-in figures {figures}"));
    }
    let path = Path::new(scenario).with_file_name(figures);
    let shown = path.display();
    let text = fs::read_to_string(&path)
        .with_context(|| format!("scenario {scenario}: failed to read {shown}"))?;
    let figures = toml::from_str(&text)
        .map_err(|error| Failure::usage(format!("published figures {shown}: {error}")))?;
    Ok(Some(figures))
}

/// The figures of publications by name.
const PUBLISHED: &[(&str, &str)] = &[
    (
        "cache-hello",
        include_str!("../../../scenarios/published/cache-hello.toml"),
    ),
    (
        "h2-tls13-page",
        include_str!("../../../scenarios/published/h2-tls13-page.toml"),
    ),
    (
        "static-1b",
        include_str!("../../../scenarios/published/static-1b.toml"),
    ),
    (
        "tls-new-connections",
        include_str!("../../../scenarios/published/tls-new-connections.toml"),
    ),
    (
        "tls-terminator-keepalive",
        include_str!("../../../scenarios/published/tls-terminator-keepalive.toml"),
    ),
];

#[cfg(test)]
mod tests {
    use recording::PublishedFigure;

    use super::*;

    fn all() -> Vec<(&'static str, Published)> {
        let of = |name| {
            read(name, name)
                .unwrap()
                .unwrap_or_else(|| panic!("{name} has no figures"))
        };
        super::super::names()
            .into_iter()
            .map(|name| (name, of(name)))
            .collect()
    }

    /// The digits of a number without the zeros around them.
    fn digits(text: &str) -> String {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        digits.trim_matches('0').to_owned()
    }

    /// The numbers in a text, as they are written.
    fn numbers(text: &str) -> Vec<f64> {
        let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
        words.filter_map(|word| word.parse().ok()).collect()
    }

    fn value_of(published: &Published, figure: &PublishedFigure, metric: &str) -> f64 {
        let mut figures = published.figures.iter();
        let found = figures.find(|other| other.server == figure.server && other.metric == metric);
        found.unwrap().values[0]
    }

    /// What is stored as a figure stands in what was printed, digit by digit, or follows from two figures
    /// that do.
    #[test]
    fn figures_are_as_printed() {
        for (name, published) in all() {
            assert!(
                !published.figures.is_empty() && !published.changes.is_empty(),
                "{name}"
            );
            for figure in &published.figures {
                let (value, printed) = (figure.values[0], &figure.printed);
                if figure.metric == "syscalls_per_request" {
                    let of = |metric| value_of(&published, figure, metric);
                    let quotient = of("syscalls") / of("syscalls_writev");
                    assert!(
                        (value - quotient).abs() < 1e-12,
                        "{name}: {value} {quotient}"
                    );
                } else {
                    let wanted = digits(&value.to_string());
                    let mut words = printed.split(|c: char| !c.is_ascii_digit() && c != '.');
                    assert!(
                        words.any(|word| digits(word) == wanted),
                        "{name}: {value} in {printed:?}"
                    );
                }
            }
        }
    }

    /// Reports know every metric, and the scenario has every arm that is said to repeat a figure.
    #[test]
    fn figures_have_known_names() {
        for (name, published) in all() {
            let (_, scenario) = super::super::read(name).unwrap();
            for figure in &published.figures {
                assert!(
                    reports::is_published_metric(&figure.metric),
                    "{name}: {}",
                    figure.metric
                );
                let arm = figure.arm.as_ref().unwrap();
                let mut arms = scenario.arms.iter().chain(&scenario.optional_arms);
                assert!(arms.any(|known| known == arm), "{name}: {arm}");
            }
        }
    }

    /// Rates are what the publication's own counts and times give, as far as those are rounded.
    #[test]
    fn rates_follow_from_counts_and_times() {
        let mut checked = 0;
        for (name, published) in all() {
            for figure in published
                .figures
                .iter()
                .filter(|f| f.metric == "throughput_rps")
            {
                let numbers = numbers(&figure.printed);
                // What was printed, what follows, and half a unit of the last digit of the time.
                let (rate, seconds_each, tolerance) = match (name, &numbers[..]) {
                    // score 12334, elapsed 10.046 sec = 1227.749 / sec
                    ("tls-terminator-keepalive", [score, seconds, rate]) => {
                        (*rate, seconds / score, 0.000_5 / seconds)
                    }
                    // finished in 4.72s, 5299.41 req/s, of 25,000 and of 10,000,000 requests
                    ("h2-tls13-page", [seconds, rate, ..]) => {
                        (*rate, seconds / 25_000.0, 0.005 / seconds)
                    }
                    ("cache-hello", [seconds, rate, ..]) => {
                        (*rate, seconds / 10_000_000.0, 0.005 / seconds)
                    }
                    // Request rate: 138.9 req/s (7.2 ms/req)
                    ("tls-new-connections", [rate, milliseconds]) => {
                        (*rate, milliseconds / 1e3, 0.05 / milliseconds)
                    }
                    // wrk: 721,931 and 90,775 requests in 10.00 s
                    ("static-1b", [rate]) => {
                        let requests = if figure.server.starts_with("nginx") {
                            721_931.0
                        } else {
                            90_775.0
                        };
                        (*rate, 10.0 / requests, 0.000_5)
                    }
                    other => panic!("{other:?}"),
                };
                let off = (rate * seconds_each - 1.0).abs();
                // The rate is rounded as well.
                assert!(
                    off <= tolerance + 0.05 / rate,
                    "{name}: {rate} {off} {tolerance}"
                );
                checked += 1;
            }
        }
        assert_eq!(checked, 2 + 3 + 8 + 2 + 2);
    }
}

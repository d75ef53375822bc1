//! Counters of requests as servers expose them: nginx's `stub_status`, haproxy's statistics as CSV, a number in
//! JSON, a metric in Prometheus' text format. Pure, and its input is hostile.

/// Why no counter was found.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    /// The page has many counters.
    #[error("it is {page}, which has many counters: say which one, as url=URL#{example}")]
    NameMissing {
        page: &'static str,
        example: &'static str,
    },
    /// None of that name.
    #[error("it is {page}, and there is no counter {:?} in it", name.escape_debug().to_string())]
    NotThere { page: &'static str, name: String },
    /// Known, but not as it should be.
    #[error("it looks like {page}, and has not the figures of one")]
    Broken { page: &'static str },
    /// Names of something that has only one.
    #[error("it is {page}, which has one counter of requests: leave the name out")]
    NameUnknown { page: &'static str },
}

/// The number of requests that a page tells.
pub(super) fn requests(page: &str, name: Option<&str>) -> Result<u64, Unreadable> {
    let begin = page.trim_start();
    if begin.starts_with("Active connections:") {
        return stub_status(begin, name);
    }
    if begin.starts_with("# pxname,") {
        return haproxy(begin, name);
    }
    if begin.starts_with(['{', '[']) {
        return json(begin, name);
    }
    prometheus(begin, name)
}

/// <https://nginx.org/en/docs/http/ngx_http_stub_status_module.html>: the third number of the third line.
fn stub_status(page: &str, name: Option<&str>) -> Result<u64, Unreadable> {
    if name.is_some() {
        return Err(Unreadable::NameUnknown { page: STUB_STATUS });
    }
    let counters = page.lines().nth(2);
    let requests = counters.and_then(|line| line.split_whitespace().nth(2)?.parse().ok());
    requests.ok_or(Unreadable::Broken { page: STUB_STATUS })
}

/// The management guide of haproxy, 9.1: `req_tot` of each `FRONTEND`; those of TCP have none.
fn haproxy(page: &str, name: Option<&str>) -> Result<u64, Unreadable> {
    let broken = || Unreadable::Broken { page: HAPROXY };
    let mut lines = page.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = header.iter().position(|column| *column == "req_tot");
    let column = column.ok_or_else(broken)?;
    let mut sum = None;
    for line in lines {
        // Columns before this one have no commas in them.
        let fields: Vec<&str> = line.split(',').collect();
        let is_asked_for = name.is_none_or(|name| fields.first() == Some(&name));
        if fields.get(1) == Some(&"FRONTEND") && is_asked_for {
            let total: Option<u64> = fields.get(column).and_then(|total| total.parse().ok());
            sum = total.map_or(sum, |total| {
                Some(sum.unwrap_or(0_u64).saturating_add(total))
            });
        }
    }
    sum.ok_or_else(|| match name {
        Some(name) => not_there(HAPROXY, name),
        None => broken(),
    })
}

/// A number at a JSON pointer (RFC 6901).
fn json(page: &str, name: Option<&str>) -> Result<u64, Unreadable> {
    let name = name.ok_or(Unreadable::NameMissing {
        page: JSON,
        example: "/requests/total",
    })?;
    let value: serde_json::Value =
        serde_json::from_str(page).map_err(|_not_json| Unreadable::Broken { page: JSON })?;
    let number = value.pointer(name).and_then(|found| match found {
        serde_json::Value::String(text) => text.parse().ok(),
        _ => found.as_u64(),
    });
    number.ok_or_else(|| not_there(JSON, name))
}

/// Prometheus' text format, version 0.0.4: the sum of the samples of a metric, of those with the labels that
/// were given with it.
fn prometheus(page: &str, name: Option<&str>) -> Result<u64, Unreadable> {
    let name = name.ok_or(Unreadable::NameMissing {
        page: PROMETHEUS,
        example: "http_requests_total",
    })?;
    let asked = format!("{name} 0");
    let asked = sample(&asked).ok_or_else(|| not_there(PROMETHEUS, name))?;
    let mut sum = None;
    for line in page
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
    {
        let Some(found) = sample(line).filter(|found| found.metric == asked.metric) else {
            continue;
        };
        if asked
            .labels
            .iter()
            .all(|label| found.labels.contains(label))
        {
            sum = Some(sum.unwrap_or(0.0) + found.value);
        }
    }
    let sum: f64 = sum.ok_or_else(|| not_there(PROMETHEUS, name))?;
    if !(0.0..=EXACT_MAX).contains(&sum) {
        return Err(Unreadable::Broken { page: PROMETHEUS });
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is in the range of exact integers"
    )]
    let count = sum.round() as u64;
    Ok(count)
}

/// A line of Prometheus' text format.
struct Sample<'a> {
    metric: &'a str,
    /// Names with their values, as they are escaped.
    labels: Vec<(&'a str, &'a str)>,
    value: f64,
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(|letter: char| letter == '{' || letter.is_whitespace())?;
    let (metric, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside.trim_start();
        while !rest.starts_with('}') {
            let (label, more) = rest.split_once("=\"")?;
            let end = closing_quote(more)?;
            labels.push((label.trim(), &more[..end]));
            rest = more[end + 1..].trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
        rest = &rest[1..];
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample {
        metric,
        labels,
        value,
    })
}

/// Where a quoted value ends; a backslash takes the next letter with it.
fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, letter)| {
        let is_end = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end.then_some(at)
    })
}

fn not_there(page: &'static str, name: &str) -> Unreadable {
    Unreadable::NotThere {
        page,
        name: name.to_owned(),
    }
}

const STUB_STATUS: &str = "nginx's stub_status";
const HAPROXY: &str = "HAProxy's statistics";
const JSON: &str = "JSON";
const PROMETHEUS: &str = "Prometheus' text format";

/// The largest number below which all integers are exact in a 64-bit float, 2^53.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    /// The page of nginx 1.22.
    #[test]
    fn nginx() {
        let page = "Active connections: 291 \nserver accepts handled requests\n 16630948 16630948 31070465 \n\
                    Reading: 6 Writing: 179 Waiting: 106 \n";
        assert_eq!(requests(page, None), Ok(31_070_465));
        assert!(matches!(
            requests(page, Some("x")),
            Err(Unreadable::NameUnknown { .. })
        ));
        let broken = "Active connections: 291 \nserver accepts handled requests\n -1 x\n";
        assert!(matches!(
            requests(broken, None),
            Err(Unreadable::Broken { .. })
        ));
    }

    /// Columns of haproxy's CSV, of which only frontends that speak HTTP count requests.
    #[test]
    fn haproxy_frontends() {
        let page = "# pxname,svname,qcur,req_tot,\nweb,FRONTEND,,70,\nweb,a,0,,\nweb,BACKEND,0,,\n\
                    tcp,FRONTEND,,,\nstats,FRONTEND,,5,\n";
        assert_eq!(requests(page, None), Ok(75));
        assert_eq!(requests(page, Some("web")), Ok(70));
        for name in ["tcp", "BACKEND"] {
            assert!(matches!(
                requests(page, Some(name)),
                Err(Unreadable::NotThere { .. })
            ));
        }
    }

    /// A number in JSON, at a pointer.
    #[test]
    fn json_pointers() {
        let page = r#"{"requests": {"total": 12, "as~text": "13", "float": 1.5}}"#;
        assert_eq!(requests(page, Some("/requests/total")), Ok(12));
        assert_eq!(requests(page, Some("/requests/as~0text")), Ok(13));
        assert!(requests(page, Some("/requests/float")).is_err());
        assert!(matches!(
            requests(page, None),
            Err(Unreadable::NameMissing { .. })
        ));
        assert!(matches!(
            requests("{", Some("/a")),
            Err(Unreadable::Broken { .. })
        ));
    }

    /// The example of the text format's description, and labels that narrow a sum.
    #[test]
    fn prometheus_samples() {
        let page = "# HELP http_requests_total The total number of HTTP requests.\n\
                    # TYPE http_requests_total counter\n\
                    http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000\n\
                    http_requests_total{method=\"post\",code=\"400\"}    3 1395066363000\n\
                    http_requests_total_more 7\n\
                    odd{path=\"C:\\\\D\\\"}x\", a=\"b\"} 1.5e3\nminimalistic 12\n";
        assert_eq!(requests(page, Some("http_requests_total")), Ok(1030));
        let only = |labels: &str| requests(page, Some(&format!("http_requests_total{labels}")));
        assert_eq!(only(r#"{code="400"}"#), Ok(3));
        assert_eq!(only(r#"{code="200",method="post"}"#), Ok(1027));
        assert!(matches!(
            only(r#"{code="500"}"#),
            Err(Unreadable::NotThere { .. })
        ));
        assert_eq!(requests(page, Some("odd{a=\"b\"}")), Ok(1500));
        assert_eq!(requests(page, Some("minimalistic")), Ok(12));
        assert!(matches!(
            requests(page, None),
            Err(Unreadable::NameMissing { .. })
        ));
    }

    proptest! {
        /// Whatever a server answers, reading it ends, and what is found is a number that is in it.
        #[test]
        fn anything_can_be_read(page in "(Active connections:|# pxname,|[{]|m)?[ -~\n\\\\\"]{0,200}", name in proptest::option::of("[ -~]{0,12}")) {
            let _any = requests(&page, name.as_deref());
        }

        /// The sum of what was exposed, in any order of labels.
        #[test]
        fn samples_add_up(values in proptest::collection::vec(0_u32.., 1..20)) {
            let mut page = String::new();
            for (index, value) in values.iter().enumerate() {
                writeln!(page, "m{{i=\"{index}\"}} {value}\nother {value}").expect("a string takes it");
            }
            let sum: u64 = values.iter().map(|value| u64::from(*value)).sum();
            prop_assert_eq!(requests(&page, Some("m")), Ok(sum));
            prop_assert_eq!(requests(&page, Some("m{i=\"0\"}")), Ok(u64::from(values[0])));
        }
    }
}

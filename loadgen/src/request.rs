//! The bytes of a request, made once and sent again and again.

use recording::HttpVersion;

use crate::check::Check;
use crate::config::{Config, ConfigError};
use crate::http2::{Http2Request, upgrade_headers};
use crate::placeholder::{self, Patch};
use crate::target::Target;

/// A request, ready to be written.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Head and body, as often as one write can use them: see [`Config::depth`].
    pub(crate) bytes: Vec<u8>,
    /// Bytes of head and body, once.
    pub(crate) length: usize,
    /// Whether the method is HEAD, whose responses have no body.
    pub(crate) is_head: bool,
    /// Whether sending it twice is the same as sending it once (RFC 9110, section 9.2.2), so that
    /// it can be sent again when nobody knows whether it arrived.
    pub(crate) is_idempotent: bool,
    /// Whether it changes nothing (RFC 9110, section 9.2.1), so that it may go before anybody knows
    /// whether the client is not a replay.
    pub(crate) is_safe: bool,
    /// What varies in its bytes.
    pub(crate) patches: Vec<Patch>,
    /// Statuses that are ok, where they are not those of the plan.
    pub(crate) expected: Option<Box<[bool]>>,
    /// What the body of its response has to be.
    pub(crate) check: Check,
    /// The same request for HTTP/2, where that is spoken.
    pub(crate) http2: Option<Http2Request>,
    /// The same request with the wish to change to HTTP/2, where that is asked for.
    pub(crate) upgrade: Option<Box<Self>>,
}

impl Request {
    /// Checks method and headers, and lays out the bytes.
    pub(crate) fn build(config: &Config, target: &Target) -> Result<Self, ConfigError> {
        let method = config.method.as_str();
        if !is_token(method) || method == "CONNECT" {
            return Err(ConfigError::Method {
                method: method.to_owned(),
            });
        }
        let varying = |bytes: &[u8]| {
            if config.placeholders {
                placeholder::cut(bytes)
            } else {
                (bytes.to_vec(), Vec::new())
            }
        };
        let body = config.body.as_deref().map(varying);
        let length = body.as_ref().map(|(body, _)| body.len());
        let head = head(config, target, length)?;
        let (mut bytes, mut patches) = varying(head.as_bytes());
        if let Some((body, inside)) = body {
            patches.extend(inside.into_iter().map(|patch| patch.moved(bytes.len())));
            bytes.extend_from_slice(&body);
        }
        let length = bytes.len();
        let copies = if patches.is_empty() {
            (BURST_BYTES_MAX / length).clamp(1, config.depth as usize)
        } else {
            1
        };
        Ok(Self {
            bytes: bytes.repeat(copies),
            length,
            is_head: method == "HEAD",
            is_idempotent: IDEMPOTENT.contains(&method),
            is_safe: SAFE.contains(&method),
            patches,
            expected: None,
            check: config.check.clone(),
            http2: http2(config, target)?,
            upgrade: upgrade(config, target)?,
        })
    }

    /// Adds the bytes of request `number`.
    pub(crate) fn write(&self, number: u64, seed: u64, to: &mut Vec<u8>) {
        let start = to.len();
        to.extend_from_slice(&self.bytes[..self.length]);
        for (place, patch) in (0..).zip(&self.patches) {
            patch.write(&mut to[start..], number, place, seed);
        }
    }
}

/// The request for HTTP/2, where that is spoken.
fn http2(config: &Config, target: &Target) -> Result<Option<Http2Request>, ConfigError> {
    if config.http == HttpVersion::Http1 {
        return Ok(None);
    }
    let fields = http2_fields(config, target)?;
    let body = config.body.as_deref().unwrap_or_default();
    Ok(Some(Http2Request::build(
        &fields,
        body,
        config.placeholders,
    )))
}

/// The fields of a request over HTTP/2, in their order.
pub(crate) fn http2_fields(
    config: &Config,
    target: &Target,
) -> Result<Vec<(String, String)>, ConfigError> {
    let named = |wanted: &str| {
        let mut headers = config.headers.iter();
        headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted))
    };
    let authority = named("host").map_or(&target.authority, |(_, value)| value);
    let scheme = if target.is_tls { "https" } else { "http" };
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: &str| fields.push((name.to_owned(), value.to_owned()));
    add(":method", &config.method);
    add(":scheme", scheme);
    add(":authority", authority);
    add(":path", &target.path_and_query);
    if named("user-agent").is_none() {
        add("user-agent", USER_AGENT);
    }
    for (name, value) in &config.headers {
        let name = name.to_ascii_lowercase();
        if CONNECTION_HEADERS.contains(&&*name) {
            return Err(ConfigError::ConnectionHeader { name });
        }
        if name != "host" {
            add(&name, value.trim());
        }
    }
    let body = config.body.as_deref();
    match body {
        Some(body) => {
            let length = if config.placeholders {
                placeholder::cut(body).0.len()
            } else {
                body.len()
            };
            add("content-length", &length.to_string());
        }
        None if EXPECTS_BODY.contains(&config.method.as_str()) => add("content-length", "0"),
        None => {}
    }
    Ok(fields)
}

/// The request that asks to change to HTTP/2, where that is asked for.
fn upgrade(config: &Config, target: &Target) -> Result<Option<Box<Request>>, ConfigError> {
    if config.http != HttpVersion::Http2Upgrade {
        return Ok(None);
    }
    let mut asking = config.clone();
    asking.http = HttpVersion::Http1;
    asking.depth = 1;
    asking.headers.extend(upgrade_headers(&config.http2));
    Ok(Some(Box::new(Request::build(&asking, target)?)))
}

/// The head, its empty line included.
fn head(config: &Config, target: &Target, body: Option<usize>) -> Result<String, ConfigError> {
    let method = config.method.as_str();
    let mut head = format!("{method} {} HTTP/1.1\r\n", target.path_and_query);
    let mut add = |name: &str, value: &str| {
        for part in [name, ": ", value, "\r\n"] {
            head.push_str(part);
        }
    };
    let given = |name: &str| {
        let mut headers = config.headers.iter();
        headers.any(|(known, _)| known.eq_ignore_ascii_case(name))
    };
    if !given("host") {
        add("Host", &target.authority);
    }
    if !given("user-agent") {
        add("User-Agent", USER_AGENT);
    }
    for (name, value) in &config.headers {
        check_header(name, value)?;
        add(name, value);
    }
    match body {
        Some(length) => add("Content-Length", &length.to_string()),
        None if EXPECTS_BODY.contains(&method) => add("Content-Length", "0"),
        None => {}
    }
    head.push_str("\r\n");
    Ok(head)
}

fn check_header(name: &str, value: &str) -> Result<(), ConfigError> {
    let frames = ["content-length", "transfer-encoding"];
    if !is_token(name) {
        Err(ConfigError::HeaderName {
            name: name.to_owned(),
        })
    } else if frames.iter().any(|frame| name.eq_ignore_ascii_case(frame)) {
        Err(ConfigError::FramingHeader {
            name: name.to_owned(),
        })
    } else if value.chars().any(|c| c.is_control() && c != '\t') {
        Err(ConfigError::HeaderValue {
            name: name.to_owned(),
        })
    } else {
        Ok(())
    }
}

/// Whether `text` is a token (RFC 9110, section 5.6.2).
fn is_token(text: &str) -> bool {
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_tchar)
}

/// Operators of live servers should see who asks.
const USER_AGENT: &str = concat!("whyfast/", env!("CARGO_PKG_VERSION"));
/// Methods whose request without a body still needs a length (RFC 9110, section 8.6).
const EXPECTS_BODY: [&str; 3] = ["PATCH", "POST", "PUT"];
/// Headers of HTTP/1.1 that say how a connection goes on (RFC 9113, section 8.2.2).
const CONNECTION_HEADERS: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];
/// Pipelined requests that one write carries, bytes: what a socket takes at once by default.
const BURST_BYTES_MAX: usize = 16 * 1024;
const SAFE: [&str; 4] = ["GET", "HEAD", "OPTIONS", "TRACE"];
const IDEMPOTENT: [&str; 6] = ["DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"];

#[cfg(test)]
mod tests {
    use super::*;

    fn build(change: impl FnOnce(&mut Config)) -> Result<String, ConfigError> {
        let mut config = Config::new("http://h:81/p?q=1");
        change(&mut config);
        let target = Target::parse(&config.url).unwrap();
        let request = Request::build(&config, &target)?;
        Ok(String::from_utf8(request.bytes).unwrap())
    }

    /// The default request: no body, no length.
    #[test]
    fn get_has_no_body() {
        let wanted =
            format!("GET /p?q=1 HTTP/1.1\r\nHost: h:81\r\nUser-Agent: {USER_AGENT}\r\n\r\n");
        assert_eq!(build(|_| ()).unwrap(), wanted);
    }

    /// Values are kept exactly, Host can be replaced, the order is kept.
    #[test]
    fn headers_are_kept_exactly() {
        let text = build(|config| {
            config.headers = vec![
                ("X-A".into(), "1".into()),
                ("host".into(), "other".into()),
                ("X-B".into(), " two  spaces\t".into()),
                ("User-Agent".into(), String::new()),
            ];
        })
        .unwrap();
        assert_eq!(
            text,
            "GET /p?q=1 HTTP/1.1\r\nX-A: 1\r\nhost: other\r\nX-B:  two  spaces\t\r\nUser-Agent: \r\n\r\n"
        );
    }

    /// A body brings its length; a POST without one says so.
    #[test]
    fn bodies_bring_their_length() {
        let text = build(|config| {
            config.method = "POST".into();
            config.body = Some(b"abc".to_vec());
        });
        assert!(text.unwrap().ends_with("Content-Length: 3\r\n\r\nabc"));
        let text = build(|config| config.method = "POST".into());
        assert!(text.unwrap().ends_with("Content-Length: 0\r\n\r\n"));
    }

    /// What would break the framing of the request is refused.
    #[test]
    fn injections_are_refused() {
        let with = |name: &str, value: &str| {
            let header = (name.to_owned(), value.to_owned());
            build(|config| config.headers = vec![header])
        };
        assert!(matches!(
            with("X A", "1"),
            Err(ConfigError::HeaderName { .. })
        ));
        assert!(matches!(with("", "1"), Err(ConfigError::HeaderName { .. })));
        assert!(matches!(
            with("X", "1\r\nY: 2"),
            Err(ConfigError::HeaderValue { .. })
        ));
        assert!(matches!(
            with("content-length", "1"),
            Err(ConfigError::FramingHeader { .. })
        ));
        for method in ["", "GET /", "CONNECT"] {
            let result = build(|config| config.method = method.into());
            assert!(
                matches!(result, Err(ConfigError::Method { .. })),
                "{method}"
            );
        }
    }
}

//! The bytes of a request, made once and sent again and again.

use crate::config::{Config, ConfigError};
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
        let mut bytes = format!("{method} {} HTTP/1.1\r\n", target.path_and_query).into_bytes();
        let mut add = |name: &str, value: &str| {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        };
        let given = |name: &str| {
            config
                .headers
                .iter()
                .any(|(n, _)| n.eq_ignore_ascii_case(name))
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
        match &config.body {
            Some(body) => add("Content-Length", &body.len().to_string()),
            None if EXPECTS_BODY.contains(&method) => add("Content-Length", "0"),
            None => {}
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(config.body.as_deref().unwrap_or_default());
        let length = bytes.len();
        let copies = (BURST_BYTES_MAX / length).clamp(1, config.depth as usize);
        Ok(Self {
            bytes: bytes.repeat(copies),
            length,
            is_head: method == "HEAD",
            is_idempotent: IDEMPOTENT.contains(&method),
        })
    }
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
/// Pipelined requests that one write carries, bytes: what a socket takes at once by default.
const BURST_BYTES_MAX: usize = 16 * 1024;
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

//! Files that hold the requests of a load: TOML, one `[[request]]` each.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::check::Check;
use crate::mix::RequestSpec;

/// A request file that cannot be used; every message names the file and, inside of it, the line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestFileError {
    /// A file that cannot be read.
    #[error("cannot read {path}: {reason}")]
    Read {
        /// The file.
        path: String,
        /// The kernel's answer.
        reason: io::Error,
    },
    /// Not TOML, or not the shape of a request file.
    #[error("{place}: {what}")]
    Toml {
        /// File and line.
        place: String,
        /// What was found.
        what: String,
    },
    /// A value that makes no sense.
    #[error("{place}: {what}")]
    Value {
        /// File and line.
        place: String,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// No requests.
    #[error("{place}: no request: begin each with a line [[request]]")]
    Empty {
        /// The file.
        place: String,
    },
}

/// Reads a request file, and the bodies that it names, which lie relative to it.
pub fn read_requests(path: &Path) -> Result<Vec<RequestSpec>, RequestFileError> {
    let text = fs::read_to_string(path).map_err(|reason| RequestFileError::Read {
        path: path.display().to_string(),
        reason,
    })?;
    let folder = path.parent().unwrap_or(Path::new("."));
    parse(&text, &path.display().to_string(), &|body| {
        let path = folder.join(body);
        read_body(&path).map_err(|reason| RequestFileError::Read {
            path: path.display().to_string(),
            reason,
        })
    })
}

/// Reads the body of a request, of at most [`MAX_BODY`] bytes: it is kept in memory, and the file may have no
/// end.
pub fn read_body(path: &Path) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    let file = fs::File::open(path)?;
    if file.take(MAX_BODY + 1).read_to_end(&mut body)? as u64 > MAX_BODY {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!(
                "it has more than {MAX_BODY} bytes, which is the most that a request is sent with"
            ),
        ));
    }
    Ok(body)
}

/// Bytes of the longest body.
const MAX_BODY: u64 = 1 << 28;

/// Statuses as `200-299,404`; `None` when it is not that.
pub fn parse_statuses(text: &str) -> Option<Vec<RangeInclusive<u16>>> {
    let status = |text: &str| {
        let status: u16 = text.trim().parse().ok()?;
        (100..1000).contains(&status).then_some(status)
    };
    let range = |part: &str| match part.split_once('-') {
        Some((low, high)) => Some(status(low)?..=status(high)?),
        None => status(part).map(|status| status..=status),
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    ranges.filter(|ranges| ranges.iter().all(|range| !range.is_empty()))
}

/// The file as it is typed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    request: Vec<Spanned<RawRequest>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRequest {
    name: Option<Spanned<String>>,
    #[serde(default = "one")]
    weight: u32,
    method: Option<String>,
    path: Option<String>,
    #[serde(default)]
    headers: Vec<Spanned<String>>,
    body: Option<Spanned<String>>,
    body_file: Option<Spanned<PathBuf>>,
    expect_status: Option<Spanned<String>>,
    expect_length: Option<u64>,
    expect_sha256: Option<Spanned<String>>,
}

fn one() -> u32 {
    1
}

type ReadBody<'a> = dyn Fn(&Path) -> Result<Vec<u8>, RequestFileError> + 'a;

fn parse(
    text: &str,
    file: &str,
    read: &ReadBody<'_>,
) -> Result<Vec<RequestSpec>, RequestFileError> {
    let place = |at: usize| format!("{file}:{}", line_of(text, at));
    let raw: Raw = toml::from_str(text).map_err(|error| RequestFileError::Toml {
        place: place(error.span().map_or(0, |span| span.start)),
        what: error.message().to_owned(),
    })?;
    if raw.request.is_empty() {
        return Err(RequestFileError::Empty {
            place: file.to_owned(),
        });
    }
    let mut names = BTreeSet::new();
    let mut specs = Vec::new();
    for request in raw.request {
        let origin = place(request.span().start);
        let spec = spec(request.into_inner(), origin, &place, read)?;
        if !names.insert(spec.name.clone()) {
            let what = format!(
                "a second request is called {:?}: give each a name of its own",
                spec.name
            );
            let place = spec.origin;
            return Err(RequestFileError::Value { place, what });
        }
        specs.push(spec);
    }
    Ok(specs)
}

fn spec(
    raw: RawRequest,
    origin: String,
    place: &dyn Fn(usize) -> String,
    read: &ReadBody<'_>,
) -> Result<RequestSpec, RequestFileError> {
    let refuse = |at: usize, what: String| RequestFileError::Value {
        place: place(at),
        what,
    };
    let mut headers = Vec::new();
    for line in raw.headers {
        let at = line.span().start;
        let line = line.into_inner();
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| refuse(at, format!("{line:?} is no header: write \"Name: value\"")))?;
        headers.push((name.to_owned(), value.trim_start().to_owned()));
    }
    let body = match (raw.body, raw.body_file) {
        (Some(_), Some(file)) => {
            let what = "body and body_file exclude each other".to_owned();
            return Err(refuse(file.span().start, what));
        }
        (Some(body), None) => Some(body.into_inner().into_bytes()),
        (None, Some(file)) => {
            let at = place(file.span().start);
            Some(
                read(file.get_ref()).map_err(|error| RequestFileError::Value {
                    place: at,
                    what: error.to_string(),
                })?,
            )
        }
        (None, None) => None,
    };
    let expected_statuses = raw.expect_status.map(|text| {
        parse_statuses(text.get_ref()).ok_or_else(|| {
            let what = format!(
                "{:?} is no list of statuses: write 200-299,404",
                text.get_ref()
            );
            refuse(text.span().start, what)
        })
    });
    let sha256 = raw.expect_sha256.map(|text| {
        Check::parse_sha256(text.get_ref()).ok_or_else(|| {
            let what = "expect_sha256 is not 64 hexadecimal digits".to_owned();
            refuse(text.span().start, what)
        })
    });
    let check = Check {
        length: raw.expect_length,
        sha256: sha256.transpose()?,
    };
    let method = raw.method;
    let name = raw.name.map_or_else(
        || {
            let path = raw.path.as_deref().unwrap_or("/");
            format!("{} {path}", method.as_deref().unwrap_or("GET"))
        },
        Spanned::into_inner,
    );
    Ok(RequestSpec {
        name,
        weight: raw.weight,
        method,
        path: raw.path,
        headers,
        body,
        expected_statuses: expected_statuses.transpose()?,
        check: (!check.is_empty()).then_some(check),
        origin,
    })
}

/// The line of a byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    let before = text.get(..at.min(text.len())).unwrap_or(text);
    before.matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<RequestSpec>, RequestFileError> {
        parse(text, "mix.toml", &|path| match path.to_str() {
            Some("body.json") => Ok(b"{}".to_vec()),
            _ => Err(RequestFileError::Read {
                path: path.display().to_string(),
                reason: io::ErrorKind::NotFound.into(),
            }),
        })
    }

    /// A body of a file without an end is refused, and none is read whole before that is known.
    #[test]
    fn bodies_have_a_limit() {
        let endless = read_body(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::FileTooLarge);
        assert!(endless.to_string().contains("268435456 bytes"));
        assert_eq!(read_body(Path::new("/dev/null")).unwrap(), b"");
    }

    /// Everything that a request can say.
    #[test]
    fn reads_requests() {
        let specs = parsed(
            "[[request]]\nname = \"list\"\nweight = 9\npath = \"/list?id={seq:3}\"\n\
             headers = [\"Accept: text/html\", \"X-Empty:\"]\nexpect_status = \"200-299,404\"\n\
             expect_length = 5\n\n[[request]]\nmethod = \"POST\"\nbody_file = \"body.json\"\n",
        )
        .unwrap();
        let list = &specs[0];
        assert_eq!((list.name.as_str(), list.weight), ("list", 9));
        assert_eq!(list.path.as_deref(), Some("/list?id={seq:3}"));
        assert_eq!(list.headers[1], ("X-Empty".to_owned(), String::new()));
        assert_eq!(
            list.expected_statuses.as_deref(),
            Some(&[200..=299, 404..=404][..])
        );
        assert_eq!(list.check.as_ref().unwrap().length, Some(5));
        assert_eq!(list.origin, "mix.toml:1");
        let post = &specs[1];
        assert_eq!((post.name.as_str(), post.weight), ("POST /", 1));
        assert_eq!(post.body.as_deref(), Some(&b"{}"[..]));
        assert_eq!(post.origin, "mix.toml:9");
    }

    /// Each error names the file and the line where it is.
    #[test]
    fn errors_name_the_line() {
        let check = |text: &str, wanted: &str| {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{text}: {error}");
        };
        check("", "mix.toml: no request");
        check("[[request]]\nwieght = 1\n", "mix.toml:2: unknown field");
        check("[[request]]\n\nweight = -1\n", "mix.toml:3: ");
        check("[[request]]\nname = \"a\n", "mix.toml:2: ");
        check(
            "[[request]]\nheaders = [\n\"A: 1\",\n\"B\"]\n",
            "mix.toml:4: \"B\" is no header",
        );
        check(
            "[[request]]\nexpect_status = \"2xx\"\n",
            "mix.toml:2: \"2xx\" is no list",
        );
        check(
            "[[request]]\nexpect_sha256 = \"00\"\n",
            "mix.toml:2: expect_sha256",
        );
        check(
            "[[request]]\nbody_file = \"gone\"\n",
            "mix.toml:2: cannot read gone",
        );
        check(
            "[[request]]\nbody = \"\"\nbody_file = \"body.json\"\n",
            "mix.toml:3: body and body_file",
        );
        check("[[request]]\n[[request]]\n", "mix.toml:2: a second request");
    }

    /// Lists of statuses.
    #[test]
    fn reads_statuses() {
        assert_eq!(parse_statuses("200"), Some(vec![200..=200]));
        assert_eq!(
            parse_statuses("200-299, 404"),
            Some(vec![200..=299, 404..=404])
        );
        for wrong in ["", "2xx", "99", "1000", "300-200", "200,"] {
            assert_eq!(parse_statuses(wrong), None, "{wrong}");
        }
    }
}

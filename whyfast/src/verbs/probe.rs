//! The parity check's eyes: asks a server the same thing many times and describes the answers.
//!
//! A process of its own, unprivileged, because answers are hostile until proven otherwise.

use std::collections::BTreeMap;
use std::io::Read as _;

use anyhow::Context as _;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use loadgen::{Config, Fetched, fetch_with};
use recording::{ResponseShape, exit_code, hex};
use sha2::{Digest as _, Sha256};

use crate::args::ProbeArgs;
use crate::output::Output;
use crate::verbs::load::header;

/// Prints the shape of the answers as JSON.
pub(crate) fn probe(args: &ProbeArgs) -> anyhow::Result<u8> {
    let mut statuses: BTreeMap<u16, u32> = BTreeMap::new();
    let mut first: Option<ResponseShape> = None;
    let mut received = 0_u64;
    let mut config = Config::new(&args.url);
    args.http.apply(&mut config);
    let headers = args.header.iter().map(|line| header(line));
    config.headers = headers.collect::<anyhow::Result<_>>()?;
    for number in 1..=args.count.max(1) {
        let fetched = fetch_with(&config)
            .with_context(|| format!("request {number} of {} to {}", args.count, args.url))?;
        *statuses.entry(fetched.status).or_default() += 1;
        let shape = describe(&fetched)?;
        received += fetched.wire_body.len() as u64;
        match &first {
            None => first = Some(shape),
            Some(first) => anyhow::ensure!(
                first.body_sha256 == shape.body_sha256 || fetched.status >= 400,
                "{} answers with different bodies to the same request (the first and number \
                 {number} differ), so what it costs cannot be compared; request something static",
                args.url
            ),
        }
        // Large answers are told apart by fewer of them.
        if received >= ENOUGH_BYTES && number >= 2 {
            break;
        }
    }
    let mut shape = first.context("no request was made")?;
    shape.statuses = statuses;
    Output::Stdout.write(&serde_json::to_string(&shape)?)?;
    Ok(exit_code::DONE)
}

fn describe(fetched: &Fetched) -> anyhow::Result<ResponseShape> {
    let encoding = fetched.content_encoding().map(str::to_owned);
    let body = decode(&fetched.body, encoding.as_deref())?;
    Ok(ResponseShape {
        statuses: BTreeMap::new(),
        body_sha256: hex(&Sha256::digest(&body)),
        body_bytes: fetched.wire_body.len() as u64,
        head_bytes: fetched.raw_head.len() as u64,
        content_encoding: encoding,
        framing: fetched.framing.name().to_owned(),
        headers: fetched.headers.clone(),
        tls: fetched.tls.clone(),
    })
}

/// The body without its content encoding. An encoding that is not known here is compared encoded,
/// which can only refuse, never pass, what differs.
fn decode(body: &[u8], encoding: Option<&str>) -> anyhow::Result<Vec<u8>> {
    let mut decoded = Vec::new();
    let read = match encoding.map(str::to_ascii_lowercase).as_deref() {
        Some("gzip" | "x-gzip") => MultiGzDecoder::new(body)
            .take(DECODED_MAX)
            .read_to_end(&mut decoded),
        Some("deflate") => ZlibDecoder::new(body)
            .take(DECODED_MAX)
            .read_to_end(&mut decoded),
        _ => return Ok(body.to_vec()),
    };
    read.context("the body is not in the encoding that Content-Encoding names")?;
    anyhow::ensure!(
        (decoded.len() as u64) < DECODED_MAX,
        "the decoded body exceeds {DECODED_MAX} bytes"
    );
    Ok(decoded)
}

/// Bytes of bodies after which no more are asked for.
const ENOUGH_BYTES: u64 = 64 << 20;

/// A small body may decode to a huge one.
const DECODED_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// Two encodings of one body are the same body.
    #[test]
    fn encodings_are_undone() {
        let gzip = |level| {
            let mut encoder = GzEncoder::new(Vec::new(), level);
            encoder.write_all(b"body body body").unwrap();
            encoder.finish().unwrap()
        };
        for level in [Compression::none(), Compression::best()] {
            assert_eq!(
                decode(&gzip(level), Some("gzip")).unwrap(),
                b"body body body"
            );
        }
        assert_eq!(decode(b"x", None).unwrap(), b"x");
        assert!(decode(b"x", Some("gzip")).is_err());
    }
}

//! The parser against good, bad and arbitrary bytes, whole and in pieces.

use proptest::prelude::*;

use super::*;

/// What a parser made of its input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reading {
    interim: Vec<u16>,
    status: Option<u16>,
    head_bytes: usize,
    body: Vec<u8>,
    /// Reusable, and bytes of trailers.
    complete: Option<(bool, u64)>,
    failed: bool,
}

/// Reads one response that comes in the given pieces and then ends.
fn read(pieces: &[&[u8]], to_head_request: bool) -> (Reading, Option<EndOfInput>) {
    read_with(&mut HeadCache::default(), pieces, to_head_request)
}

fn read_with(
    cache: &mut HeadCache,
    pieces: &[&[u8]],
    to_head_request: bool,
) -> (Reading, Option<EndOfInput>) {
    let mut parser = ResponseParser::new();
    parser.begin(to_head_request);
    let mut reading = Reading::default();
    for piece in pieces {
        let mut input = *piece;
        loop {
            match parser.next(cache, &mut input) {
                Ok(None) => break,
                Ok(Some(Event::Interim { head, raw })) => {
                    reading.interim.push(head.status);
                    reading.head_bytes += raw.len();
                }
                Ok(Some(Event::Head { head, raw })) => {
                    reading.status = Some(head.status);
                    reading.head_bytes += raw.len();
                }
                Ok(Some(Event::Body(data))) => reading.body.extend_from_slice(data),
                Ok(Some(Event::Complete {
                    reusable,
                    trailer_bytes,
                })) => {
                    reading.complete = Some((reusable, trailer_bytes));
                }
                Err(_) => {
                    reading.failed = true;
                    return (reading, None);
                }
            }
        }
        assert!(input.is_empty(), "asking for more leaves nothing behind");
    }
    let end = reading.complete.is_none().then(|| parser.finish());
    (reading, end)
}

/// One complete response.
fn check(response: &str, body: &str, reusable: bool) {
    let (reading, _) = read(&[response.as_bytes()], false);
    assert_eq!(String::from_utf8_lossy(&reading.body), body, "{response:?}");
    assert_eq!(
        reading.complete.map(|(reusable, _)| reusable),
        Some(reusable),
        "{response:?}"
    );
}

/// One response that must not be believed.
fn check_violation(response: &str, wanted: ProtocolViolation) {
    let mut parser = ResponseParser::new();
    parser.begin(false);
    let mut cache = HeadCache::default();
    let mut input = response.as_bytes();
    loop {
        match parser.next(&mut cache, &mut input) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("{response:?} was believed"),
            Err(violation) => {
                assert_eq!(violation, wanted, "{response:?}");
                return;
            }
        }
    }
}

/// Lengths, chunks and versions that are fine.
#[test]
fn complete_responses() {
    check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", true);
    check("HTTP/1.1 200 OK\r\nCONTENT-LENGTH:2\r\n\r\nok", "ok", true);
    check("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "", true);
    check("HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "ok", true);
    check(
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "ok",
        false,
    );
    check(
        "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok",
        "ok",
        true,
    );
    check(
        "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok",
        "ok",
        false,
    );
    let both = "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    check(both, "", false);
    check("HTTP/1.1 204 No Content\r\n\r\n", "", true);
    check("HTTP/1.1 304 x\r\nContent-Length: 9\r\n\r\n", "", true);
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "ok",
        true,
    );
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\nA \r\n0123456789\r\n000\r\n\r\n",
        "0123456789",
        true,
    );
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a=\"b;c\"\r\nx\r\n1\r\ny\r\n0;z\r\nA: b\r\nC: d\r\n\r\n",
        "xy",
        true,
    );
}

/// A body without length lasts until the peer closes; what comes too early is told apart.
#[test]
fn ends_of_input() {
    let end = |text: &str| read(&[text.as_bytes()], false).1;
    assert_eq!(end(""), Some(EndOfInput::BeforeHead));
    assert_eq!(end("H"), Some(EndOfInput::InHead));
    assert_eq!(end("HTTP/1.1 103 x\r\n\r\n"), Some(EndOfInput::InHead));
    assert_eq!(
        end("HTTP/1.1 200 OK\r\n\r\nhello"),
        Some(EndOfInput::Complete)
    );
    assert_eq!(
        end("HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\n\r\n"),
        Some(EndOfInput::Complete)
    );
    assert_eq!(
        end("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"),
        Some(EndOfInput::InBody)
    );
    assert_eq!(
        end("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"),
        Some(EndOfInput::InBody)
    );
}

/// The answer to HEAD has no body, whatever its length says.
#[test]
fn head_has_no_body() {
    for fields in [
        "Content-Length: 100\r\n",
        "Transfer-Encoding: chunked\r\n",
        "",
    ] {
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let (reading, _) = read(&[text.as_bytes()], true);
        assert_eq!(reading.complete, Some((true, 0)), "{fields}");
    }
}

/// Interim responses are skipped and counted; their own lengths mean nothing.
#[test]
fn interim_responses_are_skipped() {
    let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nContent-Length: 3\r\n\r\n\
                HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let (reading, _) = read(&[text.as_bytes()], false);
    assert_eq!(reading.interim, [100, 103]);
    assert_eq!(reading.status, Some(200));
    assert_eq!(reading.head_bytes, text.len() - 2);
    assert_eq!(reading.complete, Some((true, 0)));
}

/// Trailers are counted as bytes of the head, their empty line included.
#[test]
fn trailers_are_counted() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: 1\r\n\r\n";
    let (reading, _) = read(&[text.as_bytes()], false);
    assert_eq!(
        reading.complete,
        Some((true, "X-A: 1\r\n\r\n".len() as u64))
    );
}

/// Every ambiguity about where a message ends is refused.
#[test]
fn ambiguous_framing_is_refused() {
    use ProtocolViolation as V;
    let with = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n2\r\nok\r\n0\r\n\r\n");
    for length in [
        "+5",
        "-1",
        "",
        " ",
        "5, 5",
        "0x5",
        "5 5",
        "99999999999999999999",
    ] {
        check_violation(
            &with(&format!("Content-Length: {length}")),
            V::ContentLength,
        );
    }
    check_violation(
        &with("Content-Length: 2\r\nContent-Length: 3"),
        V::ContentLengthRepeated,
    );
    check_violation(
        &with("Content-Length: 2\r\ncontent-length: 2"),
        V::ContentLengthRepeated,
    );
    check_violation(
        &with("Content-Length: 2\r\nTransfer-Encoding: chunked"),
        V::LengthAndEncoding,
    );
    check_violation(
        &with("Transfer-Encoding: identity\r\nContent-Length: 2"),
        V::LengthAndEncoding,
    );
    for coding in [
        "chunked, chunked",
        "chunked, gzip",
        "chunked,",
        ", chunked",
        "",
    ] {
        check_violation(
            &with(&format!("Transfer-Encoding: {coding}")),
            V::TransferEncoding,
        );
    }
    check_violation(
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        V::TransferEncoding,
    );
    check_violation("HTTP/1.1 101 x\r\n\r\n", V::Switching);
    check_violation("HTTP/1.1 099 x\r\n\r\n", V::Status);
    check_violation("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", V::Unasked);
    check_violation("HTTP/1.1 204 OK\r\nContent-Length: 1\r\n\r\na", V::Unasked);
    let header_name = httparse::Error::HeaderName;
    check_violation(
        "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
        V::Head(header_name),
    );
    check_violation(
        "HTTP/1.1 200 OK\r\n Content-Length: 2\r\n\r\nok",
        V::Head(header_name),
    );
    check_violation("SSH-2.0-x\r\n", V::Head(httparse::Error::Version));
    check_violation(
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        V::Head(httparse::Error::Version),
    );
    check_violation("HTTP/2.0 200 OK\r\n\r\n", V::Head(httparse::Error::Version));
}

/// Malformed chunks are refused.
#[test]
fn malformed_chunks_are_refused() {
    for body in [
        "\r\n",
        "x\r\n",
        "-1\r\n",
        "2\nok\r\n",
        "2\r\nok0\r\n",
        "2\r\nok\n0\r\n\r\n",
        "1;a\nx",
        "10000000000000000\r\n",
        "2 x\r\rok",
        "0\r\nA: b\n\r\n",
        "0\r\n\rx",
    ] {
        let text = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        check_violation(&text, ProtocolViolation::Chunk);
    }
}

/// Heads, size lines and trailers without end are cut off; memory stays bounded.
#[test]
fn endless_sections_are_cut_off() {
    let filler = vec![b'a'; 4096];
    let check = |start: &str, limit: usize| {
        let mut pieces = vec![start.as_bytes()];
        pieces.extend((0..64).map(|_| filler.as_slice()));
        let mut parser = ResponseParser::new();
        parser.begin(false);
        let mut cache = HeadCache::default();
        let mut taken = 0;
        for piece in pieces {
            let mut input = piece;
            loop {
                match parser.next(&mut cache, &mut input) {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => {
                        assert!(taken <= limit, "{start:?} was read for {taken} bytes");
                        return;
                    }
                }
            }
            taken += piece.len();
        }
        panic!("{start:?} has no limit");
    };
    check("HTTP/1.1 200 OK\r\nX: ", HEAD_BYTES_MAX + 4096);
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        16 * 1024 + 4096,
    );
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
        HEAD_BYTES_MAX + 4096,
    );
}

/// A large head in one piece is judged as in many.
#[test]
fn head_limit_does_not_depend_on_pieces() {
    for (size, is_read) in [(HEAD_BYTES_MAX - 100, true), (HEAD_BYTES_MAX + 1, false)] {
        let text = format!("HTTP/1.1 204 x\r\nX: {}\r\n\r\n", "a".repeat(size));
        let (whole, _) = read(&[text.as_bytes()], false);
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(1000).collect();
        assert_eq!(whole.complete.is_some(), is_read);
        assert_eq!(read(&pieces, false).0.complete.is_some(), is_read);
    }
}

/// A known head is read the same as an unknown one, and another one is not taken for it.
#[test]
fn cache_changes_nothing() {
    let mut cache = HeadCache::default();
    let texts = [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ];
    for text in texts {
        let fresh = read(&[text.as_bytes()], false);
        assert_eq!(
            read_with(&mut cache, &[text.as_bytes()], false),
            fresh,
            "{text:?}"
        );
    }
}

/// A response of any shape that the protocol allows.
fn response() -> impl Strategy<Value = (Vec<u8>, bool)> {
    let body = prop::collection::vec(any::<u8>(), 0..40);
    let fields = prop::collection::vec("[A-Za-z-]{1,8}: [ -~]{0,12}", 0..4).prop_map(|fields| {
        fields
            .into_iter()
            .filter(|f| !f.contains("ength"))
            .collect::<Vec<_>>()
    });
    (
        body,
        fields,
        0..4_u8,
        any::<bool>(),
        any::<bool>(),
        200..600_u16,
    )
        .prop_map(|(body, fields, shape, interim, to_head, status)| {
            let mut text = Vec::new();
            if interim {
                text.extend_from_slice(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            }
            text.extend_from_slice(format!("HTTP/1.1 {status} Any\r\n").as_bytes());
            for field in fields {
                text.extend_from_slice(field.as_bytes());
                text.extend_from_slice(b"\r\n");
            }
            match shape {
                0 => text.extend_from_slice(
                    format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes(),
                ),
                1 => text.extend_from_slice(b"\r\n"),
                _ => text.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n"),
            }
            if to_head || matches!(status, 204 | 304) {
                return (text, to_head);
            }
            if shape < 2 {
                text.extend_from_slice(&body);
                return (text, to_head);
            }
            for chunk in body.chunks(7) {
                text.extend_from_slice(format!("{:x};e=\"1\"\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(if shape == 2 {
                b"0\r\n\r\n"
            } else {
                b"0\r\nT: 1\r\n\r\n"
            });
            (text, to_head)
        })
}

/// Cuts `text` at the given places.
fn cut(text: &[u8], mut places: Vec<prop::sample::Index>) -> Vec<&[u8]> {
    places.sort_by_key(|place| place.index(text.len() + 1));
    let mut pieces = Vec::new();
    let mut from = 0;
    for place in places {
        let at = place.index(text.len() + 1);
        pieces.push(&text[from..at]);
        from = at;
    }
    pieces.push(&text[from..]);
    pieces
}

proptest! {
    /// However the network cuts a response, byte by byte included, it is the same response.
    #[test]
    fn cuts_change_nothing(
        (text, to_head) in response(),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let whole = read(&[&text], to_head);
        prop_assert!(!whole.0.failed);
        prop_assert_eq!(&read(&cut(&text, places), to_head), &whole);
        let single: Vec<&[u8]> = text.chunks(1).collect();
        prop_assert_eq!(&read(&single, to_head), &whole);
    }

    /// A response with a few bytes changed is refused or read, whole and in pieces alike, and
    /// nothing panics.
    #[test]
    fn damage_never_panics(
        (mut text, to_head) in response(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        for (place, byte) in damage {
            let at = place.index(text.len());
            text[at] = byte;
        }
        let (whole, _) = read(&[&text], to_head);
        let (pieces, _) = read(&cut(&text, places), to_head);
        if !whole.failed && whole.status.is_some() {
            prop_assert_eq!(pieces, whole);
        }
    }

    /// Arbitrary bytes never panic the parser.
    #[test]
    fn arbitrary_bytes_never_panic(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..6),
        start in prop::sample::select(vec![
            "", "HTTP/1.1 ", "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ]),
        to_head: bool,
    ) {
        let mut all = vec![start.as_bytes()];
        all.extend(pieces.iter().map(Vec::as_slice));
        read(&all, to_head);
    }
}

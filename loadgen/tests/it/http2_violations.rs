//! Each way in which a server can break HTTP/2, and how it is told.

use recording::FailureClass;

use crate::http2::http2;
use crate::peer2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, Peer, RST_STREAM, SETTINGS,
    Scripted, WINDOW_UPDATE, frame,
};
use crate::{failures, run_checked, violations};

/// Each way to break the protocol fails requests as such, is named with the frame, and ends.
#[test]
fn violations_are_failures() {
    let kinds = [
        misplaced_frames(),
        misshapen_frames(),
        misused_values(),
        broken_streams(),
    ];
    for (bytes, what, found) in kinds.into_iter().flatten() {
        check_violation(&bytes, what, found);
    }
}

/// What a server sends, how that breaks the protocol, and how the frame that does is told.
type Broken = (Vec<u8>, &'static str, &'static str);

/// Frames where they cannot be; each ends the connection.
fn misplaced_frames() -> Vec<Broken> {
    let interrupted = [
        frame(HEADERS, 0, 1, b"\x88"),
        frame(PING, 0, 0, b"01234567"),
    ]
    .concat();
    let on_stream = |kind, flags, stream, payload: &[u8], found| {
        (frame(kind, flags, stream, payload), STREAM, found)
    };
    vec![
        on_stream(
            DATA,
            0,
            3,
            b"idle stream",
            "DATA frame of 11 bytes on stream 3, flags 0x00",
        ),
        on_stream(
            DATA,
            0,
            0,
            b"no stream",
            "DATA frame of 9 bytes on stream 0, ",
        ),
        on_stream(
            HEADERS,
            END_HEADERS,
            2,
            b"\x88",
            "HEADERS frame of 1 bytes on stream 2, flags 0x04",
        ),
        on_stream(
            HEADERS,
            END_HEADERS | 0x8,
            1,
            b"\xff\x88",
            "HEADERS frame of 2 bytes on stream 1, flags 0x0c",
        ),
        on_stream(
            5,
            END_HEADERS,
            1,
            b"\0\0\0\x02\x88",
            "PUSH_PROMISE frame of 5 bytes",
        ),
        on_stream(SETTINGS, 0, 1, b"", "SETTINGS frame of 0 bytes on stream 1"),
        on_stream(
            WINDOW_UPDATE,
            0,
            9,
            &[0, 0, 0, 1],
            "WINDOW_UPDATE frame of 4 bytes on stream 9",
        ),
        on_stream(
            RST_STREAM,
            0,
            0,
            &[0; 4],
            "RST_STREAM frame of 4 bytes on stream 0",
        ),
        on_stream(PING, 0, 1, b"01234567", "PING frame of 8 bytes on stream 1"),
        on_stream(
            DATA,
            0x8,
            1,
            b"\xff123",
            "DATA frame of 4 bytes on stream 1, flags 0x08",
        ),
        (
            frame(CONTINUATION, END_HEADERS, 1, b"\x88"),
            PLACE,
            "CONTINUATION frame of 1 bytes on stream 1",
        ),
        (interrupted, PLACE, "PING frame"),
    ]
}

/// Frames of a length that they cannot have; each ends the connection.
fn misshapen_frames() -> Vec<Broken> {
    let of_length = |bytes: Vec<u8>, found| (bytes, LENGTH, found);
    // Seven letters are a length and a type that no frame has.
    let no_http2 = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    vec![
        of_length(frame(SETTINGS, 0, 0, b"12345"), "SETTINGS frame of 5 bytes"),
        of_length(
            frame(SETTINGS, 1, 0, b"123456"),
            "SETTINGS frame of 6 bytes on stream 0, flags 0x01",
        ),
        of_length(
            frame(WINDOW_UPDATE, 0, 0, b"123"),
            "WINDOW_UPDATE frame of 3 bytes",
        ),
        of_length(
            frame(RST_STREAM, 0, 1, &[0; 3]),
            "RST_STREAM frame of 3 bytes",
        ),
        of_length(frame(PING, 0, 0, b"short"), "PING frame of 5 bytes"),
        of_length(frame(GOAWAY, 0, 0, b"123"), "GOAWAY frame of 3 bytes"),
        of_length(
            frame(DATA, 0x8, 1, b""),
            "DATA frame of 0 bytes on stream 1, flags 0x08",
        ),
        of_length(no_http2, "frame of type 0x50 of 4740180 bytes"),
        of_length(
            frame(0xfa, 0, 0, &vec![0; 16_385]),
            "frame of type 0xfa of 16385 bytes",
        ),
    ]
}

/// Values that cannot be, and headers without end; each ends the connection.
fn misused_values() -> Vec<Broken> {
    let first = frame(HEADERS, 0, 1, b"\x88");
    let many = frame(CONTINUATION, 0, 1, b"").repeat(100);
    let large = frame(CONTINUATION, 0, 1, &vec![0; 16_000]).repeat(6);
    let setting = |payload: &[u8]| frame(SETTINGS, 0, 0, payload);
    let window = |payload: &[u8]| frame(WINDOW_UPDATE, 0, 0, payload);
    let too_large = "a header block that is too large";
    vec![
        (
            frame(HEADERS, END_HEADERS, 1, b"\x80"),
            COMPRESSION,
            "HEADERS frame of 1 bytes on stream 1, ",
        ),
        (
            setting(&[0, 4, 0xff, 0xff, 0xff, 0xff]),
            FLOW,
            "SETTINGS frame",
        ),
        (setting(&[0, 5, 0, 0, 0, 1]), SETTING, "SETTINGS frame"),
        (setting(&[0, 2, 0, 0, 0, 1]), SETTING, "SETTINGS frame"),
        (window(&[0; 4]), FLOW, "WINDOW_UPDATE frame"),
        (
            window(&[0x7f, 0xff, 0xff, 0xff]),
            FLOW,
            "WINDOW_UPDATE frame",
        ),
        (
            [&first[..], &many].concat(),
            too_large,
            "CONTINUATION frame of 0 bytes",
        ),
        (
            [&first[..], &large].concat(),
            too_large,
            "CONTINUATION frame of 16000 bytes",
        ),
    ]
}

/// Violations that end a stream only.
fn broken_streams() -> Vec<Broken> {
    let longer = [
        frame(HEADERS, END_HEADERS, 1, b"\x88\x0f\x0d\x011"),
        frame(DATA, 0, 1, b"12"),
    ]
    .concat();
    let endless_trailers = [
        frame(HEADERS, END_HEADERS, 1, b"\x88"),
        frame(HEADERS, END_HEADERS, 1, b"\x00\x01a\x01b"),
    ]
    .concat();
    let second_head = [
        frame(HEADERS, END_HEADERS, 1, b"\x88"),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x88"),
    ]
    .concat();
    let headers = |flags, block| frame(HEADERS, END_HEADERS | flags, 1, block);
    let window = "a stream window that is too large, or opened by nothing";
    vec![
        (
            headers(END_STREAM, b"\x08\x03103"),
            ORDER,
            "HEADERS frame of 5 bytes on stream 1, flags 0x05",
        ),
        (headers(0, b"\x08\x03101"), ORDER, "HEADERS frame"),
        (
            headers(END_STREAM, b"\x00\x01a\x01b"),
            ORDER,
            "HEADERS frame",
        ),
        (
            headers(END_STREAM, b"\x88\x88"),
            "malformed header fields",
            "HEADERS frame of 2 bytes",
        ),
        (
            frame(DATA, END_STREAM, 1, b"no head"),
            ORDER,
            "DATA frame of 7 bytes on stream 1, flags 0x01",
        ),
        (
            frame(DATA, END_STREAM, 1, b""),
            ORDER,
            "DATA frame of 0 bytes",
        ),
        (
            frame(WINDOW_UPDATE, 0, 1, &[0; 4]),
            window,
            "WINDOW_UPDATE frame",
        ),
        (
            longer,
            "more body than its content-length",
            "DATA frame of 2 bytes",
        ),
        (endless_trailers, ORDER, "HEADERS frame of 5 bytes"),
        (second_head, ORDER, "HEADERS frame of 1 bytes"),
    ]
}

const STREAM: &str = "a frame on a stream that cannot have it";
const COMPRESSION: &str = "header compression that cannot be decoded";
const LENGTH: &str = "a frame of a length that it cannot have";
const FLOW: &str = "flow control: more than the window, or a window that is too large";
const SETTING: &str = "a setting with a value that it cannot have";
const PLACE: &str = "a header block interrupted or continued out of place";
const ORDER: &str = "a head, a body or trailers where they cannot be";

/// A server that answers its first request with `bytes` and reads on.
fn check_violation(bytes: &[u8], what: &str, found: &str) {
    let bytes = bytes.to_vec();
    let shown = format!("{bytes:02x?}");
    let server = Scripted::start(move |stream, _| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        if peer.request().is_some() {
            peer.raw(&bytes);
            peer.drain();
        }
    });
    let load = run_checked(&http2(server.url(), 1, 1, 1));
    let shown = &shown[..shown.len().min(200)];
    assert_eq!(
        failures(&load),
        [(FailureClass::Protocol, "protocol", 1)],
        "{shown}"
    );
    let told = violations(&load);
    let [(told_what, told_found, 1)] = told[..] else {
        panic!("{told:?} {shown}");
    };
    assert_eq!(told_what, what, "{shown}");
    assert!(told_found.starts_with(found), "{told_found:?} {shown}");
}

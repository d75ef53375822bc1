//! A connection of HTTP/2.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loadgen::fuzzing::http2(data));

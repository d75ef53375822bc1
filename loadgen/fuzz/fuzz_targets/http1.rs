//! A connection of HTTP/1.1.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loadgen::fuzzing::http1(data));

//! URLs.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loadgen::fuzzing::url(data));

//! Recordings.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| reports::fuzzing::recording(data));

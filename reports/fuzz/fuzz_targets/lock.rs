//! Lock files.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| reports::fuzzing::lock(data));

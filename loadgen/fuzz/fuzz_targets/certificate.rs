//! The kind of key in a certificate.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loadgen::fuzzing::certificate(data));

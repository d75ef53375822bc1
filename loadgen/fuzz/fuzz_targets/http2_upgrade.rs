//! A connection that asks for HTTP/2 by Upgrade.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loadgen::fuzzing::http2_upgrade(data));

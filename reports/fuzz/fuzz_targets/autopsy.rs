//! Output of other tools, in any text.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| reports::fuzzing::autopsy(data));

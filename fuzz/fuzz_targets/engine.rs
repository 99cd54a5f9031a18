#![no_main]
//! See `octopus_fuzz::engine`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| octopus_fuzz::engine::check(data));

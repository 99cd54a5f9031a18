#![no_main]
//! See `octopus_fuzz::json`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| octopus_fuzz::json::check(data));

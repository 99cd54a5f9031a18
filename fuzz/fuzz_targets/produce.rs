#![no_main]
//! See `octopus_fuzz::produce`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| octopus_fuzz::produce::check(data));

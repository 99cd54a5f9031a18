#![no_main]
//! See `octopus_fuzz::parse`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| octopus_fuzz::parse::check(data));

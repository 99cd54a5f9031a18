#![no_main]
//! See `octopus_fuzz::text`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| octopus_fuzz::text::check(data));

#![no_main]
//! See `octopus_fuzz::group`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| octopus_fuzz::group::check(data));

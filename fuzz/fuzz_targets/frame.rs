#![no_main]
//! See `octopus_fuzz::frame`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| octopus_fuzz::frame::check(data));

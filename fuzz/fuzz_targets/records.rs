#![no_main]
//! See `octopus_fuzz::records`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| octopus_fuzz::records::check(data));

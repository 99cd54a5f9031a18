#![no_main]
//! See `octopus_fuzz::reply`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| octopus_fuzz::reply::check(data));

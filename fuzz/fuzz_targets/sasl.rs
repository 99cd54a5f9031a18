#![no_main]
//! See `octopus_fuzz::sasl`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| octopus_fuzz::sasl::check(data));

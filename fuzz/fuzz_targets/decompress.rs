#![no_main]
//! See `octopus_fuzz::decompress`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| octopus_fuzz::decompress::check(data));

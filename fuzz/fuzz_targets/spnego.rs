//! The bytes are a SPNEGO token; see `trunkline_fuzz::TARGETS`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trunkline_fuzz::run("spnego", data));

//! The bytes are a self-relative security descriptor; see `trunkline_fuzz::TARGETS`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trunkline_fuzz::run("security_descriptor", data));

//! The bytes are the text of a configuration file; see `trunkline_fuzz::TARGETS`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trunkline_fuzz::run("configuration", data));

//! The bytes are the data of one negotiate context, after its type; see `trunkline_fuzz::TARGETS`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trunkline_fuzz::run("negotiate_contexts", data));

//! The bytes are the requests of a client after its log-on over SMB; see `trunkline_fuzz::TARGETS`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trunkline_fuzz::run("connection", data));

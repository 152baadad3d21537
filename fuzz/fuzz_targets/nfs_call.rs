//! The bytes are a stream of a client's calls, including callbacks; see `trunkline_fuzz::TARGETS`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trunkline_fuzz::run("nfs_call", data));

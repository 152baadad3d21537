//! The bytes are a server's replies, and a client's replies to callbacks; see `trunkline_fuzz::TARGETS`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trunkline_fuzz::run("nfs_reply", data));

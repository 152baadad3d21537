//! The bytes are writes to a named pipe with remote procedure calls; see `trunkline_fuzz::TARGETS`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trunkline_fuzz::run("rpc_pipe", data));

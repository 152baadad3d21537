//! The bytes are a SOAP message of WS-Discovery; see `trunkline_fuzz::TARGETS`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trunkline_fuzz::run("ws_discovery", data));

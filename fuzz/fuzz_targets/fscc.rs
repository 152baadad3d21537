//! The bytes are the data of an information class or a control code (MS-FSCC); see `trunkline_fuzz::TARGETS`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trunkline_fuzz::run("fscc", data));

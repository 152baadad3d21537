//! The bytes are NFS attributes in their encoded form; see `trunkline_fuzz::TARGETS`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trunkline_fuzz::run("nfs_attributes", data));

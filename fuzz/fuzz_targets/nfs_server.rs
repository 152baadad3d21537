//! The bytes are the operations of one NFS COMPOUND, after a valid SEQUENCE; see `trunkline_fuzz::TARGETS`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trunkline_fuzz::run("nfs_server", data));

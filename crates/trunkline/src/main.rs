//! Layer 6: the command line, the configuration, putting it together.
#![allow(dead_code)]
mod config;
fn main() {}

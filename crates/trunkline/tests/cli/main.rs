//! The program as its users meet it: started as a process, in a directory and an environment of its own.

mod bad_input;
mod channels;
mod common;
mod interfaces;
mod link;
mod load;
mod running;
#[allow(dead_code, reason = "these tests say themselves what is served")]
mod server;
mod users_and_config;

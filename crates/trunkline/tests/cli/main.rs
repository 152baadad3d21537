//! The program as its users meet it: started as a process, in a directory and an environment of its own.

mod bad_input;
mod common;
mod running;
mod users_and_config;

//! The program as its users meet it: started as a process, in a directory and an environment of its own.

mod bad_input;
mod channels;
mod interfaces;
mod link;
mod load;
mod running;
mod users_and_config;

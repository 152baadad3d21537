//! The program as its users see it: started as a process, in its own directory and environment.

mod bad_input;
mod channels;
mod domain;
mod environment;
mod health;
mod interfaces;
mod link;
mod load;
mod node;
mod packaging;
mod running;
mod users_and_config;

//! One module for each command of MS-SMB2, in the order of 2.2. Each handler reads in the same order:
//! parse, find what the request names, ask the engine, write the body.

pub mod negotiate;

pub mod session_setup;

pub mod logoff;

pub mod tree_connect;

pub mod tree_disconnect;

pub mod create;

pub mod close;

pub mod flush;

pub mod read;

pub mod write;

pub mod oplock_break;

pub mod lock;

pub mod echo;

pub mod cancel;

pub mod ioctl;

pub mod query_directory;

pub mod change_notify;

pub mod query_info;

pub mod set_info;

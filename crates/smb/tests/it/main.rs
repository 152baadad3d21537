//! Tests of whole SMB sessions: requests to a server in this process, in memory or on disk.
//!
//! They are one program, since each program is compiled and linked by itself. `mounted` mounts file systems,
//! and `orphans` and `simulation` take their length from the environment: they are programs of their own.

mod accounts;
mod announced;
mod binding;
mod calls;
mod channels;
mod charges;
mod closing;
mod complaints;
mod compounds;
mod controls;
mod counts;
mod domain_passwords;
mod durable;
mod foreign;
mod guessing;
mod homes;
mod hostile_frames;
mod hostile_paths;
mod hostile_sessions;
mod late_changes;
mod lease_keys;
mod limits;
mod links;
mod listings;
mod log_on;
mod notices;
mod numbers;
mod offered_channels;
mod persistent;
mod posix;
mod promises;
mod relays;
mod replay;
mod restoring;
mod rights;
mod sequences;
mod statuses;
mod tickets;
mod uncopied;
mod waiting;

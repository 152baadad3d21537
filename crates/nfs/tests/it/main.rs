//! Tests of an NFS server in this process, addressed in whole messages.
//!
//! They are one program, since each program is compiled and linked by itself. `mounted` and `moved` mount
//! file systems: they are programs of their own.

mod account_names;
mod announced;
mod calls;
mod charges;
mod concurrent_states;
mod connections;
mod counts;
mod delegation_scenario;
mod delegations;
mod exports;
mod grace;
mod hostile;
mod kept_times;
mod limits;
mod links;
mod locks;
mod lost;
mod many;
mod opens;
mod replaced;
mod resume;
mod resume_faults;
mod revocation;
mod rights;
mod room;
mod sessions;
mod single_rights;
mod sizes;
mod v42;

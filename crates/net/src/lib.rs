//! Layer 4: listeners, workers, timers and the blocking pool, under any [`wire::endpoint::Service`].
//!
//! Start with [`serve`] (what a program calls), then `worker` (one thread, one runtime, its connections)
//! and `connection` (the life of one connection as one hand-written future). The parts it is put
//! together from know no socket and can be read alone: `inbound` cuts records out of what was received,
//! `turn` calls the conversation, `sends` holds what is to be written, `calls` asks the socket, `choice` finds out how large data leaves best, `pace` decides between inline and
//! the blocking pool, by time and `effort`, `mailbox` brings events in, `pool` runs what would block, `census` counts, bounds and
//! places connections, `backlog` bounds what all of them hold for clients that do not read, `balance` says when one goes elsewhere, `lane` puts clients that want little before the others while workers are full, `receipts` finds out whether what was sent has arrived. Beside them, [`netlink`] asks the
//! kernel about its network and [`interfaces`] so reads and watches the addresses of the host, [`Alarm`] is a thread that calls back in time, and [`tun`] makes a device whose other end is this process.

mod alarm;
mod backlog;
mod balance;
mod behind;
mod buffers;
mod busy_poll;
mod calls;
mod census;
mod choice;
mod clock;
mod config;
mod connection;
mod counters;
mod crowd;
mod effort;
mod files;
mod inbound;
pub mod interfaces;
mod lane;
mod listen;
pub mod lowat;
mod mailbox;
mod memory;
pub mod netlink;
mod pace;
mod pool;
mod receipts;
mod sends;
mod server;
mod timer;
pub mod tun;
mod turn;
mod worker;

pub use alarm::Alarm;
pub use backlog::Backlog;
pub use census::Refusals;
pub use clock::now;
pub use config::{Config, Keepalive};
pub use counters::Totals;
pub use listen::{BindError, Listeners};
pub use memory::{give_back as give_memory_back, limit as memory_limit};
pub use server::{Handle, Shutdown, StartError, raise_descriptor_limit, serve};

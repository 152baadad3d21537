//! Layer 4: listeners, workers, timers and the blocking pool, under any [`wire::endpoint::Service`].
//!
//! Start with [`serve`], which a program calls. Then read `worker` (one thread, one runtime, its connections)
//! and `connection` (the life of one connection as one hand-written future).
//!
//! These parts know no socket and can be read alone:
//!
//! - `inbound` cuts records out of the received bytes.
//! - `batch` calls the conversation.
//! - `sends` holds the replies to be written.
//! - `socket_calls` makes the system calls on a socket.
//! - `send_method` chooses how the data of large reads is sent.
//! - `offload` decides between inline and the blocking pool, by time and by the work of the thread
//!   (`thread_work`).
//! - `mailbox` brings events in.
//! - `inherited` has the listening sockets that the service manager has stored for this process.
//! - `pool` runs blocking work.
//! - `parked` has the sockets of a server that has stopped in order to move to another node.
//! - `registry` counts, bounds and places connections; `unproved` has those of clients that have not logged
//!   on.
//! - `backlog` bounds the memory that all connections hold for clients that do not read.
//! - `balance` decides when a connection moves to another worker.
//! - `priority_lane` prefers clients that want little while the workers are busy.
//! - `delivery_order` delays a reply until the notices it has caused are sent.
//! - `live_connections` lists the connections to an address that may move to another machine.
//! - `receipts` finds out whether sent bytes have arrived.
//!
//! Beside them, [`netlink`] asks the kernel about its network, and [`interfaces`] uses that to read and watch
//! the addresses of the host. [`floating_address`] moves an address from one machine to another.
//! [`TimerThread`] is a thread that calls back at a given time. [`tun`] creates a network device whose other
//! end is this process.

mod backlog;
mod balance;
mod batch;
mod buffers;
mod busy_poll;
mod clock;
mod config;
mod connection;
mod counters;
mod delivery_order;
mod files;
pub mod floating_address;
mod inbound;
mod inherited;
pub mod interfaces;
mod listen;
mod live_connections;
pub mod lowat;
mod mailbox;
mod memory;
pub mod netlink;
mod offload;
mod parked;
mod pool;
mod priority_lane;
mod receipts;
mod registry;
mod send_method;
mod sends;
mod server;
mod socket_calls;
mod thread_work;
mod timer;
mod timer_thread;
pub mod tun;
mod unproved;
mod worker;

pub use backlog::Backlog;
pub use clock::{boot_time, now};
pub use config::{Config, Keepalive};
pub use counters::Totals;
pub use inherited::{InheritedListeners, stop_listening, stored_name};
pub use listen::{BindError, Listeners, accepts};
pub use live_connections::LiveConnections;
pub use memory::{give_back as give_memory_back, limit as memory_limit};
pub use parked::ParkedSockets;
pub use registry::Refusals;
pub use server::{Handle, Shutdown, StartError, raise_descriptor_limit, serve};
pub use timer_thread::TimerThread;

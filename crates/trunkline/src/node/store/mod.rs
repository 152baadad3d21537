//! The tenure stores: the places that give a virtual server to one node at a time ([`tenure::TenureStore`]).
//!
//! - [`EtcdStore`]: a lease of etcd. A term ends by itself if its owner dies or is cut off.
//! - [`FlockStore`]: a lock on a file of the storage itself. It lasts as long as the process.
//! - [`ExternalStore`]: another program decides and tells this one. The lock is taken as well.
//!
//! [`NodeLock`] is the lock on the node itself. It shows that a former process of the same boot is gone.
//!
//! All calls block, so a task of tokio must not make them. Each call of [`EtcdStore`] has a bound that is
//! shorter than a term. The others call the file system, which may let them wait.

mod etcd;
mod external;
mod flock;
mod node_lock;
mod open;
#[cfg(test)]
mod suite;
mod tenure_file;

pub use etcd::{EtcdLogin, EtcdOptions, EtcdStore, EtcdTls};
pub use external::ExternalStore;
pub use flock::FlockStore;
pub use node_lock::NodeLock;
pub use open::{check, open};
pub use tenure_file::TenureFile;

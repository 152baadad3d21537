//! The work of operations over several parts: reading the properties of a file, recording opens, breaking
//! rights, notifying, and ending state of clients that are gone.
//!
//! | file | subject |
//! |---|---|
//! | `freshness` | whether values that were read are still current |
//! | `records`, `access`, `properties` | sidecar data of a file, rights of a caller, both in one step |
//! | `recording` | records of opens that outlive the process |
//! | `descriptor_retry`, `parked` | actions in a shortage of descriptors; requests that wait |
//! | `breaks` | caching rights: granted, broken, revoked. Nothing is sent here |
//! | `notices`, `changes` | notices to holders and watches |
//! | `recycle`, `recycle_folders`, `recycle_purge` | removed files: moved into a folder, for good later |
//! | `close`, `detached`, `expiry` | the end of opens, also of those whose client is gone |
//! | `conflicts`, `acknowledgments` | breaking rights before an action, and the holders' acknowledgments |
//! | `resource_relief`, `fairness` | the state that is given up in a shortage, and the division of the rest |
//! | `host`, `unreported`, `maintenance` | changes by others on the host, and periodic work |
//! | `accounting`, `usage`, `audit` | limits and counters; the contents of the share; events for the audit |
//!
//! `notices`, `changes`, `close`, `detached` and `expiry` form one circle: the holder of a broken right may
//! be gone, so its open is closed, and others are notified of that.

pub(crate) mod access;
pub(crate) mod accounting;
pub(crate) mod acknowledgments;
pub(crate) mod audit;
pub(crate) mod breaks;
pub(crate) mod changes;
pub(crate) mod close;
pub(crate) mod conflicts;
pub(crate) mod descriptor_retry;
pub(crate) mod detached;
pub(crate) mod expiry;
pub(crate) mod fairness;
pub(crate) mod freshness;
pub(crate) mod host;
pub(crate) mod maintenance;
pub(crate) mod notices;
pub(crate) mod parked;
pub(crate) mod properties;
pub(crate) mod recording;
pub(crate) mod records;
pub(crate) mod recycle;
pub(crate) mod recycle_folders;
pub(crate) mod recycle_purge;
pub(crate) mod resource_relief;
pub(crate) mod unreported;
pub(crate) mod usage;

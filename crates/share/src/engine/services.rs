//! The work of operations over several parts: reading the properties of a file, recording opens, breaking
//! rights, notifying, and ending state of clients that are gone.
//!
//! | file | subject |
//! |---|---|
//! | `since` | whether values that were read are still current |
//! | `records`, `access`, `facts` | sidecar data of a file, the rights of a caller, and both in one step |
//! | `recording` | records of opens that outlive the process |
//! | `shortage`, `parked` | actions that need a descriptor when there may be none left; requests that wait |
//! | `breaks` | caching rights: granted, broken, revoked. Nothing is sent here |
//! | `notices`, `changes` | notices to holders and watches |
//! | `close`, `absent`, `lapsed` | the end of opens, also of those whose client is gone |
//! | `conflicts`, `acknowledgments` | breaking rights before an action, and the holders' acknowledgments |
//! | `relief`, `fairness` | the state that is given up in a shortage, and the division of the rest |
//! | `host`, `untold`, `upkeep` | changes by others on the host, and periodic work |
//! | `accounting`, `usage` | limits and counters; the contents of the share |
//!
//! `notices`, `changes`, `close`, `absent` and `lapsed` form one circle: the holder of a broken right may be
//! gone, so its open is closed, and others are notified of that.

pub(crate) mod absent;
pub(crate) mod access;
pub(crate) mod accounting;
pub(crate) mod acknowledgments;
pub(crate) mod breaks;
pub(crate) mod changes;
pub(crate) mod close;
pub(crate) mod conflicts;
pub(crate) mod facts;
pub(crate) mod fairness;
pub(crate) mod host;
pub(crate) mod lapsed;
pub(crate) mod notices;
pub(crate) mod parked;
pub(crate) mod recording;
pub(crate) mod records;
pub(crate) mod relief;
pub(crate) mod shortage;
pub(crate) mod since;
pub(crate) mod untold;
pub(crate) mod upkeep;
pub(crate) mod usage;

//! The lowest floor: settings, records and other values that know nothing of a share.

pub(crate) mod accounts;
pub(crate) mod address;
pub(crate) mod config;
pub(crate) mod deferred_close;
pub(crate) mod descriptors;
pub(crate) mod effects;
pub(crate) mod host_lists;
pub(crate) mod ids;
pub(crate) mod protection;
pub(crate) mod record;
pub(crate) mod recycle;

//! The engine of one share.
//!
//! Start with [`Share`]. The engine has floors, and each floor knows only those below it:
//!
//! | floor | contents |
//! |---|---|
//! | `operations` | the requests of clients |
//! | `lookup` | from a name or an address to its target |
//! | `services` | work of operations over several parts |
//! | `share` | [`Share`]: the parts together |
//! | `parts` | the state of a share, each part by itself |
//! | `values` | settings, records and the like |
//!
//! Each floor has a table of its files. Read `operations/create` first (with `lookup/walk`, which finds
//! names, and `services/access`, which decides rights). Then read `parts/file` (the state of a file while it
//! is open), then `services/close`, `operations/data` and the rest.
//!
//! One table has the locks and the order in which they are taken: `crate::ranked::Rank`. No holder is
//! notified and no waiter is woken while a lock is held. The notices are collected in
//! `values::effects::Effects`, and `Share::settle` sends them.

pub(crate) mod lookup;
pub(crate) mod operations;
pub(crate) mod parts;
pub(crate) mod services;
mod share;
pub(crate) mod values;

pub use lookup::item::Item;
pub use operations::basic::{Basic, TimeSet};
pub use operations::byte_ranges::RangeNote;
pub use operations::copy::CopySide;
pub use operations::data::{ReadSender, WriteAt};
pub use operations::extended::Extended;
pub use operations::info::{HeldRange, OpenSummary};
pub use operations::items::NewItem;
pub use operations::scan::ListedEntry;
pub use parts::names::cache::MetadataCaching;
pub use parts::recycle_bin::{FinalRemoval, RecycleSummary};
pub use share::Share;
pub use values::accounts::{
    AccountDomain, AccountKind, AccountMapping, AccountName, AccountQuery, NoAccounts,
};
pub use values::config::{Config, METADATA_CACHE_BYTES, Symlinks};
pub use values::deferred_close::DeferredClose;
pub use values::descriptors::Descriptors;
pub use values::recycle::RecycleRules;

//! The engine of one share.
//!
//! [`Share`] is the whole of it. It stands on floors, and each knows only those below it:
//!
//! | floor | what stands there |
//! |---|---|
//! | `operations` | what clients ask for |
//! | `finding` | from a name or an address to what it leads to |
//! | `services` | what operations do over several parts |
//! | `share` | [`Share`]: the parts together |
//! | `parts` | what a share keeps, each part by itself |
//! | `values` | settings, records and the like |
//!
//! Each floor has a table of its files. Read `operations/create` first (with `finding/walk`, which finds names, and `services/access`, which
//! decides rights), then `parts/file` (what is kept of a file while anybody has it open), then `services/close`, `operations/data` and the
//! rest.
//!
//! The locks, and the order in which they are taken, stand in one table: `crate::ranked::Rank`. No holder is told, and no waiter
//! woken, while any of them is held: what is to be sent is collected in `values::effects::Effects` and sent by `Share::settle`.

pub(crate) mod finding;
pub(crate) mod operations;
pub(crate) mod parts;
pub(crate) mod services;
mod share;
pub(crate) mod values;

pub use finding::item::Item;
pub use operations::basic::{Basic, TimeSet};
pub use operations::copy::Side;
pub use operations::data::WriteAt;
pub use operations::extended::Extended;
pub use operations::info::{HeldRange, OpenSummary};
pub use operations::items::Fresh;
pub use operations::locking::RangeNote;
pub use operations::scan::Entry;
pub use parts::names::cache::MetadataCaching;
pub use share::Share;
pub use values::config::{Accounts, Config, METADATA_CACHE_BYTES, NoAccounts, Symlinks};
pub use values::descriptors::Descriptors;
pub use values::giving_back::GiveBack;

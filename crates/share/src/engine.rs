//! The engine of one share.
//!
//! [`Share`] is the whole of it. It is made of parts, each with fields of its own that nothing else reaches:
//!
//! | part | what it keeps |
//! |---|---|
//! | `names` | directories on the way and what they list, what is remembered of names and files, up to when the host was heard |
//! | `open_files` | the table of open files, how many opens there are, what was told of files |
//! | `rights` | where caching rights are, and which are not given for a while |
//! | `waits` | requests that wait, until when, and who is told |
//! | `watching` | watches |
//! | `lasting` | recorded opens, opens whose clients are gone, and who ends those |
//! | `limiting`, `counting` | what the share may do a second, and what it has done |
//!
//! What the share does with them is spread over the files of this directory, one subject each. Read `create` first (with `walk`, which
//! finds names, and `access`, which decides rights), then `file` (what is kept of a file while anybody has it open), then `close`,
//! `data` and the rest.
//!
//! | file | subject |
//! |---|---|
//! | `config` | settings, and who is who |
//! | `file`, `record`, `ids` | an open file, its attribute record, how tables by identity are hashed |
//! | `look_up`, `walk` | one name, paths and links |
//! | `followed` | links that were followed, and the last of them in the place of what it leads to |
//! | `link_making` | which symbolic links may be made |
//! | `giving_back` | files that are given back to the volume behind the answer |
//! | `access` | descriptors and rights |
//! | `items` | what was found and is not open |
//! | `create`, `existing`, `fresh`, `amending`, `close` | the life of an open |
//! | `data`, `copy`, `size`, `locking` | bytes and byte ranges |
//! | `info`, `basic`, `security`, `extended`, `reparse`, `streams` | what is known of a file, and changing it |
//! | `deleting`, `rename`, `linking`, `scan` | names |
//! | `shortage`, `fairness` | what is given up when something is short, and who gets what is left |
//! | `keeping` | opens whose client is gone |
//! | `lapsing` | clients whose time is over |
//! | `recording`, `restoring` | opens that outlive the process: recorded, and made again |
//! | `breaks`, `untold` | whom requests wait for; rights that end by themselves |
//! | `changes`, `watched_tree`, `host` | who hears of changes, from us and from the host |
//! | `usage` | what lies on the share |
//! | `since` | whether what was read is still so |
//!
//! The locks, and the order in which they are taken, stand in one table: `crate::ranked::Rank`. No holder is told, and no waiter
//! woken, while any of them is held: what is to be sent is collected in [`waits::Effects`] and sent by `Share::settle`.

mod access;
mod accounting;
mod address;
mod amending;
mod answers;
mod basic;
mod breaks;
mod changed_data;
mod changes;
mod close;
mod config;
mod copy;
mod counting;
mod create;
mod data;
mod deleting;
mod descriptors;
mod effects;
mod existing;
mod extended;
mod facts;
mod fairness;
pub(crate) mod file;
mod followed;
mod fresh;
pub(crate) mod giving_back;
mod giving_way;
mod host;
mod host_lists;
mod ids;
mod info;
mod item;
mod items;
mod keeping;
mod lapsing;
mod last_link;
mod lasting;
mod limiting;
mod link_making;
mod linking;
mod locking;
mod look_up;
pub(crate) mod names;
mod open_files;
mod opening;
mod own_times;
mod parking;
mod protection;
mod record;
mod recording;
mod records;
mod relief;
mod removal;
mod rename;
mod reparse;
mod restoring;
mod rights;
mod scan;
mod security;
mod settle;
mod share;
mod shortage;
mod since;
mod size;
mod streams;
mod syncing;
pub(crate) mod trail;
mod untold;
mod upkeep;
mod usage;
mod waits;
mod walk;
mod watched_tree;
mod watches;
mod watching;

pub(crate) use watched_tree::WatchedTree;

pub use basic::{Basic, TimeSet};
pub use config::{Accounts, Config, METADATA_CACHE_BYTES, NoAccounts, Symlinks};
pub use copy::Side;
pub use data::WriteAt;
pub use descriptors::Descriptors;
pub use extended::Extended;
pub use giving_back::GiveBack;
pub use info::{HeldRange, OpenSummary};
pub use item::Item;
pub use items::Fresh;
pub use locking::RangeNote;
pub use names::cache::MetadataCaching;
pub use scan::Entry;
pub use share::Share;

//! Layer 2: the engine of one share. Opens, access and denials, byte ranges, caching rights, watches, names.
//!
//! Start with [`Share`] in [`engine`]. Every request of every protocol becomes one call on it. A call that
//! may conflict with another client's right returns a [`CallResult`]. [`call_result`] and [`refusal`] have
//! the results, [`request`] the parameters, and [`open`] the open that a client holds.
//!
//! Nothing here is global: each share is an engine of its own, with its own state directory.

pub mod audit;
pub mod caching;
pub mod call_result;
pub mod client;
pub mod detached;
pub mod engine;
pub mod identity;
pub mod info;
pub mod memory;
pub mod open;
pub mod persistence;
pub mod ranges;
mod ranked;
pub mod refusal;
pub mod request;
pub mod requester;
pub mod watch;

pub use audit::{
    AuditClasses, AuditDetail, AuditEvent, AuditSink, AuditedOperation, Auditor, ClientDetails,
    RenderedClient,
};
pub use caching::{BreakNotice, CacheKey, Caching};
pub use call_result::{CallResult, Ticket};
pub use client::{BreakListener, Caller, Cause, ClientExpiry, ClientKey, Origin, Waiter, Wake};
pub use detached::{Detached, LossListener};
pub use engine::{
    AccountDomain, AccountKind, AccountMapping, AccountName, AccountQuery, Basic, Config, CopySide,
    DeferredClose, Extended, FinalRemoval, HeldRange, Item, ListedEntry, MetadataCaching, NewItem,
    NoAccounts, OpenSummary, RangeNote, ReadSender, RecycleRules, RecycleSummary, Share, TimeSet, WriteAt,
};
pub use identity::Identity;
pub use info::{Attributes, Info};
pub use memory::ClientMemory;
pub use metering::{FileNumber, counts, limits};
pub use open::{Grant, Open, OpenResult, Outcome};
pub use persistence::{
    MAX_NOTE, OpenRestorer, RecordFreeze, Restored, Unreadable, UnrestoredOpen, UserFailure,
};
pub use ranges::{LockOwner, LockRule, RangeKind, RangeRequest};
pub use refusal::Refusal;
pub use request::{CachingRequest, Deny, Disposition, OpenRequest, Options};
pub use requester::{RequesterScope, requester};
pub use watch::{Change, ChangeFilter, ChangeKind, DirectoryWatch};

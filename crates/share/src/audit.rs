//! The audit of a share: events about who opened, changed, renamed or removed what, and who was refused.
//!
//! The engine makes the events, because it knows every operation whatever protocol asked for it. It calls an
//! [`AuditSink`] outside of all locks. [`AuditClasses`] select the events, and [`AuditedOperation`] has their
//! words. An event borrows all it has, so making one allocates nothing.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bitflags::bitflags;
use volume::NodeId;
use volume::security::Rights;

use crate::{Identity, Refusal};

bitflags! {
    /// Classes of events, for the selection by share.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct AuditClasses: u16 {
        /// Opens with any right beyond looking at attributes, and their closes.
        const OPEN = 1;
        /// Opens that only look at attributes, and their closes.
        const LOOK = 1 << 1;
        /// The first read through each open, and the first listing.
        const READ = 1 << 2;
        /// The first write through each open, and changes of the size.
        const WRITE = 1 << 3;
        /// New files, directories, links and special files.
        const CREATE = 1 << 4;
        /// Changes of times, attribute bits, extended attributes and reparse points.
        const CHANGE = 1 << 5;
        /// Renames.
        const RENAME = 1 << 6;
        /// Removals of files, directories and named streams.
        const DELETE = 1 << 7;
        /// Changes of owners, permission bits and descriptors.
        const SECURITY = 1 << 8;
        /// Operations of any class that were refused for want of a right.
        const REFUSED = 1 << 9;
        /// Connections of clients to the share.
        const CONNECT = 1 << 10;
    }
}

/// An audited operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditedOperation {
    /// An existing object was opened.
    Open,
    /// A file or stream was created.
    Create,
    /// A directory was created.
    MakeDirectory,
    /// A file was replaced or cut to nothing as it was opened.
    Overwrite,
    /// An open ended.
    Close,
    /// Data was read for the first time through an open.
    Read,
    /// A directory was listed for the first time through an open.
    List,
    /// Data was written for the first time through an open.
    Write,
    /// The size was set.
    Truncate,
    /// Times or attribute bits were set.
    SetAttributes,
    /// Extended attributes were set or removed.
    SetExtended,
    /// A reparse point or an object id was set or removed.
    SetReparse,
    /// Permission bits were set.
    SetMode,
    /// The owner or the group was set.
    SetOwner,
    /// Parts of the descriptor were set.
    SetDescriptor,
    /// A symbolic link was created.
    Symlink,
    /// A pipe, a socket or a device node was created.
    MakeSpecial,
    /// A file got a further name.
    Link,
    /// An object or a stream got another name.
    Rename,
    /// A name of a file, or a named stream, was removed.
    Remove,
    /// A directory was removed.
    RemoveDirectory,
    /// A name was looked up before it was opened.
    LookUp,
    /// A client asked for its rights and got none of them.
    Access,
    /// A client connected to the share.
    Connect,
    /// A client left the share.
    Disconnect,
    /// A user logged on, or a client made a session.
    LogOn,
    /// A session ended.
    LogOff,
    /// The server removed a file from the recycle folder for good.
    Purge,
    /// An administrator's request, over the API or the control socket.
    Administer,
}

impl AuditedOperation {
    /// Each operation once.
    pub const ALL: [AuditedOperation; 29] = {
        use AuditedOperation as O;
        [
            O::Open,
            O::Create,
            O::MakeDirectory,
            O::Overwrite,
            O::Close,
            O::Read,
            O::List,
            O::Write,
            O::Truncate,
            O::SetAttributes,
            O::SetExtended,
            O::SetReparse,
            O::SetMode,
            O::SetOwner,
            O::SetDescriptor,
            O::Symlink,
            O::MakeSpecial,
            O::Link,
            O::Rename,
            O::Remove,
            O::RemoveDirectory,
            O::LookUp,
            O::Access,
            O::Connect,
            O::Disconnect,
            O::LogOn,
            O::LogOff,
            O::Purge,
            O::Administer,
        ]
    };

    /// The word for it in an event.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            AuditedOperation::Open => "open",
            AuditedOperation::Create => "create",
            AuditedOperation::MakeDirectory => "mkdir",
            AuditedOperation::Overwrite => "overwrite",
            AuditedOperation::Close => "close",
            AuditedOperation::Read => "read",
            AuditedOperation::List => "list",
            AuditedOperation::Write => "write",
            AuditedOperation::Truncate => "truncate",
            AuditedOperation::SetAttributes => "setattr",
            AuditedOperation::SetExtended => "setxattr",
            AuditedOperation::SetReparse => "set_reparse",
            AuditedOperation::SetMode => "chmod",
            AuditedOperation::SetOwner => "chown",
            AuditedOperation::SetDescriptor => "set_acl",
            AuditedOperation::Symlink => "symlink",
            AuditedOperation::MakeSpecial => "mknod",
            AuditedOperation::Link => "link",
            AuditedOperation::Rename => "rename",
            AuditedOperation::Remove => "unlink",
            AuditedOperation::RemoveDirectory => "rmdir",
            AuditedOperation::LookUp => "lookup",
            AuditedOperation::Access => "access",
            AuditedOperation::Connect => "connect",
            AuditedOperation::Disconnect => "disconnect",
            AuditedOperation::LogOn => "logon",
            AuditedOperation::LogOff => "logoff",
            AuditedOperation::Purge => "purge",
            AuditedOperation::Administer => "admin",
        }
    }

    /// The classes that select it. A close belongs to the class of its open.
    #[must_use]
    pub fn classes(self) -> AuditClasses {
        match self {
            AuditedOperation::Open | AuditedOperation::Close => AuditClasses::OPEN,
            AuditedOperation::Create | AuditedOperation::MakeDirectory => {
                AuditClasses::OPEN.union(AuditClasses::CREATE)
            }
            AuditedOperation::Overwrite => AuditClasses::OPEN.union(AuditClasses::WRITE),
            AuditedOperation::Read | AuditedOperation::List => AuditClasses::READ,
            AuditedOperation::Write | AuditedOperation::Truncate => AuditClasses::WRITE,
            AuditedOperation::SetAttributes
            | AuditedOperation::SetExtended
            | AuditedOperation::SetReparse => AuditClasses::CHANGE,
            AuditedOperation::SetMode | AuditedOperation::SetOwner | AuditedOperation::SetDescriptor => {
                AuditClasses::SECURITY
            }
            AuditedOperation::Symlink | AuditedOperation::MakeSpecial | AuditedOperation::Link => {
                AuditClasses::CREATE
            }
            AuditedOperation::Rename => AuditClasses::RENAME,
            AuditedOperation::Remove | AuditedOperation::RemoveDirectory | AuditedOperation::Purge => {
                AuditClasses::DELETE
            }
            AuditedOperation::LookUp | AuditedOperation::Access => AuditClasses::REFUSED,
            AuditedOperation::Connect | AuditedOperation::Disconnect => AuditClasses::CONNECT,
            AuditedOperation::LogOn | AuditedOperation::LogOff | AuditedOperation::Administer => {
                AuditClasses::empty()
            }
        }
    }
}

/// The properties of a client's session that events contain.
#[derive(Debug, Clone)]
pub struct ClientDetails {
    /// The protocol and its version.
    pub protocol: &'static str,
    /// The address from which the session was made.
    pub address: IpAddr,
    /// The name that the client's machine gives itself. It proves nothing.
    pub machine: String,
    /// The number of the session, as the status shows it.
    pub session: u64,
    /// These values in the form of the sink, which makes them once for a session.
    pub rendered: OnceLock<RenderedClient>,
}

/// A user and the properties of a client's session in the form of a sink. Mostly a session has one user.
#[derive(Debug, Clone)]
pub struct RenderedClient {
    /// The name and number of the session's first user; none if the user was not known.
    pub user: Option<(Box<str>, Option<u32>)>,
    /// That user and the session's properties.
    pub bytes: Box<[u8]>,
    /// The beginning of the session's properties in `bytes`.
    pub session_from: usize,
}

impl RenderedClient {
    /// Whether it is about this user.
    #[must_use]
    pub fn is_of(&self, user: Option<(&str, Option<u32>)>) -> bool {
        match (&self.user, user) {
            (Some((own, own_uid)), Some((name, uid))) => **own == *name && *own_uid == uid,
            (None, None) => true,
            _ => false,
        }
    }
}

/// Further values of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditDetail<'a> {
    /// None.
    #[default]
    None,
    /// The rights of an open, or those that were asked for.
    Rights(Rights),
    /// Bytes that were read and written through an open until its close.
    Moved {
        /// Bytes read.
        read: u64,
        /// Bytes written.
        written: u64,
    },
    /// The new size in bytes.
    Size(u64),
    /// The new permission bits.
    Mode(u32),
    /// The new owner and group on the host; none stays.
    Owner(Option<u32>, Option<u32>),
    /// The name of an extended attribute.
    Attribute(&'a [u8]),
    /// The text of a symbolic link.
    LinkText(&'a [u8]),
    /// The reason for which a client or user was refused.
    Reason(&'a str),
    /// An administrator's request, and the reason for which it was refused.
    Request(&'a str, Option<&'a str>),
}

/// One event.
#[derive(Debug, Clone)]
pub struct AuditEvent<'a> {
    /// The operation.
    pub operation: AuditedOperation,
    /// Why it was refused; none if it was done.
    pub refused: Option<&'a Refusal>,
    /// The name of the share; none for events of the server as a whole.
    pub share: Option<&'a str>,
    /// The user's name and number on the host; none if the user is not known.
    pub user: Option<(&'a str, Option<u32>)>,
    /// The client's session; none if the engine does not know it, as after a restart.
    pub client: Option<&'a ClientDetails>,
    /// The path from the root of the share with slashes; none if it is not known. It may be any bytes.
    pub path: Option<&'a [u8]>,
    /// The named stream.
    pub stream: Option<&'a [u8]>,
    /// The new path of a rename or link, the new name of a stream, or the path of a removed file in the
    /// recycle folder.
    pub new_path: Option<&'a [u8]>,
    /// The file.
    pub file: Option<NodeId>,
    /// The number of the open, unique within its share.
    pub open: Option<u64>,
    /// Further values.
    pub detail: AuditDetail<'a>,
}

impl<'a> AuditEvent<'a> {
    /// An event about nothing but a user.
    #[must_use]
    pub fn of(operation: AuditedOperation, identity: Option<&'a Identity>) -> AuditEvent<'a> {
        AuditEvent {
            operation,
            refused: None,
            share: None,
            user: identity.map(|identity| (identity.name.as_str(), Some(identity.uid))),
            client: None,
            path: None,
            stream: None,
            new_path: None,
            file: None,
            open: None,
            detail: AuditDetail::None,
        }
    }
}

/// Receives events. It notes their time itself, must not wait, and must not call the engine.
pub trait AuditSink: Send + Sync {
    /// Called with each event, in the thread of the request. The caller holds no lock of the engine.
    fn on_event(&self, event: &AuditEvent<'_>);
}

/// The receiver of the events of a server as a whole: log-ons and the ends of sessions.
#[derive(Default)]
pub struct Auditor(OnceLock<Arc<dyn AuditSink>>);

impl Auditor {
    /// Sends events to `sink` from now on. Only the first call counts.
    pub fn send_to(&self, sink: Arc<dyn AuditSink>) {
        let _set_before = self.0.set(sink);
    }

    /// Tells that a user logged on, or was refused for this reason.
    pub fn log_on(&self, user: (&str, Option<u32>), client: &ClientDetails, refused: Option<&str>) {
        let refusal = refused.map(|_| &Refusal::AccessDenied);
        let detail = refused.map_or(AuditDetail::None, AuditDetail::Reason);
        self.tell(AuditedOperation::LogOn, user, client, refusal, detail);
    }

    /// Tells that a session has ended.
    pub fn log_off(&self, user: (&str, Option<u32>), client: &ClientDetails) {
        self.tell(AuditedOperation::LogOff, user, client, None, AuditDetail::None);
    }

    fn tell(
        &self,
        operation: AuditedOperation,
        user: (&str, Option<u32>),
        client: &ClientDetails,
        refused: Option<&Refusal>,
        detail: AuditDetail<'_>,
    ) {
        if let Some(sink) = self.0.get() {
            let (user, client) = (Some(user), Some(client));
            sink.on_event(&AuditEvent { refused, user, client, detail, ..AuditEvent::of(operation, None) });
        }
    }
}

/// Whether a refusal is one for want of a right.
#[must_use]
pub fn is_denial(why: &Refusal) -> bool {
    matches!(why, Refusal::AccessDenied | Refusal::PrivilegeNotHeld | Refusal::BadOwner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_its_own_word() {
        let mut words: Vec<_> = AuditedOperation::ALL.iter().map(|operation| operation.word()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), AuditedOperation::ALL.len());
    }
}

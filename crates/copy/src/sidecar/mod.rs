//! The sidecar data of a file or directory: its owner, its access list, extended attributes and named
//! streams. Each side reads and writes them in its own form. [`lists`] translates access lists between the
//! sides.
//!
//! [`carry`] copies them from a file to its copy. It is no failure if a target cannot hold something. It is
//! counted, and reported once ([`Lost`]).

pub(crate) mod carry;
pub(crate) mod lists;
pub(crate) mod silent_losses;

use client::nfs::AccessEntry;
use volume::security::{Descriptor, Sid};

use volume::security::posix::PosixAcl;

/// The sidecar data of a file or directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sidecar {
    pub(crate) owner: Option<Owner>,
    pub(crate) list: Option<List>,
    pub(crate) xattrs: Vec<Xattr>,
    /// The permission bits of the source, if it has any.
    pub(crate) mode: Option<u32>,
    /// The names and sizes of named streams.
    pub(crate) streams: Vec<(String, u64)>,
}

/// The owner and the group of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) user: OwnerId,
    pub(crate) group: OwnerId,
}

/// A user or a group, as one side names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OwnerId {
    /// A number of this host.
    Number(u32),
    /// An identifier of a share.
    Sid(Sid),
    /// A number or a name in a domain, of an export.
    Name(Vec<u8>),
}

/// An access list in the form of one side.
#[derive(Debug, Clone)]
pub(crate) enum List {
    Posix(PosixAcl),
    Nt(Box<Descriptor>),
    Nfs(Vec<AccessEntry>),
}

/// An extended attribute. On this host its name has the prefix `user.`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Xattr {
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// The outcome of setting sidecar data.
#[derive(Debug, Default)]
pub(crate) struct SidecarOutcome {
    /// Whether the copy has an access list that permission bits would change.
    pub(crate) list: bool,
    /// Whether the copy has the owner and the group of the source.
    pub(crate) owner: bool,
    pub(crate) lost: Vec<Lost>,
}

/// The kinds of data that a target may not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Lost {
    Owner,
    List,
    PartOfList,
    Xattr,
    Stream,
    Special,
    Time,
    Link,
    HardLink,
}

impl Lost {
    /// The name of the kind in counts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Lost::Owner => "owners",
            Lost::List => "access lists",
            Lost::PartOfList => "parts of access lists",
            Lost::Xattr => "extended attributes",
            Lost::Stream => "named streams",
            Lost::Special => "setuid, setgid and sticky bits",
            Lost::Time => "times of change",
            Lost::Link => "symbolic links",
            Lost::HardLink => "hard links",
        }
    }

    /// The reason, for the user.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Lost::Owner => "the target has no users or groups of these names",
            Lost::List => "the target has no access lists",
            Lost::PartOfList => {
                "the target cannot say the same, or does not know everybody that is named there"
            }
            Lost::Xattr => "the target has none, or not of this name or size",
            Lost::Stream => "the target has none",
            Lost::Special => {
                "those of files that run as their owner or group are kept with --owner only, and not every \
                 target has any, or gives them to everybody"
            }
            Lost::Time => "the target has no times so far from now, or none of links",
            Lost::Link => "the target has none, or not such as lead where they do",
            Lost::HardLink => "each name has become a file of its own; -H keeps them where the target can",
        }
    }
}

impl OwnerId {
    /// Its number on a host.
    pub(crate) fn number(&self, is_group: bool) -> Option<u32> {
        match self {
            OwnerId::Number(number) => Some(*number),
            OwnerId::Sid(sid) if is_group => sid.as_unix_group(),
            OwnerId::Sid(sid) => sid.as_unix_user(),
            OwnerId::Name(name) => std::str::from_utf8(name).ok()?.parse().ok(),
        }
    }

    /// Its identifier on a share.
    pub(crate) fn sid(&self, is_group: bool) -> Option<Sid> {
        match self {
            OwnerId::Sid(sid) => Some(*sid),
            OwnerId::Name(name) if name.starts_with(b"S-1-") => std::str::from_utf8(name).ok()?.parse().ok(),
            _ => self.number(is_group).map(if is_group { Sid::unix_group } else { Sid::unix_user }),
        }
    }

    /// Its name on an export. If it has no number, the identifier is used, which Trunkline's server accepts.
    pub(crate) fn name(&self, is_group: bool) -> Vec<u8> {
        match self {
            OwnerId::Name(name) => name.clone(),
            OwnerId::Number(number) => number.to_string().into_bytes(),
            OwnerId::Sid(sid) => match self.number(is_group) {
                Some(number) => number.to_string().into_bytes(),
                None => sid.to_string().into_bytes(),
            },
        }
    }
}

impl Owner {
    /// Both as identifiers of a share.
    pub(crate) fn sids(&self) -> Option<(Sid, Sid)> {
        Some((self.user.sid(false)?, self.group.sid(true)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_a_host_are_the_same_everywhere_and_others_only_where_they_are_known() {
        let all = [OwnerId::Number(7), OwnerId::Sid(Sid::unix_user(7)), OwnerId::Name(b"7".to_vec())];
        for who in &all {
            assert_eq!(who.number(false), Some(7));
            assert_eq!(who.sid(false), Some(Sid::unix_user(7)));
            assert_eq!(who.name(false), b"7");
        }
        let known: Sid = "S-1-5-21-1-2-3-1001".parse().unwrap();
        assert_eq!(OwnerId::Sid(known).number(false), None);
        assert_eq!(OwnerId::Name(OwnerId::Sid(known).name(false)).sid(false), Some(known));
        assert_eq!(OwnerId::Name(b"ann@example.com".to_vec()).sid(false), None);
        assert_eq!(OwnerId::Sid(Sid::unix_user(7)).number(true), None);
    }
}

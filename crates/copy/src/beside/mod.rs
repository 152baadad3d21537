//! What a file or directory has beside its data: who owns it, who may do what with it, extended attributes and named
//! streams. Each side reads and writes them as it has them; [`lists`] makes of one side's access list that of another.
//!
//! [`carry`] takes them from a file to its copy. What a target cannot hold is not a failure: it is counted, and said
//! once ([`Lost`]).

pub(crate) mod carry;
pub(crate) mod kept;
pub(crate) mod lists;

use client::nfs::AccessEntry;
use volume::security::{Descriptor, Sid};

use volume::security::posix::PosixAcl;

/// What was found beside the data.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beside {
    pub(crate) owner: Option<Owner>,
    pub(crate) list: Option<List>,
    pub(crate) xattrs: Vec<Xattr>,
    /// The permission bits of what has it, where it has any.
    pub(crate) mode: Option<u32>,
    /// Names and sizes.
    pub(crate) streams: Vec<(String, u64)>,
}

/// The owner and the group of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) user: Who,
    pub(crate) group: Who,
}

/// A user or a group, as one side names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who {
    /// Of this host.
    Number(u32),
    /// Of a share.
    Sid(Sid),
    /// Of an export: a number, or a name in a domain.
    Name(Vec<u8>),
}

/// An access list, as one side has it.
#[derive(Debug, Clone)]
pub(crate) enum List {
    Posix(PosixAcl),
    Nt(Box<Descriptor>),
    Nfs(Vec<AccessEntry>),
}

/// An extended attribute; on this host its name has `user.` in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Xattr {
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// What came of giving all that to a copy.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// Whether it has got an access list that permission bits would spoil.
    pub(crate) list: bool,
    /// Whether it has got the owner and the group of the other one.
    pub(crate) owner: bool,
    pub(crate) lost: Vec<Lost>,
}

/// What a target could not hold.
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
    /// What it is called where it is counted.
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

    /// Why, for who copies.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Lost::Owner => "the target does not know by these names who owns files in the source",
            Lost::List => "the target has no access lists",
            Lost::PartOfList => {
                "the target cannot say the same, or does not know everybody that is named there"
            }
            Lost::Xattr => "the target has none, or not of this name or size",
            Lost::Stream => "the target has none",
            Lost::Special => {
                "those of files that run as their owner or group are kept with --owner only, and not every target has any, or \
                 gives them to everybody"
            }
            Lost::Time => "the target has no times so far from now, or none of links",
            Lost::Link => "the target has none, or not such as lead where they do",
            Lost::HardLink => "each name has become a file of its own; -H keeps them where the target can",
        }
    }
}

impl Who {
    /// Its number on a host.
    pub(crate) fn number(&self, is_group: bool) -> Option<u32> {
        match self {
            Who::Number(number) => Some(*number),
            Who::Sid(sid) if is_group => sid.as_unix_group(),
            Who::Sid(sid) => sid.as_unix_user(),
            Who::Name(name) => std::str::from_utf8(name).ok()?.parse().ok(),
        }
    }

    /// Its identifier on a share.
    pub(crate) fn sid(&self, is_group: bool) -> Option<Sid> {
        match self {
            Who::Sid(sid) => Some(*sid),
            Who::Name(name) if name.starts_with(b"S-1-") => std::str::from_utf8(name).ok()?.parse().ok(),
            _ => self.number(is_group).map(if is_group { Sid::unix_group } else { Sid::unix_user }),
        }
    }

    /// Its name on an export. Where there is no number for it, Trunkline's server takes the identifier.
    pub(crate) fn name(&self, is_group: bool) -> Vec<u8> {
        match self {
            Who::Name(name) => name.clone(),
            Who::Number(number) => number.to_string().into_bytes(),
            Who::Sid(sid) => match self.number(is_group) {
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
        let all = [Who::Number(7), Who::Sid(Sid::unix_user(7)), Who::Name(b"7".to_vec())];
        for who in &all {
            assert_eq!(who.number(false), Some(7));
            assert_eq!(who.sid(false), Some(Sid::unix_user(7)));
            assert_eq!(who.name(false), b"7");
        }
        let known: Sid = "S-1-5-21-1-2-3-1001".parse().unwrap();
        assert_eq!(Who::Sid(known).number(false), None);
        assert_eq!(Who::Name(Who::Sid(known).name(false)).sid(false), Some(known));
        assert_eq!(Who::Name(b"ann@example.com".to_vec()).sid(false), None);
        assert_eq!(Who::Sid(Sid::unix_user(7)).number(true), None);
    }
}

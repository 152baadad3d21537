//! The identity of a requester, however it was authenticated. Each request has one.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use volume::security::Sid;
use volume::{Actor, Name};

/// A user as the engine sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The log-on name, for status and logs.
    pub name: String,
    /// The user's SID.
    pub sid: Sid,
    /// SIDs of all groups, well-known ones included.
    pub groups: Vec<Sid>,
    /// Host user.
    pub uid: u32,
    /// Host group.
    pub gid: u32,
    /// Further host groups.
    pub host_groups: Vec<u32>,
    /// The user of the host that creates and removes names; none: the server's own user.
    pub actor: Option<Actor>,
    /// May take ownership, restore and read audit entries, whatever descriptors say.
    pub administrator: bool,
    /// Descriptors do not bind this user at all, like the host's root on its own files.
    pub unbound: bool,
    /// The most that the share's settings give this user, whatever descriptors say.
    pub limit: volume::security::Rights,
    /// The directory in the root of the share where all paths of this user begin, and which none of them
    /// leaves; none: the root itself.
    pub home: Option<Name>,
}

impl Identity {
    /// The key that distinguishes users.
    #[must_use]
    pub fn key(&self) -> (&str, u32) {
        (&self.name, self.uid)
    }

    /// The path from the root of the share for a path of this user.
    pub fn path_from_root<'a>(&'a self, path: &'a [Name]) -> impl Iterator<Item = &'a Name> {
        self.home.iter().chain(path)
    }

    /// The path of this user for a path from the root of the share. A path outside of the user's home stays
    /// as it is.
    #[must_use]
    pub fn path_from_home<'a>(&self, path: &'a [Name]) -> &'a [Name] {
        match (&self.home, path.split_first()) {
            (Some(home), Some((first, rest))) if first == home => rest,
            _ => path,
        }
    }

    /// A number that is the same for the same user as long as this process runs, and that no one outside can
    /// guess.
    #[must_use]
    pub fn number(&self) -> u64 {
        static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        HASHER.hash_one(self.key())
    }
}

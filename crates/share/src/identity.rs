//! The identity of a requester, however it was authenticated. Each request has one.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use volume::Actor;
use volume::security::Sid;

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
}

impl Identity {
    /// The key that distinguishes users.
    #[must_use]
    pub fn key(&self) -> (&str, u32) {
        (&self.name, self.uid)
    }

    /// A number that is the same for the same user as long as this process runs, and that no one outside can
    /// guess.
    #[must_use]
    pub fn number(&self) -> u64 {
        static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        HASHER.hash_one(self.key())
    }
}

//! Who asks: one identity for each request, however it was proved.

use volume::Actor;
use volume::security::Sid;

/// A user as the engine sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The login name, for status and logs.
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
    /// On whose behalf names are made on the host; none: as the server's own user.
    pub actor: Option<Actor>,
    /// May take ownership, restore and read audit entries, whatever descriptors say.
    pub administrator: bool,
    /// Descriptors do not bind them at all, like the host's root on its own files.
    pub unbound: bool,
    /// The most that the share's settings give this user, whatever descriptors say.
    pub limit: volume::security::Rights,
}

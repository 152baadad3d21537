//! A descriptor with its source, and the host's permission bits beside it.

use volume::security::Descriptor;
use volume::security::posix::{self, PosixEntry};
use volume::{Actor, Stat};

use crate::Caller;

/// The bit of a directory in which only owners remove their files.
const STICKY: u32 = 0o1000;

/// A descriptor and its source.
#[derive(Debug)]
pub(crate) struct Security {
    pub descriptor: Descriptor,
    /// Whether it is stored with the file. Otherwise it expresses the host's permission bits.
    pub is_stored: bool,
    /// The host's permission bits let everybody pass.
    pub is_open_to_all: bool,
    /// The host's own access list, if the descriptor expresses it.
    pub list: Vec<PosixEntry>,
    /// The host lets new objects inherit a list of its own.
    pub hands_list_down: bool,
    /// Permission bits, owner and group that it was made of.
    pub says: (u32, u32, u32),
    /// [`Stat::fixed`], which applies to everybody.
    pub is_fixed: bool,
    /// The host has overridden a stored descriptor. This is the result, and it is to be stored.
    pub is_overtaken: bool,
}

impl Security {
    /// Whether it is still the descriptor of a file with this stat, as far as the stat tells.
    pub fn fits(&self, stat: &Stat) -> bool {
        self.says == (stat.mode, stat.uid, stat.gid) && self.is_fixed == stat.fixed
    }

    /// The host's permission bits for a user, by its own list if there is one.
    fn host_bits(&self, uid: u32, gid: u32, groups: &[u32]) -> u32 {
        let (mode, owner, group) = self.says;
        if !self.list.is_empty() {
            let groups: Vec<u32> = groups.iter().copied().chain([gid]).collect();
            return posix::bits_for(&self.list, (owner, group), uid, &groups).into();
        }
        let class = match uid == owner {
            true => 6,
            false if gid == group || groups.contains(&group) => 3,
            false => 0,
        };
        mode >> class & 7
    }

    /// Whether the host's permission bits or its list let a caller run a file. On other systems the right to
    /// execute covers more.
    pub fn runs(&self, caller: &Caller<'_>) -> bool {
        let who = caller.identity;
        let root = who.unbound && self.says.0 & 0o111 != 0;
        root || !who.unbound && self.host_bits(who.uid, who.gid, &who.host_groups) & 0o1 != 0
    }

    /// Whether the host lets a user remove any object in this directory.
    pub fn lets_remove(&self, actor: &Actor) -> bool {
        let may_write = self.host_bits(actor.uid, actor.gid, &actor.groups) & 0o3 == 0o3;
        may_write && (self.says.0 & STICKY == 0 || actor.uid == self.says.1)
    }
}

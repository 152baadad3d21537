//! A descriptor as the engine keeps it: with where it comes from, and what the host's permission bits say beside it.

use volume::security::Descriptor;
use volume::security::posix::{self, PosixEntry};
use volume::{Actor, Stat};

use crate::Caller;

/// The bit of a directory in which nobody removes what is another's.
const STICKY: u32 = 0o1000;

/// A descriptor and where it comes from.
#[derive(Debug)]
pub(crate) struct Security {
    pub descriptor: Descriptor,
    /// Whether it is stored with the file; else it says what the host's permission bits say.
    pub is_stored: bool,
    /// Everybody may pass, by the host's permission bits.
    pub is_open_to_all: bool,
    /// The host's own access list, if that is what it says.
    pub list: Vec<PosixEntry>,
    /// The host hands a list of its own down.
    pub hands_list_down: bool,
    /// Permission bits, owner and group that it was made of.
    pub says: (u32, u32, u32),
    /// [`Stat::fixed`], which binds everybody.
    pub is_fixed: bool,
    /// It is what the host has made of a stored descriptor, and is to be stored as such.
    pub is_overtaken: bool,
}

impl Security {
    /// Whether it is still what a file with these figures has, as far as they tell.
    pub fn fits(&self, stat: &Stat) -> bool {
        self.says == (stat.mode, stat.uid, stat.gid) && self.is_fixed == stat.fixed
    }

    /// The permission bits that the host has for somebody, by its own list where there is one.
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

    /// Whether the host's permission bits or its list let somebody run a file: the right to run says more on other systems.
    pub fn runs(&self, caller: &Caller<'_>) -> bool {
        let who = caller.identity;
        let root = who.unbound && self.says.0 & 0o111 != 0;
        root || !who.unbound && self.host_bits(who.uid, who.gid, &who.host_groups) & 0o1 != 0
    }

    /// Whether the host lets somebody remove whatever is in this directory.
    pub fn lets_remove(&self, actor: &Actor) -> bool {
        let may_write = self.host_bits(actor.uid, actor.gid, &actor.groups) & 0o3 == 0o3;
        may_write && (self.says.0 & STICKY == 0 || actor.uid == self.says.1)
    }
}

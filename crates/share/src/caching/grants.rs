//! The caching rights on one stream: granting, breaking, answering, expiring.
//!
//! Each holder has one entry. An entry is at rest, or a break of it runs: then `told` is what its
//! holder was told it may keep, and `wanted` what it will have to come down to in the end, since other
//! requests may need more meanwhile. An answer leads to `held = keep`, and where that is still more
//! than `wanted`, to the next break.
//!
//! | right | broken by | down to | the request waits |
//! |---|---|---|---|
//! | WRITE | another open for data | without WRITE | yes |
//! | HANDLE | a conflict of sharing, a rename, a deletion | without HANDLE | yes |
//! | anything with WRITE | replacing or changing data | nothing | yes |
//! | READ, READ and HANDLE | replacing or changing data | nothing | no |
//!
//! What can be lost without work at the holder (READ alone) is lost at once and needs no answer.

use volume::NodeId;

use crate::{BreakNotice, CacheKey, Caching, ClientKey, Refusal};

/// Whose request it is, as far as caching rights are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asker {
    /// The client; none for somebody on the host.
    pub client: Option<ClientKey>,
    /// The key its open carries, and whether that is shared between opens.
    pub key: Option<(CacheKey, bool)>,
    /// The key of the right on the parent that it does not break.
    pub parent: Option<CacheKey>,
}

impl Asker {
    /// Somebody who holds nothing: a program on the host.
    pub const NOBODY: Asker = Asker { client: None, key: None, parent: None };
}

/// What a request needs of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Another open that reads the descriptor and no data: in the way only of who holds under no key.
    Look,
    /// Another open that reads or writes data.
    Open,
    /// An open that throws the data away.
    Replace,
    /// An open that conflicts with one that is only kept open.
    CloseKept,
    /// To rename or remove.
    Rename,
    /// To change data, the size, or to lock bytes.
    Change,
    /// To change the entries of this directory.
    Entries,
}

/// A break that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Breaking {
    told: Caching,
    wanted: Caching,
    deadline: u64,
}

/// One holder.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Holding {
    client: ClientKey,
    key: CacheKey,
    keyed: bool,
    held: Caching,
    breaking: Option<Breaking>,
    epoch: u16,
    /// The client counts the epochs along.
    counts: bool,
    opens: u32,
}

/// What somebody holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// What.
    pub state: Caching,
    /// Counted up with each change.
    pub epoch: u16,
    /// What it is being broken to, when it is.
    pub breaking: Option<Caching>,
}

/// What the rest of the node has to say to a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// Opens by others (under no key or another one) that read, write or delete.
    pub others: bool,
    /// The stream goes with its last open.
    pub delete_pending: bool,
    /// Somebody holds byte ranges.
    pub ranges: bool,
    /// It is a directory.
    pub directory: bool,
}

/// What a request has to do after asking for something.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    /// To be sent.
    pub notices: Vec<BreakNotice>,
    /// Whether the request must wait for answers.
    pub wait: bool,
}

/// The rights on one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Grants {
    list: Vec<Holding>,
}

impl Holding {
    fn is(&self, client: ClientKey, key: CacheKey, keyed: bool) -> bool {
        (self.client, self.key, self.keyed) == (client, key, keyed)
    }

    fn belongs_to(&self, asker: &Asker) -> bool {
        asker.client == Some(self.client) && asker.key == Some((self.key, self.keyed))
    }

    fn grant(&self) -> Grant {
        Grant { state: self.held, epoch: self.epoch, breaking: self.breaking.map(|b| b.told) }
    }

    /// What `need` leaves of this right, and whether the request waits until it is so.
    // MS-FSA 2.1.4.12
    fn left_by(&self, need: Need) -> (Caching, bool) {
        let exclusive = self.held.contains(Caching::WRITE);
        match need {
            Need::Look if self.keyed => (self.held, false),
            Need::Look | Need::Open if !self.keyed && exclusive => (Caching::READ, true),
            Need::Look => (self.held, false),
            Need::Open => (self.held - Caching::WRITE, exclusive),
            Need::Replace | Need::Change => (Caching::empty(), exclusive),
            // Those who hold under no key know no such thing as handles, only the topmost level.
            Need::CloseKept if !self.keyed => (self.held, false),
            Need::Rename if !self.keyed && self.held.contains(Caching::HANDLE) => (Caching::empty(), true),
            Need::CloseKept | Need::Rename => (self.held - Caching::HANDLE, true),
            Need::Entries => (Caching::empty(), false),
        }
    }

    /// Whether `asker` is the holder itself, which is never broken by what it does.
    fn is_spared(&self, asker: &Asker, need: Need) -> bool {
        match need {
            Need::Entries => asker.client == Some(self.client) && asker.parent == Some(self.key),
            // Under no key, the right to read is lost also by one's own change.
            // MS-FSA 2.1.4.12
            Need::Change | Need::Replace if !self.keyed && self.held == Caching::READ => false,
            _ => self.belongs_to(asker),
        }
    }

    /// The epoch as its client is told it.
    fn told_epoch(&self) -> u16 {
        if self.counts { self.epoch } else { 0 }
    }

    /// Starts a break down to `to`; the notice says whether it must be answered.
    fn start(&mut self, node: NodeId, to: Caching, deadline: u64) -> BreakNotice {
        let from = self.held;
        let answer = from.intersects(Caching::WRITE | Caching::HANDLE);
        self.epoch = self.epoch.wrapping_add(1);
        if answer {
            self.breaking = Some(Breaking { told: to, wanted: to, deadline });
        } else {
            self.held = to;
        }
        BreakNotice {
            node,
            client: self.client,
            key: self.key,
            keyed: self.keyed,
            from,
            to,
            epoch: self.told_epoch(),
            answer,
        }
    }
}

impl Grants {
    /// Whether nobody holds anything.
    pub fn is_empty(&self) -> bool {
        self.list.iter().all(|h| h.held.is_empty())
    }

    /// Whether an open under another key holds what only the topmost unkeyed level gives; such a right
    /// goes before sharing is looked at.
    pub fn has_unkeyed_handle(&self, asker: &Asker) -> bool {
        let topmost = Caching::READ | Caching::WRITE | Caching::HANDLE;
        self.list.iter().any(|h| !h.keyed && h.held == topmost && !h.belongs_to(asker))
    }

    /// Takes from others what `need` leaves them no longer.
    // MS-FSA 2.1.4.12
    pub fn require(&mut self, node: NodeId, asker: &Asker, need: Need, deadline: u64) -> Broken {
        let mut broken = Broken::default();
        for holding in &mut self.list {
            if holding.is_spared(asker, need) {
                continue;
            }
            let (left, waits) = holding.left_by(need);
            if left == holding.held {
                continue;
            }
            match &mut holding.breaking {
                Some(breaking) => {
                    breaking.wanted &= left;
                    broken.wait |= waits || holding.held.contains(Caching::WRITE);
                }
                None => {
                    broken.notices.push(holding.start(node, left, deadline));
                    broken.wait |= waits && holding.breaking.is_some();
                }
            }
        }
        self.drop_empty();
        broken
    }

    /// Grants as much as can be had of `want`, to a new open under this key.
    // MS-FSA 2.1.5.18
    // MS-SMB2 3.3.5.9.8
    // MS-SMB2 3.3.5.9.11
    pub fn grant(
        &mut self,
        client: ClientKey,
        (key, keyed): (CacheKey, bool),
        want: Caching,
        first_epoch: Option<u16>,
        around: Surroundings,
    ) -> Grant {
        let (epoch, counts) = (first_epoch.unwrap_or(0), first_epoch.is_some());
        let possible = self.possible(client, key, keyed, want, around);
        if let Some(own) = self.list.iter_mut().find(|h| h.is(client, key, keyed)) {
            own.opens += 1;
            // A right is raised to just what is asked for, never lowered by opening; and not while it is
            // being broken.
            let asked = if around.directory { want - Caching::WRITE } else { want };
            let raises = own.breaking.is_none()
                && possible == asked
                && possible.contains(own.held)
                && possible != own.held;
            if raises {
                own.held = possible;
                own.epoch = own.epoch.wrapping_add(1);
            }
            return own.grant();
        }
        if possible.is_empty() && !keyed {
            return Grant { state: possible, epoch, breaking: None };
        }
        let epoch = if possible.is_empty() { epoch } else { epoch.wrapping_add(1) };
        let holding = Holding { client, key, keyed, held: possible, breaking: None, epoch, counts, opens: 1 };
        let grant = holding.grant();
        self.list.push(holding);
        grant
    }

    fn possible(
        &self,
        client: ClientKey,
        key: CacheKey,
        keyed: bool,
        want: Caching,
        around: Surroundings,
    ) -> Caching {
        let others = || self.list.iter().filter(|h| !h.is(client, key, keyed) && !h.held.is_empty());
        let mut give = want;
        if around.directory {
            give -= Caching::WRITE;
            if !keyed {
                return Caching::empty();
            }
        }
        if !give.contains(Caching::READ) || others().any(|h| h.held.contains(Caching::WRITE)) {
            return Caching::empty();
        }
        if give.contains(Caching::WRITE) && (around.others || others().next().is_some()) {
            give -= Caching::WRITE;
            if !keyed {
                give = Caching::READ;
            }
        }
        // Who may keep a file open and who holds the plain right to read under no key exclude each other.
        if keyed && others().any(|h| !h.keyed) {
            give -= Caching::HANDLE;
        }
        if !keyed && others().any(|h| h.held.contains(Caching::HANDLE)) {
            return Caching::empty();
        }
        if around.ranges && !give.contains(Caching::WRITE) {
            return Caching::empty();
        }
        if around.delete_pending {
            give -= Caching::HANDLE;
        }
        give
    }

    /// Takes an answer to a break.
    ///
    /// # Errors
    /// [`Refusal::NoSuchGrant`] when no break of it runs; [`Refusal::TooMuchKept`].
    // MS-FSA 2.1.5.19
    // MS-SMB2 3.3.5.22
    pub fn acknowledge(
        &mut self,
        node: NodeId,
        (client, key, keyed): (ClientKey, CacheKey, bool),
        keep: Caching,
        deadline: u64,
    ) -> Result<(Grant, Option<BreakNotice>), Refusal> {
        let own = self.list.iter_mut().find(|h| h.is(client, key, keyed)).ok_or(Refusal::NoSuchGrant)?;
        let breaking = own.breaking.ok_or(Refusal::NoSuchGrant)?;
        if !breaking.told.contains(keep) {
            return Err(Refusal::TooMuchKept);
        }
        own.breaking = None;
        own.held = keep;
        let answered = own.grant();
        let left = breaking.wanted & keep;
        // A break that follows an answer goes down by the right to read, one step at a time.
        let exclusive_or_kept = keep.intersects(Caching::WRITE | Caching::HANDLE);
        let step = if own.keyed && exclusive_or_kept && left.is_empty() { Caching::READ } else { left };
        let epoch = own.epoch;
        let told = if own.counts { epoch } else { 0 };
        let next = (left != keep).then(|| own.start(node, step, deadline));
        // A further step of the same break is no change of its own to who counts along.
        own.epoch = epoch;
        let next = next.map(|notice| BreakNotice { epoch: told, ..notice });
        if let Some(breaking) = &mut own.breaking {
            breaking.wanted = left;
        }
        self.drop_empty();
        Ok((answered, next))
    }

    /// One open under this key was closed; true when somebody may now go on.
    pub fn release(&mut self, client: ClientKey, key: CacheKey, keyed: bool) -> bool {
        let Some(at) = self.list.iter().position(|h| h.is(client, key, keyed)) else {
            return false;
        };
        self.list[at].opens -= 1;
        if self.list[at].opens > 0 {
            return false;
        }
        !self.list.swap_remove(at).held.is_empty()
    }

    /// Takes a right away whose holder cannot be reached; true when there was one.
    pub fn revoke(&mut self, client: ClientKey, key: CacheKey, keyed: bool) -> bool {
        let Some(own) = self.list.iter_mut().find(|h| h.is(client, key, keyed)) else {
            return false;
        };
        let had = !own.held.is_empty();
        (own.held, own.breaking) = (Caching::empty(), None);
        self.drop_empty();
        had
    }

    /// Takes away every right whose break nobody answered in time; true when there was one.
    // MS-SMB2 3.3.6.5
    pub fn expire(&mut self, now: u64) -> bool {
        let mut any = false;
        for holding in &mut self.list {
            if holding.breaking.is_some_and(|b| b.deadline <= now) {
                (holding.held, holding.breaking) = (Caching::empty(), None);
                any = true;
            }
        }
        self.drop_empty();
        any
    }

    /// What somebody holds.
    pub fn of(&self, client: ClientKey, key: CacheKey, keyed: bool) -> Option<Grant> {
        self.list.iter().find(|h| h.is(client, key, keyed)).map(Holding::grant)
    }

    /// A key stays known, even with nothing, while opens are under it; a right of one open does not.
    fn drop_empty(&mut self) {
        self.list.retain(|h| h.keyed || !h.held.is_empty());
    }
}

#[cfg(test)]
mod tests;

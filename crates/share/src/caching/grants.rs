//! The caching rights on one stream: granting, breaking, answering, expiring.
//!
//! Each holder has one entry. An entry is at rest, or a break of it runs: then `told` is what its
//! holder was told it may keep, and `wanted` what it will have to come down to in the end, since other
//! requests may need more meanwhile. An answer leads to `held = keep`, and where that is still more
//! than `wanted`, to the next step of the same break. A break that began with WRITE keeps those who read
//! or write data waiting until its last step is answered.
//!
//! | right | broken by | down to | the request waits |
//! |---|---|---|---|
//! | WRITE | another open for data | without WRITE | yes |
//! | HANDLE | a conflict of sharing, a rename, a deletion, a new descriptor | without HANDLE | yes |
//! | anything with WRITE | replacing or changing data | nothing | yes |
//! | anything that is given back as a whole | another open for writing (with WRITE: any for data), a change of attributes or names, and all that breaks HANDLE | nothing | yes |
//! | READ, READ and HANDLE | replacing or changing data | nothing | no |
//! | anything on a directory | a change of its entries | nothing | no |
//!
//! What can be lost without work at the holder (READ alone) is lost at once and needs no answer.

use volume::NodeId;

use crate::{BreakNotice, CacheKey, Caching, CachingRequest, ClientKey, Refusal};

/// Who holds a right: client, key, and whether opens share it.
pub(crate) type Holder = (ClientKey, CacheKey, bool);

/// Whose request it is, as far as caching rights are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asker {
    /// The client; none for somebody on the host.
    pub client: Option<ClientKey>,
    /// The key its open carries, and whether that is shared between opens.
    pub key: Option<(CacheKey, bool)>,
    /// The key of the right on the parent that it does not break.
    pub parent: Option<CacheKey>,
    /// Its rights are given back as a whole ([`CachingRequest::whole`]): a client of NFS.
    pub whole: bool,
}

impl Asker {
    /// Somebody who holds nothing: a program on the host.
    pub const NOBODY: Asker = Asker { client: None, key: None, parent: None, whole: false };
}

/// What a request needs of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Another open that reads the descriptor and no data: in the way only of who holds under no key.
    Look,
    /// Another open that reads data.
    Open,
    /// Another open that writes data.
    OpenToWrite,
    /// Another open that removes the name when it is closed.
    Delete,
    /// An open that throws the data away.
    Replace,
    /// An open that conflicts with one that is only kept open.
    CloseKept,
    /// To rename or remove.
    Rename,
    /// To change data, the size, or to lock bytes.
    Change,
    /// To change attributes or how many names there are: in the way only of who believes these too, and gives all back
    /// as a whole.
    Attributes,
    /// To change the entries of this directory.
    Entries,
}

/// By when those must have answered whose right is broken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Deadlines {
    pub single: u64,
    /// Whose right is given back as a whole.
    pub whole: u64,
}

/// A break that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Breaking {
    /// What was held before its first step.
    from: Caching,
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
    /// The client counts the epochs along: as the first open under the key said.
    counts: bool,
    /// The key on the parent that the first open named.
    parent: Option<CacheKey>,
    opens: u32,
    /// Given back as a whole, and before somebody opens for writing.
    whole: bool,
    /// The connection over which an open was last answered.
    via: u64,
}

/// What somebody holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// What.
    pub state: Caching,
    /// Counted up with each change, when the client counts along.
    pub epoch: Option<u16>,
    /// The key of the right on the parent directory, as the first open under this key named it.
    pub parent: Option<CacheKey>,
    /// What it is being broken to, when it is.
    pub breaking: Option<Caching>,
    /// It is given back as a whole ([`CachingRequest::whole`]).
    pub whole: bool,
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
    /// Opens by others that write.
    pub writers: bool,
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
        Grant {
            state: self.held,
            epoch: self.counts.then_some(self.epoch),
            parent: self.parent,
            breaking: self.breaking.map(|b| b.told),
            whole: self.whole,
        }
    }

    /// What `need` leaves of this right, and whether the request waits until it is so.
    // MS-FSA 2.1.4.12
    fn left_by(&self, need: Need) -> (Caching, bool) {
        let exclusive = self.breaking.map_or(self.held, |b| b.from).contains(Caching::WRITE);
        let kept = self.held.contains(Caching::HANDLE);
        if self.whole {
            let stays = match need {
                Need::Look => true,
                Need::Open => !exclusive,
                _ => false,
            };
            let waits = need != Need::Entries && !self.held.is_empty();
            return if stays { (self.held, false) } else { (Caching::empty(), waits) };
        }
        match need {
            Need::Look if self.keyed => (self.held, false),
            Need::Look | Need::Open | Need::OpenToWrite | Need::Delete if !self.keyed && exclusive => {
                (self.held & Caching::READ, true)
            }
            Need::Look | Need::Attributes => (self.held, false),
            // The right to keep the file open goes when the name is marked, not with the open that will mark it.
            // MS-FSA 2.1.5.1.2
            Need::Open | Need::OpenToWrite | Need::Delete => (self.held - Caching::WRITE, exclusive),
            Need::Replace | Need::Change => (Caching::empty(), exclusive),
            // Those who hold under no key know no such thing as handles, only the topmost level.
            Need::CloseKept if !self.keyed => (self.held, false),
            Need::Rename if !self.keyed && kept => (Caching::empty(), true),
            Need::CloseKept | Need::Rename => (self.held - Caching::HANDLE, kept),
            Need::Entries => (Caching::empty(), false),
        }
    }

    /// Whether `asker` is the holder itself, which is never broken by what it does.
    fn is_spared(&self, asker: &Asker, need: Need) -> bool {
        match need {
            // Whose client it is does not matter.
            // MS-SMB2 3.3.1.4
            // MS-FSA 2.1.4.12.2
            Need::Entries => self.keyed && asker.parent == Some(self.key),
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
            self.breaking = Some(Breaking { from, told: to, wanted: to, deadline });
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
            entries: false,
            by_keyed: false,
            via: Some(self.via),
            origin: None,
        }
    }
}

impl Grants {
    /// Whether nobody holds anything.
    pub fn is_empty(&self) -> bool {
        self.list.iter().all(|h| h.held.is_empty())
    }

    /// Whether somebody may write later and gives that back only with all they have.
    pub fn writes_as_a_whole(&self) -> bool {
        self.list.iter().any(|h| h.whole && h.held.contains(Caching::WRITE))
    }

    /// Whether an open under another key holds what only the topmost unkeyed level gives; such a right
    /// goes before sharing is looked at.
    pub fn has_unkeyed_handle(&self, asker: &Asker) -> bool {
        let topmost = Caching::READ | Caching::WRITE | Caching::HANDLE;
        self.list.iter().any(|h| !h.keyed && h.held == topmost && !h.belongs_to(asker))
    }

    /// Takes from others what `need` leaves them no longer.
    // MS-FSA 2.1.4.12
    pub fn require(&mut self, node: NodeId, asker: &Asker, need: Need, deadlines: Deadlines) -> Broken {
        let mut broken = Broken::default();
        for holding in &mut self.list {
            if holding.is_spared(asker, need) {
                continue;
            }
            let (left, waits) = holding.left_by(need);
            if left == holding.held && !waits {
                continue;
            }
            match &mut holding.breaking {
                Some(breaking) => {
                    breaking.wanted &= left;
                    broken.wait |= waits;
                }
                None => {
                    let deadline = if holding.whole { deadlines.whole } else { deadlines.single };
                    let notice = holding.start(node, left, deadline);
                    broken.wait |= waits && notice.answer;
                    let by_keyed = asker.key.is_some_and(|(_, keyed)| keyed);
                    let via = notice.via.filter(|_| asker.client.is_none() || asker.whole);
                    broken.notices.push(BreakNotice {
                        entries: need == Need::Entries,
                        by_keyed,
                        via,
                        ..notice
                    });
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
    pub fn grant(&mut self, client: ClientKey, request: &CachingRequest, around: Surroundings) -> Grant {
        let CachingRequest { key, want, keyed, parent, epoch: first, whole, via } = *request;
        let want = if whole && around.writers { Caching::empty() } else { want };
        let possible = self.possible(client, key, keyed, want, around);
        // READ without HANDLE is lost at once, and nobody would wait until such a holder has given it back.
        // RFC 8881 10.4
        let is_kept = possible.contains(Caching::READ | Caching::HANDLE);
        let possible = if whole && !is_kept { Caching::empty() } else { possible };
        if let Some(own) = self.list.iter_mut().find(|h| h.is(client, key, keyed)) {
            own.opens += 1;
            own.whole |= whole;
            own.via = via;
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
            return Grant { state: possible, epoch: first, parent, breaking: None, whole };
        }
        let epoch = first.unwrap_or(0).wrapping_add(u16::from(!possible.is_empty()));
        let (breaking, counts, opens) = (None, first.is_some(), 1);
        let held = possible;
        let holding =
            Holding { client, key, keyed, held, breaking, epoch, counts, parent, opens, whole, via };
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
        (client, key, keyed): Holder,
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
        // A break that follows an answer goes down by the right to read, one step at a time. Each step counts an epoch: a
        // client may pass over a notice that does not (MS-SMB2 3.2.5.19.2, 3.3.4.7).
        let exclusive_or_kept = keep.intersects(Caching::WRITE | Caching::HANDLE);
        let step = if own.keyed && exclusive_or_kept && left.is_empty() { Caching::READ } else { left };
        let next = (left != keep).then(|| own.start(node, step, deadline));
        if let Some(step) = &mut own.breaking {
            (step.from, step.wanted) = (breaking.from, left);
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

    /// Whether a break runs of which the holder was told that it may keep `to`.
    pub fn is_told(&self, &(client, key, keyed): &Holder, to: Caching) -> bool {
        let own = self.list.iter().find(|h| h.is(client, key, keyed));
        own.and_then(|own| own.breaking).is_some_and(|breaking| breaking.told == to)
    }

    /// By when somebody must have answered, when a break of theirs runs.
    pub fn deadline_of(&self, &(client, key, keyed): &Holder) -> Option<u64> {
        let own = self.list.iter().find(|h| h.is(client, key, keyed))?;
        own.breaking.map(|breaking| breaking.deadline)
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

    /// Takes away every right whose break nobody answered in time, and says whose they were.
    // MS-SMB2 3.3.6.5
    pub fn expire(&mut self, now: u64) -> Vec<Holder> {
        let mut lost = Vec::new();
        for holding in &mut self.list {
            if holding.breaking.is_some_and(|b| b.deadline <= now) {
                (holding.held, holding.breaking) = (Caching::empty(), None);
                lost.push((holding.client, holding.key, holding.keyed));
            }
        }
        self.drop_empty();
        lost
    }

    /// Gives a right back that an open had before a restart; the opens under one key share it.
    pub fn restore(&mut self, (client, key, keyed): Holder, was: Grant) {
        if let Some(own) = self.list.iter_mut().find(|h| h.is(client, key, keyed)) {
            own.opens += 1;
            return;
        }
        let Grant { state: held, epoch, parent, whole, .. } = was;
        let counts = epoch.is_some();
        let epoch = epoch.unwrap_or(0);
        let (breaking, opens, via) = (None, 1, 0);
        self.list.push(Holding {
            client,
            key,
            keyed,
            held,
            breaking,
            epoch,
            counts,
            parent,
            opens,
            whole,
            via,
        });
    }

    /// Moves the time by which a running break must be answered; the notice that tells its holder of it.
    pub fn postpone(
        &mut self,
        node: NodeId,
        (client, key, keyed): Holder,
        deadline: u64,
    ) -> Option<BreakNotice> {
        let own = self.list.iter_mut().find(|h| h.is(client, key, keyed))?;
        let breaking = own.breaking.as_mut()?;
        breaking.deadline = deadline;
        let (from, to, epoch) = (own.held, breaking.told, own.told_epoch());
        Some(BreakNotice {
            node,
            client,
            key,
            keyed,
            from,
            to,
            epoch,
            answer: true,
            entries: false,
            by_keyed: false,
            via: None,
            origin: None,
        })
    }

    /// A right of one open goes over to another client, as that open does.
    pub fn hand_over(&mut self, (client, key, keyed): Holder, to: ClientKey) {
        if let Some(own) = self.list.iter_mut().find(|h| h.is(client, key, keyed)) {
            own.client = to;
        }
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

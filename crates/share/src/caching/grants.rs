//! The caching rights on one stream: grant, break, acknowledge, expire.
//!
//! Each holder has one entry. An entry is at rest, or a break of it runs. During a break, `allowed` is the
//! right that its notice allowed the holder to keep. `target` is the right that must remain in the end; it
//! can be smaller, because other requests may need more meanwhile. An acknowledgment sets `held = keep`. If
//! that is still more than `target`, the next step of the same break follows. If a break began with WRITE,
//! requests to read or write data wait until its last step is acknowledged.
//!
//! | right | broken by | down to | the request waits |
//! |---|---|---|---|
//! | WRITE | another open for data | without WRITE | yes |
//! | HANDLE | a conflict of sharing, a rename, a deletion, a new descriptor | without HANDLE | yes |
//! | anything with WRITE | replacing or changing data | nothing | yes |
//! | anything that is released as a whole | see below | nothing | yes |
//! | READ, READ and HANDLE | replacing or changing data | nothing | no |
//! | anything on a directory | a change of its entries | nothing | no |
//!
//! A right that is released as a whole is broken by another open for writing (with WRITE: by any for data),
//! by a change of attributes or names, and by everything that breaks HANDLE.
//!
//! A right that its holder can lose without any work (READ alone) is lost at once and needs no
//! acknowledgment.

use volume::NodeId;

use crate::{BreakNotice, CacheKey, Caching, CachingRequest, ClientKey, Refusal};

/// The holder of a right: client, key, and whether opens share the key.
pub(crate) type Holder = (ClientKey, CacheKey, bool);

/// The origin of a request, as far as caching rights are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Requester {
    /// The client; none for a program on the host.
    pub client: Option<ClientKey>,
    /// The key of its open, and whether opens share that key.
    pub key: Option<(CacheKey, bool)>,
    /// The key of the right on the parent directory that the request does not break.
    pub parent: Option<CacheKey>,
    /// Its rights are released as a whole ([`CachingRequest::whole`]). This holds for a client of NFS.
    pub whole: bool,
}

impl Requester {
    /// A program on the host, which holds no right.
    pub const NOBODY: Requester = Requester { client: None, key: None, parent: None, whole: false };
}

/// The access that a request needs other holders to permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Another open that reads the descriptor and no data. It conflicts only with holders without a shared
    /// key.
    Look,
    /// Another open that reads data.
    Open,
    /// Another open that writes data.
    OpenToWrite,
    /// Another open that removes the name when it is closed.
    Delete,
    /// An open that discards the data.
    Replace,
    /// An open that conflicts with one that a client keeps open only for its cache.
    CloseKept,
    /// To rename or remove a name.
    Rename,
    /// To change data or the size, or to lock bytes.
    Change,
    /// To change attributes or the number of names. It conflicts only with holders that cache these too and
    /// release their right as a whole.
    Attributes,
    /// To change the entries of this directory.
    Entries,
}

/// The times by which the holders of broken rights must acknowledge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Deadlines {
    pub single: u64,
    /// The time for rights that are released as a whole.
    pub whole: u64,
    /// The time at which the holder of a right on a directory is told once more, if the directory changes
    /// again before the holder acknowledges.
    pub again: u64,
}

/// A break that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Breaking {
    /// The right before the first step of the break.
    from: Caching,
    allowed: Caching,
    target: Caching,
    deadline: u64,
    /// A change of a directory's entries broke the right.
    entries: bool,
    /// The time at which the notice is repeated.
    again: Option<u64>,
}

/// The right of one holder.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HeldRight {
    client: ClientKey,
    key: CacheKey,
    keyed: bool,
    held: Caching,
    breaking: Option<Breaking>,
    epoch: u16,
    /// Whether the client counts epochs, as its first open under the key said.
    counts: bool,
    /// The key on the parent that the first open named.
    parent: Option<CacheKey>,
    opens: u32,
    /// The right is released as a whole, and before another client opens the file for writing.
    whole: bool,
    /// The connection over which an open last got its reply.
    via: u64,
}

/// The right that a holder has now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The right.
    pub state: Caching,
    /// A counter that grows with each change; none if the client does not count epochs.
    pub epoch: Option<u16>,
    /// The key of the right on the parent directory, as the first open under this key named it.
    pub parent: Option<CacheKey>,
    /// The right to which it is being broken, if a break runs.
    pub breaking: Option<Caching>,
    /// It is released as a whole ([`CachingRequest::whole`]).
    pub whole: bool,
}

/// The state of the rest of the node, as far as it limits a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GrantConditions {
    /// Opens by others (under no key or another one) that read, write or delete.
    pub others: bool,
    /// The stream is deleted with its last open.
    pub delete_pending: bool,
    /// There are byte ranges on the stream.
    pub ranges: bool,
    /// It is a directory.
    pub directory: bool,
    /// Opens by others that write.
    pub writers: bool,
}

/// The result of [`Grants::require`]: the work that the request has to do.
#[derive(Debug, Default)]
pub(crate) struct BreakResult {
    /// Notices to send.
    pub notices: Vec<BreakNotice>,
    /// Whether the request must wait for acknowledgments.
    pub wait: bool,
    /// Whether a notice is to be repeated at [`Deadlines::again`].
    pub again: bool,
}

/// The result of [`Grants::expire`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpireResult {
    /// The holders whose rights were revoked.
    pub lost: Vec<Holder>,
    /// Notices to send once more.
    pub notices: Vec<BreakNotice>,
}

/// The rights on one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Grants {
    list: Vec<HeldRight>,
}

impl HeldRight {
    fn is(&self, client: ClientKey, key: CacheKey, keyed: bool) -> bool {
        (self.client, self.key, self.keyed) == (client, key, keyed)
    }

    fn belongs_to(&self, requester: &Requester) -> bool {
        requester.client == Some(self.client) && requester.key == Some((self.key, self.keyed))
    }

    fn grant(&self) -> Grant {
        Grant {
            state: self.held,
            epoch: self.counts.then_some(self.epoch),
            parent: self.parent,
            breaking: self.breaking.map(|b| b.allowed),
            whole: self.whole,
        }
    }

    /// The part of this right that `need` permits, and whether the request waits until the rest is gone.
    // MS-FSA 2.1.4.12
    fn permitted_by(&self, need: Need) -> (Caching, bool) {
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
            // The right to keep the file open is lost when the name is marked, not by the open that will mark
            // it.
            // MS-FSA 2.1.5.1.2
            Need::Open | Need::OpenToWrite | Need::Delete => (self.held - Caching::WRITE, exclusive),
            Need::Replace | Need::Change => (Caching::empty(), exclusive),
            // A holder without a shared key has no handle right, only the topmost level.
            Need::CloseKept if !self.keyed => (self.held, false),
            Need::Rename if !self.keyed && kept => (Caching::empty(), true),
            Need::CloseKept | Need::Rename => (self.held - Caching::HANDLE, kept),
            Need::Entries => (Caching::empty(), false),
        }
    }

    /// Whether `requester` is the holder itself. Its own actions never break its right.
    fn is_spared(&self, requester: &Requester, need: Need) -> bool {
        match need {
            // The client does not matter here.
            // MS-SMB2 3.3.1.4
            // MS-FSA 2.1.4.12.2
            Need::Entries => self.keyed && requester.parent == Some(self.key),
            // Without a shared key, a change by the holder itself also ends its right to read.
            // MS-FSA 2.1.4.12
            Need::Change | Need::Replace if !self.keyed && self.held == Caching::READ => false,
            _ => self.belongs_to(requester),
        }
    }

    /// The epoch as its client sees it.
    fn sent_epoch(&self) -> u16 {
        if self.counts { self.epoch } else { 0 }
    }

    /// Starts a break down to `to`. The notice says whether it must be acknowledged.
    fn start(&mut self, node: NodeId, to: Caching, deadline: u64) -> BreakNotice {
        let from = self.held;
        let answer = from.intersects(Caching::WRITE | Caching::HANDLE);
        self.epoch = self.epoch.wrapping_add(1);
        if answer {
            let (entries, again) = (false, None);
            self.breaking = Some(Breaking { from, allowed: to, target: to, deadline, entries, again });
        } else {
            self.held = to;
        }
        BreakNotice { via: Some(self.via), ..self.notice(node, from, to, answer) }
    }

    /// A notice of the break from one right to another.
    fn notice(&self, node: NodeId, from: Caching, to: Caching, answer: bool) -> BreakNotice {
        BreakNotice {
            node,
            client: self.client,
            key: self.key,
            keyed: self.keyed,
            from,
            to,
            epoch: self.sent_epoch(),
            answer,
            entries: false,
            by_keyed: false,
            via: None,
            origin: None,
        }
    }
}

impl Grants {
    /// Whether no right is held.
    pub fn is_empty(&self) -> bool {
        self.list.iter().all(|h| h.held.is_empty())
    }

    /// Whether a holder may write later and releases that right only as a whole.
    pub fn writes_as_a_whole(&self) -> bool {
        self.list.iter().any(|h| h.whole && h.held.contains(Caching::WRITE))
    }

    /// Whether an open under another key holds the topmost unkeyed level. Such a right is broken before
    /// sharing is checked.
    pub fn has_unkeyed_handle(&self, requester: &Requester) -> bool {
        let topmost = Caching::READ | Caching::WRITE | Caching::HANDLE;
        self.list.iter().any(|h| !h.keyed && h.held == topmost && !h.belongs_to(requester))
    }

    /// Breaks the rights of others that `need` does not permit.
    // MS-FSA 2.1.4.12
    pub fn require(
        &mut self,
        node: NodeId,
        requester: &Requester,
        need: Need,
        deadlines: Deadlines,
    ) -> BreakResult {
        let mut broken = BreakResult::default();
        for holding in &mut self.list {
            if holding.is_spared(requester, need) {
                continue;
            }
            let (left, waits) = holding.permitted_by(need);
            if left == holding.held && !waits {
                continue;
            }
            match &mut holding.breaking {
                Some(breaking) => {
                    breaking.target &= left;
                    broken.wait |= waits;
                    if need == Need::Entries && breaking.entries && breaking.again.is_none() {
                        breaking.again = Some(deadlines.again);
                        broken.again = true;
                    }
                }
                None => {
                    let deadline = if holding.whole { deadlines.whole } else { deadlines.single };
                    let notice = holding.start(node, left, deadline);
                    if let Some(breaking) = &mut holding.breaking {
                        breaking.entries = need == Need::Entries && !holding.whole;
                    }
                    broken.wait |= waits && notice.answer;
                    let by_keyed = requester.key.is_some_and(|(_, keyed)| keyed);
                    let via = notice.via.filter(|_| requester.client.is_none() || requester.whole);
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

    /// Grants as much of `want` as possible to a new open under this key.
    // MS-FSA 2.1.5.18
    // MS-SMB2 3.3.5.9.8
    // MS-SMB2 3.3.5.9.11
    pub fn grant(&mut self, client: ClientKey, request: &CachingRequest, around: GrantConditions) -> Grant {
        let CachingRequest { key, want, keyed, parent, epoch: first, whole, via } = *request;
        let want = if whole && around.writers { Caching::empty() } else { want };
        let possible = self.possible(client, key, keyed, want, around);
        // READ without HANDLE is lost at once, and no request would wait until such a holder has released it.
        // RFC 8881 10.4
        let is_kept = possible.contains(Caching::READ | Caching::HANDLE);
        let possible = if whole && !is_kept { Caching::empty() } else { possible };
        if let Some(own) = self.list.iter_mut().find(|h| h.is(client, key, keyed)) {
            own.opens += 1;
            own.whole |= whole;
            own.via = via;
            // A right is raised to exactly the requested one. Opening never lowers it, and it is not raised
            // during a break.
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
            HeldRight { client, key, keyed, held, breaking, epoch, counts, parent, opens, whole, via };
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
        around: GrantConditions,
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
        // A right to keep a file open and a plain right to read under no key exclude each other.
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

    /// Takes an acknowledgment of a break.
    ///
    /// # Errors
    /// [`Refusal::NoSuchGrant`] if no break of the right runs; [`Refusal::TooMuchKept`].
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
        if !breaking.allowed.contains(keep) {
            return Err(Refusal::TooMuchKept);
        }
        own.breaking = None;
        own.held = keep;
        let answered = own.grant();
        let left = breaking.target & keep;
        // A break that follows an acknowledgment goes down by the right to read, one step at a time. Each
        // step counts an epoch: a client may ignore a notice that does not (MS-SMB2 3.2.5.19.2, 3.3.4.7).
        let exclusive_or_kept = keep.intersects(Caching::WRITE | Caching::HANDLE);
        let step = if own.keyed && exclusive_or_kept && left.is_empty() { Caching::READ } else { left };
        let next = (left != keep).then(|| own.start(node, step, deadline));
        if let Some(step) = &mut own.breaking {
            (step.from, step.target) = (breaking.from, left);
        }
        self.drop_empty();
        Ok((answered, next))
    }

    /// One open under this key was closed. Returns true if a waiting request may now go on.
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

    /// Whether a break runs whose notice allowed the holder to keep `to`.
    pub fn awaits_acknowledgment(&self, &(client, key, keyed): &Holder, to: Caching) -> bool {
        let own = self.list.iter().find(|h| h.is(client, key, keyed));
        own.and_then(|own| own.breaking).is_some_and(|breaking| breaking.allowed == to)
    }

    /// The time by which the holder must acknowledge, if a break of its right runs.
    pub fn deadline_of(&self, &(client, key, keyed): &Holder) -> Option<u64> {
        let own = self.list.iter().find(|h| h.is(client, key, keyed))?;
        own.breaking.map(|breaking| breaking.deadline)
    }

    /// Revokes a right whose holder cannot be reached. Returns true if there was one.
    pub fn revoke(&mut self, client: ClientKey, key: CacheKey, keyed: bool) -> bool {
        let Some(own) = self.list.iter_mut().find(|h| h.is(client, key, keyed)) else {
            return false;
        };
        let had = !own.held.is_empty();
        (own.held, own.breaking) = (Caching::empty(), None);
        self.drop_empty();
        had
    }

    /// Revokes every right whose break was not acknowledged in time, and repeats notices that are due.
    ///
    /// Linux's client before 6.8 loses the break of a directory that arrives while it still takes the grant
    /// in, and would list that directory from memory for ever. So the holder is told once more when the
    /// directory has changed again, and when the server revokes the right. A holder that has lost the right
    /// already ignores the copy (MS-SMB2 3.2.5.19.2).
    // MS-SMB2 3.3.6.5
    pub fn expire(&mut self, node: NodeId, now: u64) -> ExpireResult {
        let mut result = ExpireResult::default();
        for holding in &mut self.list {
            let Some(breaking) = holding.breaking else { continue };
            let notice = holding.notice(node, holding.held, breaking.allowed, breaking.deadline > now);
            if breaking.deadline <= now {
                (holding.held, holding.breaking) = (Caching::empty(), None);
                result.lost.push((holding.client, holding.key, holding.keyed));
                result.notices.extend(breaking.entries.then_some(notice));
            } else if breaking.again.is_some_and(|again| again <= now) {
                holding.breaking = Some(Breaking { again: None, ..breaking });
                result.notices.push(notice);
            }
        }
        self.drop_empty();
        result
    }

    /// Restores a right that an open had before a restart. The opens under one key share it.
    pub fn restore(&mut self, (client, key, keyed): Holder, was: Grant) {
        if let Some(own) = self.list.iter_mut().find(|h| h.is(client, key, keyed)) {
            own.opens += 1;
            return;
        }
        let Grant { state: held, epoch, parent, whole, .. } = was;
        let counts = epoch.is_some();
        let epoch = epoch.unwrap_or(0);
        let (breaking, opens, via) = (None, 1, 0);
        self.list.push(HeldRight {
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

    /// Moves the deadline of a running break. Returns the notice that tells its holder of the break.
    pub fn postpone(
        &mut self,
        node: NodeId,
        (client, key, keyed): Holder,
        deadline: u64,
    ) -> Option<BreakNotice> {
        let own = self.list.iter_mut().find(|h| h.is(client, key, keyed))?;
        let breaking = own.breaking.as_mut()?;
        breaking.deadline = deadline;
        let to = breaking.allowed;
        Some(own.notice(node, own.held, to, true))
    }

    /// Moves the right of one open to another client, together with the open.
    pub fn transfer(&mut self, (client, key, keyed): Holder, to: ClientKey) {
        if let Some(own) = self.list.iter_mut().find(|h| h.is(client, key, keyed)) {
            own.client = to;
        }
    }

    /// The right of a holder.
    pub fn of(&self, client: ClientKey, key: CacheKey, keyed: bool) -> Option<Grant> {
        self.list.iter().find(|h| h.is(client, key, keyed)).map(HeldRight::grant)
    }

    /// The entry of a key stays while opens are under the key, even without a right. The right of a single
    /// open does not.
    fn drop_empty(&mut self) {
        self.list.retain(|h| h.keyed || !h.held.is_empty());
    }
}

#[cfg(test)]
mod tests;

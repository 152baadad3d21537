//! Opens that are kept while their client is gone.
//!
//! A detached open stays among the others of its file with everything it holds: access and denials, byte
//! ranges, caching right, marks for deletion. It ends in one of three ways: it is reclaimed, its time is
//! over, or it yields to a request that needs its caching right. The thread that takes it out of the table of
//! detached opens ([`DetachedTable`](crate::engine::parts::persistence::DetachedTable)) decides which.
//!
//! A client that is back ([`Share::client_returned`]) reclaims its persistent opens before it does anything
//! else. It does not know of the opens that it does not reclaim: they were closed while the server was
//! unreachable, or the reply that created them was lost. Such an open is unclaimed, and is not kept for its
//! whole time. Linux reclaims other opens only when a program uses them. So these count as unclaimed only if
//! the client has removed their name meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::NodeId;
use volume::security::Sid;
use wire::Now;

use crate::caching::grants::Requester;
use crate::engine::Share;
use crate::engine::parts::persistence::{ReclaimOwner, UNCLAIMED_NS, owner};
use crate::engine::values::effects::Effects;
use crate::open::OpenParty;
use crate::persistence::record::JournalRecord;
use crate::{BreakNotice, Caching, Caller, Cause, ClientKey, Detached, Open, Refusal};

/// The time after which an open counts as unclaimed if it conflicts with a request.
const UNCLAIMED_IN_THE_WAY_NS: u64 = 5_000_000_000;
/// The time if it conflicts with a request of that very client.
const UNCLAIMED_IN_ITS_OWN_WAY_NS: u64 = 1_000_000_000;

/// The result of a break whose holder has no client that could hear it.
pub(crate) enum AbsentHolder {
    /// There is a client.
    No,
    /// The opens that held the right yield.
    GivesWay(Vec<Arc<Open>>),
    /// The right stays until its opens are reclaimed or over.
    Stays,
}

/// Whether an open holds no byte ranges. The storage may keep a client's reclaim waiting for long, and a
/// range must not go to another client meanwhile. So an open with ranges is kept for its whole time, unless
/// its own client is in its way.
fn holds_no_ranges(open: &Open) -> bool {
    let mut state = open.file.state.lock();
    !state.stream(&open.stream).ranges.held().any(|range| range.open == open.id)
}

impl Share {
    /// Detaches an open whose client is gone, with all it holds. Requests that wait on its behalf, and its
    /// watch, end.
    ///
    /// # Errors
    /// [`Refusal::NoSuchGrant`] if it is to yield, but has no right to be kept open that could be broken, or
    /// if that right is just being broken; [`Refusal::Exhausted`] if the share keeps as many as it may;
    /// [`Refusal::Gone`] if it is closed or detached already. The open is unchanged then, and the caller has
    /// to close it.
    pub fn detach_open(
        &self,
        open: &Arc<Open>,
        how: Detached,
        cause: impl Into<Cause>,
    ) -> Result<(), Refusal> {
        self.detach_as(open, how, cause.into(), None)
    }

    /// Detaches an open that was just restored. Its client may be back already, and has from now on the time
    /// of an open that it does not reclaim.
    ///
    /// # Errors
    /// As [`Share::detach_open`].
    pub fn detach_restored(&self, open: &Arc<Open>, how: Detached, now: Now) -> Result<(), Refusal> {
        self.detach_as(open, how, now.into(), Some(now.mono_ns))
    }

    fn detach_as(
        &self,
        open: &Arc<Open>,
        how: Detached,
        cause: Cause,
        restored_ns: Option<u64>,
    ) -> Result<(), Refusal> {
        self.report_pending(open, cause);
        let most = self.settings().max_detached;
        let mut state = open.file.state.lock();
        if open.is_closed() || open.is_detached() {
            return Err(Refusal::Gone);
        }
        if how.yields {
            let requester = open.requester();
            let held = requester
                .client
                .zip(requester.key)
                .and_then(|(client, (key, keyed))| state.stream(&open.stream).grants.of(client, key, keyed));
            // Its byte ranges would make others that have the file open wait for it. This is how Windows sees
            // it.
            let may_lock = held.is_some_and(|held| held.state.contains(Caching::WRITE))
                || !state.stream(&open.stream).ranges.held().any(|range| range.open == open.id);
            let is_kept = may_lock
                && held.is_some_and(|held| held.state.contains(Caching::HANDLE) && held.breaking.is_none());
            if !is_kept {
                return Err(Refusal::NoSuchGrant);
            }
        }
        if !self.persistence().detached().enter(open, how, most, restored_ns) {
            return Err(Refusal::Exhausted);
        }
        open.detached.store(true, Ordering::Release);
        // No client is left to wait for anything on its behalf.
        let stream = state.stream(&open.stream);
        let mut wakes = stream.ranges.drain_open(open.id);
        wakes.extend(stream.ranges.ready());
        drop(state);
        self.end_watch(open);
        self.wake_all(wakes);
        Ok(())
    }

    /// Reclaims a detached open for the client and the user of `caller`. Breaks that came meanwhile are sent
    /// now.
    ///
    /// # Errors
    /// [`Refusal::Gone`] if it is not detached, or no longer; [`Refusal::Invalid`] if it shares its right
    /// with opens of another client.
    pub fn reclaim(&self, open: &Arc<Open>, caller: &Caller<'_>) -> Result<(), Refusal> {
        let was = open.requester();
        let moves = was.client != Some(caller.client);
        if moves && was.key.is_some_and(|(_, keyed)| keyed) {
            return Err(Refusal::Invalid);
        }
        let was_owned = owner(open);
        let _ours = self.persistence().detached().take(open.id).ok_or(Refusal::Gone)?;
        if let Some(owner) = was_owned {
            self.persistence().detached().sign(owner, caller.now.mono_ns);
        }
        let requester = Requester { client: Some(caller.client), ..was };
        let deadline = self.break_deadline(was.whole, caller.now);
        let mut state = open.file.state.lock();
        if let Some(member) = state.members.iter_mut().find(|member| member.id == open.id) {
            member.requester = requester;
        }
        let (identity, details) = (Arc::clone(caller.identity), caller.details.cloned());
        *open.party.write() = OpenParty { client: caller.client, identity, requester, details };
        if moves {
            *open.charge.lock() = self.client_memory().charge_open(caller.client, caller.identity);
        }
        if moves && open.is_persistent() {
            self.note_change(JournalRecord::Moved { id: open.id, client: caller.client });
        }
        let mut again = None;
        if let (Some(from), Some((key, keyed))) = (was.client, was.key) {
            let grants = &mut state.stream(&open.stream).grants;
            if moves {
                grants.transfer((from, key, keyed), caller.client);
                self.rights().keys().rename((from, key, keyed), caller.client);
            }
            again = grants.postpone(open.file.id, (caller.client, key, keyed), deadline);
        }
        if again.is_some() {
            self.watch_deadline(&open.file, deadline);
        }
        open.detached.store(false, Ordering::Release);
        // A request that waited for rights that the open might still need learns that they are needed.
        let wakes = if open.is_persistent() { std::mem::take(&mut state.waiting) } else { Vec::new() };
        drop(state);
        self.settle(Effects { notices: again.into_iter().collect(), wakes, cause: caller.cause() });
        Ok(())
    }

    /// The terms on which an open is kept, if its client is gone.
    pub fn detached(&self, open: &Open) -> Option<Detached> {
        if open.is_detached() { self.persistence().detached().of(open.id) } else { None }
    }

    /// Whether a client is left to hear a break. If not, what happens to the right.
    // MS-SMB2 3.3.4.6
    // MS-SMB2 3.3.4.7
    pub(crate) fn absent(&self, notice: &BreakNotice) -> AbsentHolder {
        let holder = (notice.client, notice.key, notice.keyed);
        let Some((file, stream)) = self.rights().keys().find(&holder) else { return AbsentHolder::No };
        let mut state = file.state.lock();
        let mut opens = Vec::new();
        for member in &state.members {
            let same = member.requester.client == Some(notice.client)
                && member.requester.key == Some((notice.key, notice.keyed))
                && Arc::ptr_eq(&member.stream, &stream);
            if !same {
                continue;
            }
            match member.open.upgrade().filter(|open| open.is_detached()) {
                Some(open) => opens.push(open),
                None => return AbsentHolder::No,
            }
        }
        if opens.is_empty() {
            return AbsentHolder::No;
        }
        // An open that is in no table any more is just being reclaimed or closed. It will hear of the break,
        // or go.
        let ends = opens.iter().map(|open| (open, self.persistence().detached().of(open.id)));
        let stay = ends.filter(|(_, how)| how.as_ref().is_none_or(|how| !how.yields));
        let until = stay.map(|(_, how)| how.map_or(u64::MAX, |how| how.until_ns)).max();
        match until {
            Some(until) if notice.answer => {
                state.stream(&stream).grants.postpone(file.id, holder, until);
                AbsentHolder::Stays
            }
            Some(_) => AbsentHolder::Stays,
            None if notice.answer => AbsentHolder::GivesWay(opens),
            None => AbsentHolder::Stays,
        }
    }

    /// Closes opens that yield, unless another thread was quicker.
    pub(crate) fn close_yielding(&self, opens: Vec<Arc<Open>>, cause: Cause) {
        for open in opens {
            if let Some(taken) = self.persistence().detached().take(open.id) {
                self.close_lost(taken, cause);
            }
        }
    }

    /// A client's user is back. From now on it reclaims the opens that it still knows of.
    pub fn client_returned(&self, client: ClientKey, user: &Sid, now: Now) {
        self.persistence().detached().sign((client, *user), now.mono_ns);
    }

    /// Closes opens of these files that are unclaimed, because they conflict with a request. Returns whether
    /// there was one. The caller holds no lock.
    // MS-SMB2 3.3.5.9.10 (exception: a persistent Open whose client is back and does not ask for it is not
    // kept for its whole time)
    pub(crate) fn end_unclaimed_at(&self, files: &[NodeId], client: Option<ClientKey>, cause: Cause) -> bool {
        self.end_unclaimed_by(client, |open| files.contains(&open.file.id), cause)
    }

    /// Closes unclaimed opens whose names prevent the removal of a directory. Returns whether there was one.
    pub(crate) fn end_unclaimed_in(
        &self,
        directory: NodeId,
        client: Option<ClientKey>,
        cause: Cause,
    ) -> bool {
        let is_in =
            |open: &Open| open.link.as_ref().is_some_and(|link| link.parent_and_name().0.id == directory);
        self.end_unclaimed_by(client, is_in, cause)
    }

    /// Closes unclaimed opens that `is_meant` selects, because they conflict with a request of `client`. The
    /// client's own opens are closed after a shorter time than those of others.
    fn end_unclaimed_by(
        &self,
        client: Option<ClientKey>,
        is_meant: impl Fn(&Open) -> bool,
        cause: Cause,
    ) -> bool {
        let is_own = |open: &Open| client.is_some() && open.requester().client == client && is_meant(open);
        let of_its_own = self.end_unclaimed(UNCLAIMED_IN_ITS_OWN_WAY_NS, is_own, |_| true, cause);
        self.end_unclaimed(UNCLAIMED_IN_THE_WAY_NS, is_meant, holds_no_ranges, cause) | of_its_own
    }

    /// Closes unclaimed opens of a file whose name was just removed.
    pub(crate) fn end_unclaimed_removed(&self, removed: &Open, cause: Cause) {
        self.end_unclaimed(UNCLAIMED_NS, |open| open.file.id == removed.file.id, |_| true, cause);
    }

    /// The time when marked names in a directory are removed that wait only for opens that this owner has not
    /// reclaimed since it is back. None if there are no such names.
    pub(crate) fn unclaimed_names_end(&self, directory: NodeId, owner: ReclaimOwner) -> Option<u64> {
        let (sign_ns, opens) = self.persistence().detached().not_taken_up(owner)?;
        let is_going = |open: &Arc<Open>| {
            let link = open.link.as_ref().filter(|link| link.parent_and_name().0.id == directory);
            link.is_some() && open.file.is_deleted(link) && open.may_be_unclaimed()
        };
        opens.iter().any(is_going).then(|| sign_ns.saturating_add(UNCLAIMED_IN_ITS_OWN_WAY_NS))
    }

    /// Closes unclaimed opens that `is_meant` selects, unless `may_end` keeps one. `is_meant` is called under
    /// the lock of the detached opens, and `may_end` under no lock.
    fn end_unclaimed(
        &self,
        after_ns: u64,
        is_meant: impl Fn(&Open) -> bool,
        may_end: impl Fn(&Open) -> bool,
        cause: Cause,
    ) -> bool {
        let (detached, now_ns) = (self.persistence().detached(), cause.now.mono_ns);
        let unclaimed = detached.unclaimed(now_ns, after_ns, is_meant).into_iter();
        let unclaimed = unclaimed.filter(|open| open.may_be_unclaimed() && may_end(open));
        let mut is_any = false;
        for taken in unclaimed.filter_map(|open| detached.take_unclaimed(open.id, now_ns, after_ns)) {
            is_any = true;
            tracing::debug!(
                share = %self.name(),
                open = taken.0.id,
                "an open whose client is back without asking for it is closed"
            );
            self.close_lost(taken, cause);
        }
        is_any
    }

    /// Closes detached opens whose time is over.
    // MS-SMB2 3.3.6.2
    // MS-SMB2 3.3.6.4
    pub(crate) fn end_detached(&self, now: Now) {
        while let Some(taken) = self.persistence().detached().take_ended(now.mono_ns) {
            self.close_lost(taken, now.into());
        }
        if self.persistence().detached().begin_sweep(now.mono_ns) {
            self.end_unclaimed(UNCLAIMED_NS, |_| true, holds_no_ranges, now.into());
        }
    }

    /// Closes every detached open that does not outlive the process, because the share stops and no client
    /// will find it again.
    pub fn end_all_detached(&self, now: Now) {
        self.close_all_lost(self.persistence().detached().ending(), now.into());
    }

    /// Closes detached opens that yield to others, because a resource is short. Returns false if there was
    /// none.
    pub(crate) fn end_absent(&self, cause: Cause) -> bool {
        self.close_all_lost(self.persistence().detached().yielding(), cause)
    }

    /// Closes those that are still detached. Returns false if none is.
    fn close_all_lost(&self, ids: Vec<u64>, cause: Cause) -> bool {
        let mut any = false;
        for taken in ids.into_iter().filter_map(|id| self.persistence().detached().take(id)) {
            self.close_lost(taken, cause);
            any = true;
        }
        any
    }

    /// An open is being closed, so no client can come back for it.
    pub(crate) fn forget_detached(&self, open: &Open) {
        if open.is_detached() {
            self.persistence().detached().take(open.id);
        }
    }

    fn close_lost(&self, (open, how): (Arc<Open>, Detached), cause: Cause) {
        if let Err(why) = self.close(&open, cause) {
            tracing::warn!(share = %self.name(), %why, "a name could not be removed with its last open");
        }
        how.keeper.on_lost(how.token);
    }
}

//! Opens that are kept while their client is gone.
//!
//! A detached open stays among the others of its file with everything it holds: access and deny, byte
//! ranges, caching right, what it marks for deletion. It ends in one of three ways, and whoever takes it
//! out of the table of [`Detachment`] decides which: it is reclaimed, its time is over, or it gives way
//! to somebody who needs its caching right.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use wire::Now;

use super::Share;
use super::waits::Effects;
use crate::caching::grants::Asker;
use crate::lasting::record::Record;
use crate::open::Party;
use crate::{BreakNotice, Caching, Caller, Detached, Open, Refusal};

/// The opens of a share that are detached.
#[derive(Default)]
pub(super) struct Detachment(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    opens: HashMap<u64, (Arc<Open>, Detached)>,
    /// When each is over, and which it is.
    ends: BTreeSet<(u64, u64)>,
}

impl Detachment {
    /// Enters an open; false when there are `most` already.
    fn enter(&self, open: &Arc<Open>, how: Detached, most: usize) -> bool {
        let mut kept = self.0.lock();
        if kept.opens.len() >= most {
            return false;
        }
        kept.ends.insert((how.until_ns, open.id));
        kept.opens.insert(open.id, (Arc::clone(open), how));
        true
    }

    /// Takes an open out; only one caller gets it.
    fn take(&self, id: u64) -> Option<(Arc<Open>, Detached)> {
        let mut kept = self.0.lock();
        let taken = kept.opens.remove(&id)?;
        kept.ends.remove(&(taken.1.until_ns, id));
        Some(taken)
    }

    /// Takes out an open whose time is over.
    fn take_ended(&self, now_ns: u64) -> Option<(Arc<Open>, Detached)> {
        let mut kept = self.0.lock();
        let &(at, id) = kept.ends.first().filter(|(at, _)| *at <= now_ns)?;
        kept.ends.remove(&(at, id));
        kept.opens.remove(&id)
    }

    /// When the next one is over.
    pub fn next_end(&self) -> Option<u64> {
        self.0.lock().ends.first().map(|(at, _)| *at)
    }

    /// Those that end with the process.
    fn ending(&self) -> Vec<u64> {
        let kept = self.0.lock();
        kept.opens.iter().filter(|(_, (open, _))| !open.is_lasting()).map(|(id, _)| *id).collect()
    }

    fn of(&self, id: u64) -> Option<Detached> {
        self.0.lock().opens.get(&id).map(|(_, how)| how.clone())
    }
}

/// What becomes of a break whose holder has nobody to hear it.
pub(super) enum Absent {
    /// Somebody is there.
    No,
    /// The opens that held the right give way.
    GivesWay(Vec<Arc<Open>>),
    /// The right stays until its opens are reclaimed or over.
    Stays,
}

impl Share {
    /// Keeps an open whose client is gone, with all it holds. What waits on its behalf, and its watch, end.
    ///
    /// # Errors
    /// [`Refusal::NoSuchGrant`] when it is to yield, and has no right to be kept open that it could be
    /// asked to give back, or is being asked just now; [`Refusal::Exhausted`] when the share keeps as many
    /// as it may; [`Refusal::Gone`] when it is closed or left already. It is as it was, to be closed by the caller.
    pub fn leave(&self, open: &Arc<Open>, how: Detached, now: Now) -> Result<(), Refusal> {
        self.tell_untold(open, now);
        let most = self.config.load().max_detached;
        let mut state = open.file.state.lock();
        if open.is_closed() || open.is_detached() {
            return Err(Refusal::Gone);
        }
        if how.yields {
            let asker = open.asker();
            let held = asker
                .client
                .zip(asker.key)
                .and_then(|(client, (key, keyed))| state.stream(&open.stream).grants.of(client, key, keyed));
            let is_kept =
                held.is_some_and(|held| held.state.contains(Caching::HANDLE) && held.breaking.is_none());
            if !is_kept {
                return Err(Refusal::NoSuchGrant);
            }
        }
        if !self.detachment.enter(open, how, most) {
            return Err(Refusal::Exhausted);
        }
        open.detached.store(true, Ordering::Release);
        // Nobody is left to wait for anything on its behalf.
        let stream = state.stream(&open.stream);
        let mut wakes = stream.ranges.drain_open(open.id);
        wakes.extend(stream.ranges.ready());
        drop(state);
        self.end_watch(open);
        self.wake_all(wakes);
        Ok(())
    }

    /// Takes a detached open up again, for the client and the user that `caller` is. What was asked of it
    /// meanwhile, it is asked now.
    ///
    /// # Errors
    /// [`Refusal::Gone`] when it is not detached, or no longer; [`Refusal::Invalid`] when it shares its
    /// right with opens of another client.
    pub fn reclaim(&self, open: &Arc<Open>, caller: &Caller<'_>) -> Result<(), Refusal> {
        let was = open.asker();
        let moves = was.client != Some(caller.client);
        if moves && was.key.is_some_and(|(_, keyed)| keyed) {
            return Err(Refusal::Invalid);
        }
        let _ours = self.detachment.take(open.id).ok_or(Refusal::Gone)?;
        let asker = Asker { client: Some(caller.client), ..was };
        let deadline = self.break_deadline(was.whole, caller.now);
        let mut state = open.file.state.lock();
        if let Some(member) = state.members.iter_mut().find(|member| member.id == open.id) {
            member.asker = asker;
        }
        let identity = Arc::clone(caller.identity);
        open.party.store(Arc::new(Party { client: caller.client, identity, asker }));
        if moves && open.is_lasting() {
            self.note_change(Record::Moved { id: open.id, client: caller.client });
        }
        let mut again = None;
        if let (Some(from), Some((key, keyed))) = (was.client, was.key) {
            let grants = &mut state.stream(&open.stream).grants;
            if moves {
                grants.hand_over((from, key, keyed), caller.client);
                self.keys.rename((from, key, keyed), caller.client);
            }
            again = grants.postpone(open.file.id, (caller.client, key, keyed), deadline);
        }
        if again.is_some() {
            self.watch_deadline(&open.file, deadline);
        }
        open.detached.store(false, Ordering::Release);
        // Who waited for what the open might still need learns that it is needed.
        let wakes = if open.is_lasting() { std::mem::take(&mut state.waiting) } else { Vec::new() };
        drop(state);
        self.settle(Effects { notices: again.into_iter().collect(), wakes, now: caller.now });
        Ok(())
    }

    /// How an open is kept, if its client is gone.
    pub fn detached(&self, open: &Open) -> Option<Detached> {
        if open.is_detached() { self.detachment.of(open.id) } else { None }
    }

    /// Whether anybody is left to hear a break, and what becomes of the right if not.
    // MS-SMB2 3.3.4.6
    // MS-SMB2 3.3.4.7
    pub(super) fn absent(&self, notice: &BreakNotice) -> Absent {
        let holder = (notice.client, notice.key, notice.keyed);
        let Some((file, stream)) = self.keys.find(&holder) else { return Absent::No };
        let mut state = file.state.lock();
        let mut opens = Vec::new();
        for member in &state.members {
            let same = member.asker.client == Some(notice.client)
                && member.asker.key == Some((notice.key, notice.keyed))
                && Arc::ptr_eq(&member.stream, &stream);
            if !same {
                continue;
            }
            match member.open.upgrade().filter(|open| open.is_detached()) {
                Some(open) => opens.push(open),
                None => return Absent::No,
            }
        }
        if opens.is_empty() {
            return Absent::No;
        }
        // One that is in nobody's table any more is just being reclaimed or closed; it will be asked, or go.
        let ends = opens.iter().map(|open| (open, self.detachment.of(open.id)));
        let stay = ends.filter(|(_, how)| how.as_ref().is_none_or(|how| !how.yields));
        let until = stay.map(|(_, how)| how.map_or(u64::MAX, |how| how.until_ns)).max();
        match until {
            Some(until) if notice.answer => {
                state.stream(&stream).grants.postpone(file.id, holder, until);
                Absent::Stays
            }
            Some(_) => Absent::Stays,
            None if notice.answer => Absent::GivesWay(opens),
            None => Absent::Stays,
        }
    }

    /// Closes opens that give way, as far as nobody else was quicker.
    pub(super) fn give_way(&self, opens: Vec<Arc<Open>>, now: Now) {
        for open in opens {
            if let Some(taken) = self.detachment.take(open.id) {
                self.lose(taken, now);
            }
        }
    }

    /// Closes detached opens whose time is over.
    // MS-SMB2 3.3.6.2
    // MS-SMB2 3.3.6.4
    pub(super) fn end_detached(&self, now: Now) {
        while let Some(taken) = self.detachment.take_ended(now.mono_ns) {
            self.lose(taken, now);
        }
    }

    /// Closes every detached open that does not outlive the process, since the share stops and nobody will
    /// find it again.
    pub fn end_all_detached(&self, now: Now) {
        for id in self.detachment.ending() {
            if let Some(taken) = self.detachment.take(id) {
                self.lose(taken, now);
            }
        }
    }

    /// An open is being closed: nobody can come back for it.
    pub(super) fn forget_detached(&self, open: &Open) {
        if open.is_detached() {
            self.detachment.take(open.id);
        }
    }

    fn lose(&self, (open, how): (Arc<Open>, Detached), now: Now) {
        if let Err(why) = self.close(&open, now) {
            tracing::warn!(share = %self.name(), %why, "a name could not be removed with its last open");
        }
        how.keeper.on_lost(how.token);
    }
}

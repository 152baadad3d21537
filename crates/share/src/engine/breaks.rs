//! Caching rights between the pure state machine and those who hold them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use wire::Now;

use super::Share;
use super::file::{File, State, Stream, StreamState};
use super::waits::Effects;
use crate::caching::grants::{Asker, Grant, Need};
use crate::{BreakNotice, CacheKey, Caching, CachingRequest, Caller, ClientKey, Open, Refusal, Step, Ticket};

/// Who holds a right: client, key, and whether opens share it.
type Holder = (ClientKey, CacheKey, bool);

/// The stream a right is on.
type At = (Weak<File>, Weak<Stream>);

/// Where the right under each key is; a key leads to one stream at a time.
#[derive(Default)]
pub(super) struct Keys(Mutex<HashMap<Holder, At>>);

impl Keys {
    fn find(&self, holder: &Holder) -> Option<(Arc<File>, Arc<Stream>)> {
        let keys = self.0.lock();
        let (file, stream) = keys.get(holder)?;
        Some((file.upgrade()?, stream.upgrade()?))
    }
}

impl Share {
    /// Asks the holders of rights on a stream for what a request needs. True when it has to wait.
    pub(super) fn require(
        &self,
        file: &Arc<File>,
        stream: &mut StreamState,
        asker: &Asker,
        need: Need,
        now: Now,
        effects: &mut Effects,
    ) -> bool {
        let deadline = now.mono_ns.saturating_add(self.config.load().break_timeout_ns);
        let broken = stream.grants.require(file.id, asker, need, deadline);
        if broken.notices.iter().any(|notice| notice.answer) {
            self.watch_deadline(file, deadline);
        }
        stream.publish();
        effects.notices.extend(broken.notices);
        broken.wait
    }

    /// The same for the stream of an open, without the lock held: done, or a wait.
    pub(super) fn require_for(&self, caller: &Caller<'_>, open: &Open, need: Need) -> Step<()> {
        if !open.stream.has_grants.load(std::sync::atomic::Ordering::Acquire) {
            return Step::Done(());
        }
        let mut effects = Effects::default();
        let mut state = open.file.state.lock();
        let stream = state.stream(&open.stream);
        let wait = self.require(&open.file, stream, &open.asker, need, caller.now, &mut effects);
        let step = if wait {
            self.park(caller, &open.file, &mut state, Refusal::SharingConflict)
        } else {
            Step::Done(())
        };
        drop(state);
        self.settle(effects);
        step
    }

    /// Refuses a key that is in use for something else.
    // MS-SMB2 3.3.5.9.8
    pub(super) fn check_key(
        &self,
        client: ClientKey,
        request: &CachingRequest,
        file: &Arc<File>,
        stream: &Arc<Stream>,
    ) -> Result<(), Refusal> {
        match self.keys.find(&(client, request.key, request.keyed)) {
            Some((other, at)) if !Arc::ptr_eq(&other, file) || !Arc::ptr_eq(&at, stream) => {
                Err(Refusal::Invalid)
            }
            _ => Ok(()),
        }
    }

    /// Refuses a key that is in use, for something that is about to be made.
    // MS-SMB2 3.3.5.9.8
    pub(super) fn check_key_is_free(
        &self,
        client: ClientKey,
        request: &CachingRequest,
    ) -> Result<(), Refusal> {
        let is_used = self.keys.find(&(client, request.key, request.keyed)).is_some();
        if is_used { Err(Refusal::Invalid) } else { Ok(()) }
    }

    /// Grants what can be had to a new open. Under the file's lock.
    pub(super) fn grant(
        &self,
        file: &Arc<File>,
        state: &mut State,
        stream: &Arc<Stream>,
        asker: &Asker,
        request: &CachingRequest,
    ) -> Grant {
        let around = state.surroundings(stream, asker, file.is_directory && !stream.is_named);
        let Some(client) = asker.client else {
            return Grant { state: Caching::empty(), epoch: request.epoch.unwrap_or(0), breaking: None };
        };
        let entry = state.stream(stream);
        let grant =
            entry.grants.grant(client, (request.key, request.keyed), request.want, request.epoch, around);
        entry.publish();
        if request.keyed || !grant.state.is_empty() {
            let place = (Arc::downgrade(file), Arc::downgrade(stream));
            self.keys.0.lock().insert((client, request.key, request.keyed), place);
        }
        grant
    }

    /// An open under a key is gone. Under the file's lock.
    pub(super) fn release_grant(&self, state: &mut State, stream: &Arc<Stream>, asker: &Asker) {
        let (Some(client), Some((key, keyed))) = (asker.client, asker.key) else {
            return;
        };
        let entry = state.stream(stream);
        entry.grants.release(client, key, keyed);
        entry.publish();
        if entry.grants.of(client, key, keyed).is_none() {
            self.keys.0.lock().remove(&(client, key, keyed));
        }
    }

    /// Whether a client has a right under this key, broken or not.
    pub fn holds(&self, client: ClientKey, key: CacheKey, keyed: bool) -> bool {
        self.keys.find(&(client, key, keyed)).is_some()
    }

    /// Takes a holder's answer to a break.
    ///
    /// # Errors
    /// [`Refusal::NoSuchGrant`], [`Refusal::TooMuchKept`].
    // MS-FSA 2.1.5.19
    pub fn acknowledge(
        &self,
        client: ClientKey,
        key: CacheKey,
        keyed: bool,
        keep: Caching,
        now: Now,
    ) -> Result<Grant, Refusal> {
        let holder = (client, key, keyed);
        let (file, stream) = self.keys.find(&holder).ok_or(Refusal::NoSuchGrant)?;
        let deadline = now.mono_ns.saturating_add(self.config.load().break_timeout_ns);
        let mut state = file.state.lock();
        let entry = state.stream(&stream);
        let (grant, next) = entry.grants.acknowledge(file.id, holder, keep, deadline)?;
        entry.publish();
        // Who waits goes on when the last step of the break was answered.
        let goes_on = next.is_some_and(|notice| notice.answer);
        if goes_on {
            self.watch_deadline(&file, deadline);
        }
        let wakes = if goes_on { Vec::new() } else { std::mem::take(&mut state.waiting) };
        drop(state);
        self.settle(Effects { notices: next.into_iter().collect(), wakes });
        Ok(grant)
    }

    /// Takes a right away whose holder cannot be told; says whom to wake.
    pub(super) fn revoke(&self, notice: &BreakNotice) -> Vec<Ticket> {
        let holder = (notice.client, notice.key, notice.keyed);
        let Some((file, stream)) = self.keys.find(&holder).filter(|_| notice.answer) else {
            return Vec::new();
        };
        let mut state = file.state.lock();
        let entry = state.stream(&stream);
        entry.grants.revoke(notice.client, notice.key, notice.keyed);
        entry.publish();
        std::mem::take(&mut state.waiting)
    }

    /// Takes away rights on a file whose holders did not answer in time.
    pub(super) fn expire(&self, file: &Arc<File>, now: u64) {
        let mut state = file.state.lock();
        let mut any = false;
        for stream in &mut state.streams {
            any |= stream.grants.expire(now);
            stream.publish();
        }
        let wakes = if any { std::mem::take(&mut state.waiting) } else { Vec::new() };
        drop(state);
        self.settle(Effects { notices: Vec::new(), wakes });
    }
}

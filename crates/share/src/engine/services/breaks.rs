//! Caching rights between the pure state machine and those who hold them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::Now;

use crate::caching::grants::{Asker, Deadlines, Grant, Need};
use crate::engine::Share;
use crate::engine::parts::file::{File, State, Stream, StreamState};
use crate::engine::values::effects::Effects;
use crate::{
    BreakNotice, CacheKey, Caching, CachingRequest, Caller, Cause, ClientKey, OpenRequest, Options, Refusal,
    Ticket,
};

impl Share {
    /// Asks the holders of rights on a stream for what a request needs. True when it has to wait.
    pub(crate) fn require(
        &self,
        file: &Arc<File>,
        stream: &mut StreamState,
        asker: &Asker,
        need: Need,
        cause: Cause,
        effects: &mut Effects,
    ) -> bool {
        let now = cause.now;
        let deadlines =
            Deadlines { single: self.break_deadline(false, now), whole: self.break_deadline(true, now) };
        let broken = stream.grants.require(file.id, asker, need, deadlines);
        stream.publish();
        for notice in &broken.notices {
            let holder = (notice.client, notice.key, notice.keyed);
            if let Some(deadline) = stream.grants.deadline_of(&holder) {
                self.watch_deadline(file, deadline);
            }
            self.note_right(holder, stream.grants.of(notice.client, notice.key, notice.keyed));
        }
        let loses_read =
            |notice: &BreakNotice| notice.keyed && (notice.from - notice.to).contains(Caching::READ);
        if asker.whole && broken.notices.iter().any(loses_read) {
            self.rights().note_contended(file.id, now.mono_ns);
        }
        let is_whole = |notice: &BreakNotice| {
            stream.grants.of(notice.client, notice.key, notice.keyed).is_some_and(|grant| grant.whole)
        };
        if broken.wait && broken.notices.iter().any(is_whole) {
            self.rights().note_recalled(file.id, now.mono_ns);
        }
        effects.notices.extend(broken.notices);
        effects.cause = cause;
        broken.wait
    }

    /// By when the holder of a right must have answered that is asked for now.
    pub(crate) fn break_deadline(&self, whole: bool, now: Now) -> u64 {
        let config = self.settings();
        let timeout = if whole { config.whole_break_timeout_ns } else { config.break_timeout_ns };
        now.mono_ns.saturating_add(timeout)
    }

    /// What is asked for, or nothing while clients of both protocols contend for the file; nor while somebody is to come again
    /// who had a right taken away that is given back as a whole.
    pub(crate) fn moderated(&self, asked: &CachingRequest, file: &File, now: Now) -> CachingRequest {
        let gives = !asked.keyed || !self.rights().is_quiet(file.id, asked.whole, now.mono_ns);
        CachingRequest { want: if gives { asked.want } else { Caching::empty() }, ..*asked }
    }

    /// Refuses a key that is in use for something else than the stream, which may be about to be made; unless that is
    /// to go.
    // MS-SMB2 3.3.5.9.8
    // MS-SMB2 3.3.5.9.11
    pub(crate) fn check_key(
        &self,
        client: ClientKey,
        request: &CachingRequest,
        stream: Option<&Arc<Stream>>,
    ) -> Result<(), Refusal> {
        match self.rights().keys().elsewhere(&(client, request.key, request.keyed), stream) {
            Some(false) => Err(Refusal::Invalid),
            Some(true) | None => Ok(()),
        }
    }

    /// Whether what a client has under this key is to go: through an open under the key it was marked so.
    pub fn goes(&self, client: ClientKey, key: CacheKey, keyed: bool) -> bool {
        self.rights().keys().elsewhere(&(client, key, keyed), None) == Some(true)
    }

    /// Whose request it is, as far as caching rights are concerned.
    pub(crate) fn asker(&self, caller: &Caller<'_>, request: &OpenRequest<'_>) -> Asker {
        Asker {
            client: Some(caller.client),
            key: request.caching.map(|c| (c.key, c.keyed)),
            parent: request.caching.and_then(|c| c.parent),
            whole: request.caching.is_some_and(|c| c.whole),
        }
    }

    /// Who makes a new open of the stream, and what they ask for: nothing, and under no key, while the key is in use
    /// for something else.
    pub(crate) fn asking<'r>(
        &self,
        caller: &Caller<'_>,
        request: &'r OpenRequest<'_>,
        stream: &Arc<Stream>,
    ) -> (Asker, Option<&'r CachingRequest>) {
        let asker = self.asker(caller, request);
        let used = |asked: &CachingRequest| {
            self.rights().keys().elsewhere(&(caller.client, asked.key, asked.keyed), Some(stream)).is_some()
        };
        match &request.caching {
            Some(asked) if used(asked) => (Asker { key: None, ..asker }, None),
            asked => (asker, asked.as_ref()),
        }
    }

    /// Grants what can be had to a new open of a stream with storage up to `extent`. Under the file's lock.
    pub(crate) fn grant(
        &self,
        file: &Arc<File>,
        state: &mut State,
        stream: &Arc<Stream>,
        asker: &Asker,
        request: &CachingRequest,
        extent: u64,
    ) -> Grant {
        let around = state.surroundings(stream, asker, file.is_directory && !stream.is_named, extent);
        let Some(client) = asker.client else {
            let (epoch, parent) = (request.epoch, request.parent);
            let (state, whole) = (Caching::empty(), request.whole);
            return Grant { state, epoch, parent, breaking: None, whole };
        };
        let is_first = state.streams.iter().all(|stream| stream.grants.is_empty());
        let has_known_name = file.is_directory || state.has_known_name();
        let entry = state.stream(stream);
        let grant = entry.grants.grant(client, request, around);
        if !grant.state.is_empty() {
            if !has_known_name {
                // Nobody would say that a program of the host has changed it: the right ends by itself.
                self.directories().note_untold();
            }
            stream.gave.fetch_add(1, Ordering::SeqCst);
            if is_first {
                file.granted_s.store(self.cache().now_s(), Ordering::Relaxed);
            }
        }
        entry.publish();
        self.note_right((client, request.key, request.keyed), Some(grant));
        if request.keyed || !grant.state.is_empty() {
            self.rights().keys().enter((client, request.key, request.keyed), file, stream);
        }
        grant
    }

    /// An open that deletes has been made.
    // MS-SMB2 3.3.5.9.8
    // MS-SMB2 3.3.5.9.11
    pub(crate) fn note_goes(&self, asker: &Asker, stream: &Arc<Stream>, options: Options) {
        if options.contains(Options::DELETE_ON_CLOSE) {
            self.rights().keys().set_goes(asker, stream, true);
        }
    }

    /// An open under a key is gone. Under the file's lock.
    pub(crate) fn release_grant(&self, state: &mut State, stream: &Arc<Stream>, asker: &Asker) {
        let (Some(client), Some((key, keyed))) = (asker.client, asker.key) else {
            return;
        };
        let entry = state.stream(stream);
        entry.grants.release(client, key, keyed);
        entry.publish();
        if entry.grants.of(client, key, keyed).is_none() {
            self.rights().keys().leave(&(client, key, keyed), stream);
        }
    }

    /// Whether a client has a right under this key, broken or not.
    pub fn holds(&self, client: ClientKey, key: CacheKey, keyed: bool) -> bool {
        self.rights().keys().find(&(client, key, keyed)).is_some()
    }

    /// Whether the holder still owes the answer to this very notice.
    pub fn awaits(&self, notice: &BreakNotice) -> bool {
        let holder = (notice.client, notice.key, notice.keyed);
        self.rights().keys().find(&holder).is_some_and(|(file, stream)| {
            file.state.lock().stream(&stream).grants.is_told(&holder, notice.to)
        })
    }

    /// Takes a right away whose holder cannot be told; says whom to wake.
    pub(crate) fn revoke(&self, notice: &BreakNotice) -> Vec<Ticket> {
        let holder = (notice.client, notice.key, notice.keyed);
        let Some((file, stream)) = self.rights().keys().find(&holder).filter(|_| notice.answer) else {
            return Vec::new();
        };
        let mut state = file.state.lock();
        let entry = state.stream(&stream);
        if !entry.grants.is_told(&holder, notice.to) {
            return Vec::new();
        }
        entry.grants.revoke(notice.client, notice.key, notice.keyed);
        entry.publish();
        self.note_right(holder, entry.grants.of(notice.client, notice.key, notice.keyed));
        std::mem::take(&mut state.waiting)
    }
}

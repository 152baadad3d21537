//! The link between the pure state machine of caching rights and the holders.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::Now;

use crate::caching::grants::{Deadlines, Grant, Need, Requester};
use crate::engine::Share;
use crate::engine::parts::file::{File, FileState, Stream, StreamState};
use crate::engine::values::effects::Effects;
use crate::{
    BreakNotice, CacheKey, Caching, CachingRequest, Caller, Cause, ClientKey, OpenRequest, Options, Refusal,
    Ticket,
};

/// The time after which the holder of a right on a directory is told again ([`Deadlines::again`]). A client
/// that has received a notice acknowledges it much sooner.
const REPEAT_NS: u64 = 1_000_000_000;

impl Share {
    /// Breaks the rights on a stream that conflict with a request. Returns true if the request has to wait.
    pub(crate) fn require(
        &self,
        file: &Arc<File>,
        stream: &mut StreamState,
        requester: &Requester,
        need: Need,
        cause: Cause,
        effects: &mut Effects,
    ) -> bool {
        let now = cause.now;
        let deadlines = Deadlines {
            single: self.break_deadline(false, now),
            whole: self.break_deadline(true, now),
            again: now.mono_ns.saturating_add(REPEAT_NS),
        };
        let broken = stream.grants.require(file.id, requester, need, deadlines);
        stream.publish();
        if broken.again {
            self.watch_deadline(file, deadlines.again);
        }
        for notice in &broken.notices {
            let holder = (notice.client, notice.key, notice.keyed);
            if let Some(deadline) = stream.grants.deadline_of(&holder) {
                self.watch_deadline(file, deadline);
            }
            self.note_right(holder, stream.grants.of(notice.client, notice.key, notice.keyed));
        }
        let loses_read =
            |notice: &BreakNotice| notice.keyed && (notice.from - notice.to).contains(Caching::READ);
        if requester.whole && broken.notices.iter().any(loses_read) {
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

    /// The deadline for the holder of a right that is broken now.
    pub(crate) fn break_deadline(&self, whole: bool, now: Now) -> u64 {
        let config = self.settings();
        let timeout = if whole { config.whole_break_timeout_ns } else { config.break_timeout_ns };
        now.mono_ns.saturating_add(timeout)
    }

    /// The requested right, or none while clients of both protocols contend for the file. The result is none
    /// too while a client is expected to try again that had a right recalled that is released as a whole.
    pub(crate) fn moderated(&self, asked: &CachingRequest, file: &File, now: Now) -> CachingRequest {
        let gives = !asked.keyed || !self.rights().is_quiet(file.id, asked.whole, now.mono_ns);
        CachingRequest { want: if gives { asked.want } else { Caching::empty() }, ..*asked }
    }

    /// Refuses a key that is in use for another stream than this one, which may be about to be created. A key
    /// whose file is marked for deletion is accepted.
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

    /// Whether a client's file under this key is marked for deletion through an open under the key.
    pub fn is_key_delete_pending(&self, client: ClientKey, key: CacheKey, keyed: bool) -> bool {
        self.rights().keys().elsewhere(&(client, key, keyed), None) == Some(true)
    }

    /// The origin of a request, as far as caching rights are concerned.
    pub(crate) fn requester(&self, caller: &Caller<'_>, request: &OpenRequest<'_>) -> Requester {
        Requester {
            client: Some(caller.client),
            key: request.caching.map(|c| (c.key, c.keyed)),
            parent: request.caching.and_then(|c| c.parent),
            whole: request.caching.is_some_and(|c| c.whole),
        }
    }

    /// The origin of a new open of the stream, and the right that it asks for. While the key is in use for
    /// another stream, it asks for none and has no key.
    pub(crate) fn asking<'r>(
        &self,
        caller: &Caller<'_>,
        request: &'r OpenRequest<'_>,
        stream: &Arc<Stream>,
    ) -> (Requester, Option<&'r CachingRequest>) {
        let requester = self.requester(caller, request);
        let used = |asked: &CachingRequest| {
            self.rights().keys().elsewhere(&(caller.client, asked.key, asked.keyed), Some(stream)).is_some()
        };
        match &request.caching {
            Some(asked) if used(asked) => (Requester { key: None, ..requester }, None),
            asked => (requester, asked.as_ref()),
        }
    }

    /// Grants a new open of a stream with storage up to `extent` as much as possible. The caller holds the
    /// file's lock.
    pub(crate) fn grant(
        &self,
        file: &Arc<File>,
        state: &mut FileState,
        stream: &Arc<Stream>,
        requester: &Requester,
        request: &CachingRequest,
        extent: u64,
    ) -> Grant {
        let around = state.surroundings(stream, requester, file.is_directory && !stream.is_named, extent);
        let Some(client) = requester.client else {
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
                // A change by a program of the host would not be reported, so the right ends by itself.
                self.directories().note_unreported();
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

    /// Records that an open that deletes was made.
    // MS-SMB2 3.3.5.9.8
    // MS-SMB2 3.3.5.9.11
    pub(crate) fn note_goes(&self, requester: &Requester, stream: &Arc<Stream>, options: Options) {
        if options.contains(Options::DELETE_ON_CLOSE) {
            self.rights().keys().set_goes(requester, stream, true);
        }
    }

    /// An open under a key is gone. The caller holds the file's lock.
    pub(crate) fn release_grant(&self, state: &mut FileState, stream: &Arc<Stream>, requester: &Requester) {
        let (Some(client), Some((key, keyed))) = (requester.client, requester.key) else {
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

    /// Whether the holder has not yet acknowledged this very notice.
    pub fn awaits_acknowledgment(&self, notice: &BreakNotice) -> bool {
        let holder = (notice.client, notice.key, notice.keyed);
        self.rights().keys().find(&holder).is_some_and(|(file, stream)| {
            file.state.lock().stream(&stream).grants.awaits_acknowledgment(&holder, notice.to)
        })
    }

    /// Revokes a right whose holder cannot be notified. Returns the requests to wake.
    pub(crate) fn revoke(&self, notice: &BreakNotice) -> Vec<Ticket> {
        let holder = (notice.client, notice.key, notice.keyed);
        let Some((file, stream)) = self.rights().keys().find(&holder).filter(|_| notice.answer) else {
            return Vec::new();
        };
        let mut state = file.state.lock();
        let entry = state.stream(&stream);
        if !entry.grants.awaits_acknowledgment(&holder, notice.to) {
            return Vec::new();
        }
        entry.grants.revoke(notice.client, notice.key, notice.keyed);
        entry.publish();
        self.note_right(holder, entry.grants.of(notice.client, notice.key, notice.keyed));
        std::mem::take(&mut state.waiting)
    }
}

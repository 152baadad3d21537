//! Acknowledgments of breaks by holders of caching rights, and the revocation of rights whose holders do not
//! answer.

use std::sync::Arc;

use wire::Now;

use crate::caching::grants::Grant;
use crate::engine::Share;
use crate::engine::parts::file::File;
use crate::engine::services::detached::AbsentHolder;
use crate::engine::values::effects::Effects;
use crate::{BreakNotice, CacheKey, Caching, ClientKey, Refusal};

impl Share {
    /// Takes a holder's acknowledgment of a break.
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
        let (file, stream) = self.rights().keys().find(&holder).ok_or(Refusal::NoSuchGrant)?;
        // A right that is released as a whole has no further step.
        let deadline = self.break_deadline(false, now);
        let mut state = file.state.lock();
        let entry = state.stream(&stream);
        let (grant, next) = entry.grants.acknowledge(file.id, holder, keep, deadline)?;
        entry.publish();
        self.note_right(holder, entry.grants.of(client, key, keyed));
        // Waiting requests go on when the last step of the break is acknowledged.
        let goes_on = next.is_some_and(|notice| notice.answer);
        if goes_on {
            self.watch_deadline(&file, deadline);
        }
        let wakes = if goes_on { Vec::new() } else { std::mem::take(&mut state.waiting) };
        drop(state);
        self.settle(Effects { notices: next.into_iter().collect(), wakes, cause: now.into() });
        Ok(grant)
    }

    /// A notice that [`crate::BreakListener::on_break`] had accepted cannot reach the holder after all. The
    /// right is revoked at once, unless its opens are kept for a holder that will hear of the break later.
    /// The caller holds no lock.
    pub fn break_undelivered(&self, notice: &BreakNotice) {
        if matches!(self.absent(notice), AbsentHolder::Stays) {
            return;
        }
        let wakes = self.revoke(notice);
        self.wake_all(wakes);
    }

    /// A holder releases all its rights under a key, whether a break asked for it or not. Its opens stay.
    pub fn release_key(&self, client: ClientKey, key: CacheKey, keyed: bool, now: Now) {
        let Some((file, stream)) = self.rights().keys().find(&(client, key, keyed)) else {
            return;
        };
        let mut state = file.state.lock();
        let entry = state.stream(&stream);
        if entry.grants.of(client, key, keyed).is_some_and(|grant| grant.breaking.is_some()) {
            self.rights().note_released(file.id, now.mono_ns);
        }
        entry.grants.revoke(client, key, keyed);
        entry.publish();
        self.note_right((client, key, keyed), entry.grants.of(client, key, keyed));
        let wakes = std::mem::take(&mut state.waiting);
        drop(state);
        self.write_changes();
        self.wake_all(wakes);
    }

    /// Revokes rights on a file whose holders did not answer in time, and repeats notices that are due.
    pub(crate) fn expire(&self, file: &Arc<File>, now: Now) {
        let mut effects = Effects { cause: now.into(), ..Effects::default() };
        let mut state = file.state.lock();
        let mut any = false;
        for stream in &mut state.streams {
            let expired = stream.grants.expire(file.id, now.mono_ns);
            for holder in expired.lost {
                any = true;
                let (client, key, keyed) = holder;
                self.note_right(holder, stream.grants.of(client, key, keyed));
            }
            effects.notices.extend(expired.notices);
            stream.publish();
        }
        if any {
            effects.wakes = std::mem::take(&mut state.waiting);
        }
        drop(state);
        self.settle(effects);
    }
}

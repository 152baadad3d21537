//! The limit on the channels of a session, and which channel ends for a new one.
//!
//! A client that loses a connection opens another one long before the server can detect the loss. The
//! client's host still answers TCP's probes for the old connection, or the server gives it up only after a
//! timeout. If the lost channel counted until then, the server would refuse the new one, and Linux's client
//! hands each refusal to its callers as an error. So the channel that has been silent the longest ends, if
//! it was silent for at least [`REPLACE_SILENCE_NS`].
//!
//! A client that asks for one more channel while all of its channels are in use wants more than the limit.
//! Such a client stops when it is refused, and should not trade one channel for another. So it gets a
//! channel only if it goes on asking for [`REPLACE_ATTEMPTS_NS`].

use wire::Now;

use crate::limits::{REPLACE_ATTEMPTS_NS, REPLACE_PAUSE_NS, REPLACE_SILENCE_NS};

/// The attempts of a session to bind more channels than its limit.
#[derive(Debug, Default)]
pub struct ExcessBinds {
    /// The first and the last attempt of the current series, by the clock of [`Now::mono_ns`].
    asking: Option<(u64, u64)>,
    /// An attempt came while no channel was silent.
    wants_more: bool,
}

impl ExcessBinds {
    /// Handles an attempt to bind one more channel. Returns the index of the channel that must end for it,
    /// if any. `heard_ns` gives for each channel when its last message came.
    pub fn ask(&mut self, heard_ns: impl Iterator<Item = u64>, now: Now) -> Option<usize> {
        let now = now.mono_ns;
        let still = self.asking.filter(|(_, last)| now.saturating_sub(*last) <= REPLACE_PAUSE_NS);
        let since = still.map_or(now, |(since, _)| since);
        self.asking = Some((since, now));
        let (at, last) = heard_ns.enumerate().min_by_key(|(_, heard)| *heard)?;
        if now.saturating_sub(last) < REPLACE_SILENCE_NS {
            self.wants_more = true;
            return None;
        }
        let insists = now.saturating_sub(since) >= REPLACE_ATTEMPTS_NS;
        (insists || !self.wants_more).then_some(at)
    }
}

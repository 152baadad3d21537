//! Room for a channel in a session that has as many as it may have.
//!
//! A client that loses a connection asks for another one long before the server can know: its host still answers
//! TCP's probes for the old one, or is given up after its time only. Were the lost channel to keep its place,
//! the client would be refused until then, and Linux's hands each refusal to its callers as an error. So the
//! channel that was silent for longest gives its place up, if that is at least [`ROOM_SILENCE_NS`].
//!
//! A client that has asked for one more while all of its channels were in use wants more than it may have. It
//! stops asking when it is refused and is not to trade one channel for another, so that it is believed only when it
//! goes on asking for [`ROOM_ASKING_NS`].

use wire::Now;

use crate::limits::{ROOM_ASKING_NS, ROOM_PAUSE_NS, ROOM_SILENCE_NS};

/// A session's attempts to bind more channels than it may have.
#[derive(Debug, Default)]
pub struct Crowd {
    /// The first attempt and the last one of those that belong together, by the clock of [`Now::mono_ns`].
    asking: Option<(u64, u64)>,
    /// The client has asked while no channel was silent.
    wants_more: bool,
}

impl Crowd {
    /// One more is asked for: which of the channels must give its place up, if any. `heard_ns` says of each when something
    /// last came over it.
    pub fn ask(&mut self, heard_ns: impl Iterator<Item = u64>, now: Now) -> Option<usize> {
        let now = now.mono_ns;
        let still = self.asking.filter(|(_, last)| now.saturating_sub(*last) <= ROOM_PAUSE_NS);
        let since = still.map_or(now, |(since, _)| since);
        self.asking = Some((since, now));
        let (at, last) = heard_ns.enumerate().min_by_key(|(_, heard)| *heard)?;
        if now.saturating_sub(last) < ROOM_SILENCE_NS {
            self.wants_more = true;
            return None;
        }
        let insists = now.saturating_sub(since) >= ROOM_ASKING_NS;
        (insists || !self.wants_more).then_some(at)
    }
}

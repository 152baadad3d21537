//! Clients whose time is over. They keep what they have as long as it is in nobody's way; whoever keeps their time is
//! asked to end them when it may be.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use wire::Now;

use super::Share;
use crate::{Lapsing, Refusal, Step};

/// Those who keep the time of clients.
#[derive(Default)]
pub(super) struct Keepers(Mutex<Vec<Weak<dyn Lapsing>>>);

impl Share {
    /// Asks this one from now on to end clients whose time is over.
    pub fn ask_for_lapsed(&self, keeper: Weak<dyn Lapsing>) {
        let mut keepers = self.keepers.0.lock();
        keepers.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&keeper));
        keepers.push(keeper);
    }

    /// Has clients ended whose time is over. True when one of them had something. Called with no lock held.
    pub(super) fn end_lapsed(&self, now: Now) -> bool {
        let keepers: Vec<Arc<dyn Lapsing>> = self.keepers.0.lock().iter().filter_map(Weak::upgrade).collect();
        // Each is asked, not only the first that had one.
        let mut any = false;
        for keeper in keepers {
            any |= keeper.end_lapsed(now);
        }
        any
    }

    /// Asks something that may meet what a client has whose time is over; then once more.
    pub(super) fn past_lapsed<T>(
        &self,
        now: Now,
        is_in_the_way: impl Fn(&Refusal) -> bool,
        ask: impl Fn() -> Step<T>,
    ) -> Step<T> {
        let step = ask();
        let again = match &step {
            Step::Done(_) => false,
            // Others may be in the way, too; who waits is woken when it is worth while.
            Step::Wait(ticket) => self.end_lapsed(now) && self.waits.is_over(*ticket),
            Step::Refused(why) => is_in_the_way(why) && self.end_lapsed(now),
        };
        if again { ask() } else { step }
    }
}

/// Whether somebody's open, denial, mark or byte range is in the way.
pub(super) fn is_held(why: &Refusal) -> bool {
    use Refusal::{DeletePending, RangeConflict, RangeNotGranted, SharingConflict};
    matches!(why, SharingConflict | DeletePending | RangeConflict | RangeNotGranted)
}

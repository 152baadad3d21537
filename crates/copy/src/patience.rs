//! Further attempts at what may fare better a little later.

use std::time::Duration;

use crate::error::{Done, Fault};
use crate::shared::Shared;

/// How long to wait before a file is tried again; twice as long each time.
const PAUSE: Duration = Duration::from_millis(500);

const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Waits before a further attempt, longer each time, and looks for a server that may be gone.
pub(crate) struct Pauses(Duration);

impl Pauses {
    pub(crate) fn new() -> Pauses {
        Pauses(PAUSE)
    }

    pub(crate) async fn after(&mut self, shared: &Shared, fault: &Fault) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
        if fault.is_interruption() {
            // When this is of no use, the next attempt says why.
            let _ = tokio::join!(shared.source.revive(), shared.target.revive());
        }
    }
}

/// Does what may be done twice, again and again as files are copied.
pub(crate) async fn patiently<T, F>(shared: &Shared, what: impl FnMut() -> F) -> Done<T>
where
    F: Future<Output = Done<T>>,
{
    patiently_where(shared, Fault::may_pass, what).await
}

/// The same where `may_pass` says whether another attempt may fare better.
pub(crate) async fn patiently_where<T, F>(
    shared: &Shared,
    may_pass: impl Fn(&Fault) -> bool,
    mut what: impl FnMut() -> F,
) -> Done<T>
where
    F: Future<Output = Done<T>>,
{
    let all = async {
        let mut pauses = Pauses::new();
        for _ in 0..shared.plan.retries {
            match what().await {
                Err(fault) if may_pass(&fault) => pauses.after(shared, &fault).await,
                done => return done,
            }
        }
        what().await
    };
    shared.unless_over(all).await
}

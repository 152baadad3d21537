//! Further attempts at operations that may succeed a little later.

use std::time::Duration;

use crate::context::CopyContext;
use crate::error::{Fault, FileResult};

/// The pause before the next attempt. Each further pause is twice as long.
const PAUSE: Duration = Duration::from_millis(500);

const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Pauses before further attempts, longer each time. A pause also revives a server that may be gone.
pub(crate) struct Pauses(Duration);

impl Pauses {
    pub(crate) fn new() -> Pauses {
        Pauses(PAUSE)
    }

    pub(crate) async fn after(&mut self, shared: &CopyContext, fault: &Fault) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
        if fault.is_interruption() {
            // If this does not help, the next attempt reports why.
            let _ = tokio::join!(shared.source.revive(), shared.target.revive());
        }
    }
}

/// Repeats an operation that may be carried out twice, as often as files are tried.
pub(crate) async fn patiently<T, F>(shared: &CopyContext, what: impl FnMut() -> F) -> FileResult<T>
where
    F: Future<Output = FileResult<T>>,
{
    patiently_where(shared, Fault::may_pass, what).await
}

/// Does the same. `may_pass` decides whether another attempt may succeed.
pub(crate) async fn patiently_where<T, F>(
    shared: &CopyContext,
    may_pass: impl Fn(&Fault) -> bool,
    mut what: impl FnMut() -> F,
) -> FileResult<T>
where
    F: Future<Output = FileResult<T>>,
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

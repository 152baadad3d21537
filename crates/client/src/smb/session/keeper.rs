//! Reopens lost channels. Each session with several channels has one such task.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::smb::session::state::SessionInner;

/// The longest pause between two attempts.
const LONGEST: Duration = Duration::from_secs(60);

/// Keeps a channel to each address of `plan`, as long as the session lives and has a channel.
pub(crate) async fn run(session: Weak<SessionInner>, mut plan: Vec<SocketAddr>, reopen_after: Duration) {
    let Some(lost) = session.upgrade().map(|it| Arc::clone(&it.channels.lost)) else { return };
    let mut pause = reopen_after;
    loop {
        let is_whole = {
            let Some(session) = session.upgrade() else { return };
            session.channels.lose_failed();
            if session.channels.len() == 0 {
                return;
            }
            session.channels.free_slots(plan.len()).is_empty()
        };
        if is_whole {
            pause = reopen_after;
            lost.notified().await;
            continue;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
        let Some(session) = session.upgrade() else { return };
        let missing = session.channels.free_slots(plan.len()).len();
        session.open_missing(&mut plan).await;
        if session.channels.free_slots(plan.len()).len() < missing {
            pause = reopen_after;
        }
    }
}

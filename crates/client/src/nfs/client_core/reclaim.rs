//! Reclaims the opens of a client when the server has restarted (RFC 8881 8.4.2.1, 10.2.1, 18.51).
//!
//! A session is used only when all opens are reclaimed in it, so that no request meets the server without its
//! open. The client takes no byte-range locks and uses no delegation, so it reclaims nothing but opens.

use std::collections::VecDeque;
use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::destroy::ReclaimCompleteArgs;
use nfs_wire::op::filehandle::PutArgs;
use nfs_wire::op::open::{self, Claim, DelegationType, OpenHow, ShareDeny};
use nfs_wire::op::{Args, OpNum, close};
use nfs_wire::types::{FileHandle, Identity, StateId, StateOwner};

use super::ClientCore;
use crate::Error;
use crate::error::Result;
use crate::nfs::compound_reply::result_of;
use crate::nfs::opens::Open;
use crate::nfs::owners;
use crate::nfs::session::NfsSession;
use crate::retry::Backoff;

impl ClientCore {
    /// Notes a new instance of the server, which has restarted or dropped all state of the client. The opens
    /// must be reclaimed, and the delegations are gone.
    pub(crate) fn begin_instance(&self) {
        self.opens.begin_instance();
        if let Some(responder) = &self.responder {
            responder.lose_delegations();
        }
    }

    /// Reclaims all opens in `session`, and sends RECLAIM_COMPLETE. An open that the server does not return
    /// is lost.
    ///
    /// # Errors
    /// The same as [`ClientCore::ask_in`]. The remaining opens can then be reclaimed in another session.
    pub(crate) async fn reclaim(&self, session: &Arc<NfsSession>) -> Result<()> {
        let mut unclaimed = VecDeque::from(self.opens.unclaimed());
        let mut patience = Backoff::new(self.options.patience);
        let mut pause_for = |status| is_for_now(status).then(|| patience.next()).flatten();
        while let Some(open) = unclaimed.pop_front() {
            if !self.opens.has(&open) {
                continue;
            }
            match self.claim(session, &open).await {
                Ok(stateid) => {
                    open.renew(stateid, session.instance);
                    // Nobody else closes an open that was dropped meanwhile.
                    if !self.opens.has(&open) {
                        self.close_in(session, &open).await?;
                    }
                }
                Err(Error::Refused { operation: OpNum::PutFh | OpNum::Open, status }) => {
                    match pause_for(status) {
                        // The other opens go first, because the grace period goes on meanwhile.
                        Some(pause) => {
                            unclaimed.push_back(open);
                            tokio::time::sleep(pause).await;
                        }
                        None => open.lose(status),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        loop {
            let done = self.complete_reclaim(session).await;
            match done.as_ref().err().and_then(Error::nfs_status).and_then(&mut pause_for) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return done,
            }
        }
    }

    // RFC 8881 18.16.3
    async fn claim(&self, session: &Arc<NfsSession>, open: &Open) -> Result<StateId> {
        let owner = owners::name(open.owner);
        let opening = open::Args {
            seqid: 0,
            share_access: open.how.access(false),
            share_deny: ShareDeny::empty(),
            owner: StateOwner { clientid: 0, owner: Identity(&owner) },
            openhow: OpenHow::NoCreate,
            claim: Claim::Previous(DelegationType::None),
        };
        let here = Args::PutFh(PutArgs { object: FileHandle(&open.handle) });
        let answer = self.ask_in(session, &[here, Args::Open(opening)]).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        let opened: open::ResOk<'_> = result_of!(results, Open)?;
        if let Some(responder) = &self.responder {
            responder.hold(&opened.delegation, &open.handle);
        }
        Ok(opened.stateid)
    }

    /// Closes an open. The status does not matter, because nobody uses it.
    async fn close_in(&self, session: &Arc<NfsSession>, open: &Open) -> Result<()> {
        let here = Args::PutFh(PutArgs { object: FileHandle(&open.handle) });
        let closing = close::Args { seqid: 0, open_stateid: open.argument() };
        self.ask_in(session, &[here, Args::Close(closing)]).await.map(drop)
    }

    // RFC 8881 18.51
    async fn complete_reclaim(&self, session: &Arc<NfsSession>) -> Result<()> {
        let args = Args::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        let answer = self.ask_in(session, &[args]).await?;
        match result_of!(answer.results(), ReclaimComplete) {
            Err(Error::Refused { status: NfsStat::CompleteAlready, .. }) => Ok(()),
            done => done,
        }
    }
}

/// Whether the server asks for a later attempt.
fn is_for_now(status: NfsStat) -> bool {
    matches!(status, NfsStat::Delay | NfsStat::Grace)
}

//! The shared part of the copies of a session.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use smb_wire::Guid;
use smb_wire::create_context::{DurableFlags, RequestContext};
use smb_wire::session_setup::SessionFlags;
use tokio::task::AbortHandle;

use super::open::ChannelOptions;
use super::{keeper, open};
use crate::error::Result;
use crate::smb::channels::{Channel, Channels};
use crate::smb::negotiate::Negotiated;
use crate::smb::protection::{ChannelKeys, Protection};
use crate::smb::{Credentials, Options, log_on};

#[derive(Debug)]
pub(crate) struct SessionInner {
    pub(crate) id: u64,
    pub(super) flags: SessionFlags,
    /// The protection of requests if the tree does not require more.
    pub(super) protection: Protection,
    /// The negotiated values of its first connection. All others must have the same.
    pub(crate) negotiated: Negotiated,
    pub(crate) options: Options,
    pub(crate) host: String,
    pub(crate) credentials: Credentials,
    /// Session.SigningKey and the encryption keys. They outlive the first connection.
    pub(crate) keys: Arc<ChannelKeys>,
    pub(crate) channels: Channels,
    /// Held while one connection of this session negotiates.
    pub(crate) negotiating: tokio::sync::Mutex<()>,
    /// The number of reauthentications, and the lock of the present one.
    pub(crate) renewals: AtomicU64,
    pub(super) renewing: tokio::sync::Mutex<()>,
    pub(super) keeper: Mutex<Option<AbortHandle>>,
}

impl Drop for SessionInner {
    fn drop(&mut self) {
        self.dismiss_keeper();
    }
}

impl SessionInner {
    /// The protection of a request for which the session or its tree requires protection.
    pub(crate) fn protect(&self, at_least: Protection) -> Protection {
        match (self.protection, at_least) {
            (Protection::Sealed, _) | (_, Protection::Sealed) => Protection::Sealed,
            (Protection::None, Protection::None) => Protection::None,
            _ => Protection::Signed,
        }
    }

    /// Authenticates again over `channel`, unless another task has done so since there were `renewals`.
    pub(crate) async fn renew(&self, channel: &Channel, renewals: u64) -> Result<()> {
        // MS-SMB2 3.2.5.1.6
        let _turn = self.renewing.lock().await;
        if self.renewals.load(Ordering::Relaxed) == renewals {
            let (connection, who) = (&channel.connection, &self.credentials);
            log_on::renew(connection, who, &self.keys, self.protection).await?;
            self.renewals.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether the server can seal.
    pub(crate) fn can_seal(&self) -> bool {
        self.keys.can_seal()
    }

    /// Whether the server checks the channel sequence of requests.
    pub(crate) fn channels_matter(&self) -> bool {
        open::is_offered(&self.negotiated)
    }

    /// The contexts of a CREATE that may be repeated on another channel: a GUID by which the server finds the
    /// open it has made. The open need not be durable.
    pub(crate) fn create_contexts(&self) -> Option<[RequestContext<'static>; 1]> {
        // MS-SMB2 3.2.4.3.5 (exception: it also goes with an open that has no oplock and no lease)
        self.channels.are_several().then(|| {
            let create_guid = Guid(auth::crypto::random());
            [RequestContext::DurableHandleRequestV2 { timeout: 0, flags: DurableFlags::empty(), create_guid }]
        })
    }

    /// Starts the task that reopens lost channels, in place of an earlier one.
    pub(super) fn hire_keeper(
        &self,
        this: &Arc<SessionInner>,
        plan: Vec<SocketAddr>,
        options: &ChannelOptions,
    ) {
        if plan.len() > 1 {
            if let Ok(first) = self.channels.first() {
                first.connection.link.watch(&self.channels.lost);
            }
            let keeper = tokio::spawn(keeper::run(Arc::downgrade(this), plan, options.reopen_after));
            *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper.abort_handle());
        }
    }

    pub(super) fn dismiss_keeper(&self) {
        if let Some(keeper) = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take() {
            keeper.abort();
        }
    }
}

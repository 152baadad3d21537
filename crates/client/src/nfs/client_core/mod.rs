//! The shared part of the copies of a client, and the tasks that keep its connections and its lease.

pub(crate) mod call;
pub(crate) mod establish;
mod reclaim;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use nfs_wire::attr::{Attr, AttrNum, Bitmap};
use nfs_wire::op::sequence::StatusFlags;
use nfs_wire::op::{Args, getattr};
use nfs_wire::types::Verifier;
use tokio::task::AbortHandle;

use super::Options;
use super::callback::Responder;
use super::channels::{BoundConnection, Channels};
use super::compound_reply::result_of;
use super::link::Caller;
use super::opens::Opens;
use super::owners::Owners;
use super::session::{ClientIdState, NfsSession};
use crate::Error;
use crate::error::Result;

#[derive(Debug)]
pub(crate) struct ClientCore {
    pub(crate) options: Options,
    pub(crate) caller: Caller,
    /// The identity of the client to the server, unique among all clients ever.
    pub(crate) owner: Vec<u8>,
    pub(crate) verifier: Verifier,
    pub(super) address: SocketAddr,
    pub(crate) channels: Channels,
    pub(super) session: RwLock<Option<Arc<NfsSession>>>,
    /// The client ID. Its lock is held while a session is created.
    pub(crate) known: tokio::sync::Mutex<Option<ClientIdState>>,
    pub(crate) owners: Owners,
    pub(crate) opens: Opens,
    pub(crate) responder: Option<Arc<Responder>>,
    /// Whether the lease was renewed since the last check.
    pub(super) renewed: AtomicBool,
    pub(super) flags: AtomicU32,
    pub(crate) about: Mutex<ServerIdentity>,
    pub(super) lease_time_s: AtomicU32,
    /// The intended number of connections.
    pub(super) wanted: AtomicUsize,
    pub(super) keepers: Mutex<Option<[AbortHandle; 2]>>,
}

/// The identity that a server states (RFC 8881 18.35).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerIdentity {
    /// The major owner. Servers of one major and one minor owner share sessions.
    pub owner: Vec<u8>,
    /// The minor owner.
    pub minor_owner: u64,
    /// The scope in which filehandles and client IDs have one meaning.
    pub scope: Vec<u8>,
    /// The name of the server's software, if it states one.
    pub software: Option<String>,
}

impl Drop for ClientCore {
    fn drop(&mut self) {
        self.dismiss_keepers();
    }
}

impl ClientCore {
    /// Creates the session over the first connection, and opens the others.
    pub(super) async fn begin(&self) -> Result<()> {
        let session = self.establish(&mut *self.known.lock().await).await?;
        self.set_session(Some(session));
        for index in self.channels.free_places(self.options.connections) {
            self.reconnect(index).await?;
        }
        self.learn().await
    }

    /// The present session.
    ///
    /// # Errors
    /// [`Error::Closed`] when the client has ended.
    pub(crate) fn session(&self) -> Result<Arc<NfsSession>> {
        self.session.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Error::Closed)
    }

    pub(crate) fn set_session(&self, session: Option<Arc<NfsSession>>) {
        *self.session.write().unwrap_or_else(PoisonError::into_inner) = session;
    }

    /// Notes a SEQUENCE, which renews the lease (RFC 8881 8.3).
    pub(crate) fn note(&self, flags: StatusFlags) {
        if !self.renewed.load(Ordering::Relaxed) {
            self.renewed.store(true, Ordering::Relaxed);
        }
        if self.flags.load(Ordering::Relaxed) != flags.bits() {
            self.flags.store(flags.bits(), Ordering::Relaxed);
        }
    }

    fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_time_s.load(Ordering::Relaxed).into())
    }

    /// The places of lost connections.
    fn free_places(&self) -> Vec<usize> {
        self.channels.free_places(self.wanted.load(Ordering::Relaxed))
    }

    /// Opens the connection at `index` again. Its first SEQUENCE binds it to the session, but not to the back
    /// channel, which the server needs if the previous connection of the back channel is lost (RFC 8881
    /// 2.10.3.1).
    pub(super) async fn reconnect(&self, index: usize) -> Result<()> {
        let responder = self.responder.clone();
        let channel = BoundConnection::connect(self.address, index, &self.options, responder).await?;
        if let Some(session) = self.session().ok().filter(|session| session.has_back_channel) {
            // A lost session is created again, with a back channel, by the next request in it.
            let binding = self.bind(&session, &channel);
            let _unbound = tokio::time::timeout(self.options.connect_timeout, binding).await;
        }
        self.channels.add(channel);
        Ok(())
    }

    /// Queries the lease time.
    async fn learn(&self) -> Result<()> {
        let attr_request = Bitmap::of(&[AttrNum::LeaseTime.get()]);
        let push = |writer: &mut nfs_wire::compound::CallWriter| {
            writer.push(&Args::PutRootFh).push(&Args::GetAttr(getattr::Args { attr_request }));
        };
        let answer = self.take_step("GETATTR", &push).await?;
        let mut results = answer.results();
        result_of!(results, PutRootFh)?;
        let got: getattr::ResOk<'_> = result_of!(results, GetAttr)?;
        for attribute in got.obj_attributes.iter().flatten() {
            if let Attr::LeaseTime(seconds) = attribute {
                self.lease_time_s.store(seconds.max(3), Ordering::Relaxed);
            }
        }
        Ok(())
    }

    pub(super) fn hire_keepers(self: &Arc<Self>) {
        self.channels.keep(true);
        let keepers = [tokio::spawn(keep(Arc::downgrade(self))), tokio::spawn(renew(Arc::downgrade(self)))];
        let keepers = keepers.map(|keeper| keeper.abort_handle());
        *self.keepers.lock().unwrap_or_else(PoisonError::into_inner) = Some(keepers);
    }

    pub(super) fn dismiss_keepers(&self) {
        self.channels.keep(false);
        if let Some(keepers) = self.keepers.lock().unwrap_or_else(PoisonError::into_inner).take() {
            keepers.iter().for_each(AbortHandle::abort);
        }
    }
}

/// The longest pause between two attempts to connect, if the lease is long.
const LONGEST: Duration = Duration::from_secs(60);

/// Renews the lease when nothing else does, whatever becomes of connections (RFC 8881 8.3).
async fn renew(client: Weak<ClientCore>) {
    loop {
        let Some(lease) = client.upgrade().map(|it| it.lease()) else { return };
        tokio::time::sleep(lease / 3).await;
        let Some(client) = client.upgrade() else { return };
        if !client.renewed.swap(false, Ordering::Relaxed) {
            // A later request reports the error.
            let _renewed = client.ask(&|_| {}).await;
        }
    }
}

/// Reconnects lost connections.
async fn keep(client: Weak<ClientCore>) {
    let Some((lost, after)) =
        client.upgrade().map(|it| (Arc::clone(&it.channels.lost), it.options.reconnect_after))
    else {
        return;
    };
    let mut pause = after;
    loop {
        let is_whole = {
            let Some(client) = client.upgrade() else { return };
            client.channels.lose_failed();
            client.free_places().is_empty()
        };
        if is_whole {
            pause = after;
            lost.notified().await;
            continue;
        }
        tokio::time::sleep(pause).await;
        let Some(client) = client.upgrade() else { return };
        // RFC 8881 8.4.2.1: a server that has restarted waits a lease for reclaims.
        pause = (pause * 2).min(client.lease() / 3).min(LONGEST);
        for index in client.free_places() {
            match client.reconnect(index).await {
                Ok(()) => pause = after,
                Err(error) => client.channels.set_failure(error),
            }
        }
    }
}

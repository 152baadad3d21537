//! The part of a client that all its copies share, and the tasks that look after it.

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
use super::answer::result_of;
use super::callback::Responder;
use super::channels::{Channel, Channels};
use super::link::Caller;
use super::opens::Opens;
use super::owners::Owners;
use super::session::{Known, Session};
use crate::Error;
use crate::error::Result;

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) caller: Caller,
    /// The identity of the client to the server: this one, of all that ever were.
    pub(crate) owner: Vec<u8>,
    pub(crate) verifier: Verifier,
    pub(super) address: SocketAddr,
    pub(crate) channels: Channels,
    pub(super) session: RwLock<Option<Arc<Session>>>,
    /// The client ID; whoever holds it may make sessions.
    pub(crate) known: tokio::sync::Mutex<Option<Known>>,
    pub(crate) owners: Owners,
    pub(crate) opens: Opens,
    pub(crate) responder: Option<Arc<Responder>>,
    /// Whether the lease was renewed since the keeper looked.
    pub(super) renewed: AtomicBool,
    pub(super) flags: AtomicU32,
    pub(crate) about: Mutex<About>,
    pub(super) lease_time_s: AtomicU32,
    /// How many connections there are to be.
    pub(super) wanted: AtomicUsize,
    pub(super) keepers: Mutex<Option<[AbortHandle; 2]>>,
}

/// The identity that a server gives itself (RFC 8881 18.35).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// Servers of one major and one minor owner share sessions.
    pub owner: Vec<u8>,
    /// The minor owner.
    pub minor_owner: u64,
    /// The scope within which filehandles and client IDs mean the same.
    pub scope: Vec<u8>,
    /// The name that the server gives its software, if it gives one.
    pub software: Option<String>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.dismiss_keepers();
    }
}

impl Inner {
    /// Makes the session over the first connection, and the others.
    pub(super) async fn begin(&self) -> Result<()> {
        let session = self.establish(&mut *self.known.lock().await).await?;
        self.set_session(Some(session));
        for place in self.channels.free_places(self.options.connections) {
            self.reconnect(place).await?;
        }
        self.learn().await
    }

    /// The session there is now.
    ///
    /// # Errors
    /// [`Error::Closed`] when the client has ended.
    pub(crate) fn session(&self) -> Result<Arc<Session>> {
        self.session.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Error::Closed)
    }

    pub(crate) fn set_session(&self, session: Option<Arc<Session>>) {
        *self.session.write().unwrap_or_else(PoisonError::into_inner) = session;
    }

    /// Every SEQUENCE renews the lease (RFC 8881 8.3).
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

    /// The places whose connections are lost.
    fn free_places(&self) -> Vec<usize> {
        self.channels.free_places(self.wanted.load(Ordering::Relaxed))
    }

    /// Connects once more, as the connection at `place`. Its first SEQUENCE binds it to the session, but not to the back
    /// channel, over which the server has to reach us when the connection it had is lost (RFC 8881 2.10.3.1).
    pub(super) async fn reconnect(&self, place: usize) -> Result<()> {
        let responder = self.responder.clone();
        let channel = Channel::connect(self.address, place, &self.options, responder).await?;
        if let Some(session) = self.session().ok().filter(|session| session.has_back_channel) {
            // A session that is gone is made anew, with a back channel, by who asks for something in it.
            let binding = self.bind(&session, &channel);
            let _unbound = tokio::time::timeout(self.options.connect_timeout, binding).await;
        }
        self.channels.add(channel);
        Ok(())
    }

    /// Asks how long a lease is.
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

/// The longest time between two attempts to connect, where a lease is long.
const LONGEST: Duration = Duration::from_secs(60);

/// Renews the lease when nothing else does, whatever becomes of connections (RFC 8881 8.3).
async fn renew(client: Weak<Inner>) {
    loop {
        let Some(lease) = client.upgrade().map(|it| it.lease()) else { return };
        tokio::time::sleep(lease / 3).await;
        let Some(client) = client.upgrade() else { return };
        if !client.renewed.swap(false, Ordering::Relaxed) {
            // What went wrong will show where something is asked for.
            let _renewed = client.ask(&|_| {}).await;
        }
    }
}

/// Connects again what was lost.
async fn keep(client: Weak<Inner>) {
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
        // RFC 8881 8.4.2.1: a server that has restarted waits a lease for what is claimed.
        pause = (pause * 2).min(client.lease() / 3).min(LONGEST);
        for place in client.free_places() {
            match client.reconnect(place).await {
                Ok(()) => pause = after,
                Err(error) => client.channels.set_failure(error),
            }
        }
    }
}

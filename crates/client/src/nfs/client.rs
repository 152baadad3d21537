//! A client of one server: its session, its connections, and the task that looks after both.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use nfs_wire::attr::{Attr, AttrNum, Bitmap};
use nfs_wire::op::Args;
use nfs_wire::op::getattr;
use nfs_wire::op::sequence::StatusFlags;
use nfs_wire::types::Verifier;
use tokio::net::ToSocketAddrs;
use tokio::task::AbortHandle;

use super::answer::result_of;
use super::callback::Responder;
use super::channels::{Channel, Channels};
use super::link::Caller;
use super::opens::Opens;
use super::owners::Owners;
use super::session::{Known, Session};
use super::{ConnectionStatus, Directory, Options};
use crate::{Error, Result};

/// A client of one server, with one session over any number of connections. Copies share it.
///
/// Dropping the last copy, and the last directory and file, leaves the client to the server, which forgets it when
/// its lease is over. [`Client::close`] ends it now.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

/// Who a server says it is (RFC 8881 18.35).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// Servers of one major and one minor owner share sessions.
    pub owner: Vec<u8>,
    /// The minor owner.
    pub minor_owner: u64,
    /// Where filehandles and client IDs mean the same.
    pub scope: Vec<u8>,
    /// What the server calls its software, where it says so.
    pub software: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) caller: Caller,
    /// Who the client is to the server: this one, of all that ever were.
    pub(crate) owner: Vec<u8>,
    pub(crate) verifier: Verifier,
    address: SocketAddr,
    pub(crate) channels: Channels,
    session: RwLock<Option<Arc<Session>>>,
    /// The client ID; whoever holds it may make sessions.
    pub(crate) known: tokio::sync::Mutex<Option<Known>>,
    pub(crate) owners: Owners,
    pub(crate) opens: Opens,
    pub(crate) responder: Option<Arc<Responder>>,
    /// Whether the lease was renewed since the keeper looked.
    renewed: AtomicBool,
    flags: AtomicU32,
    pub(crate) about: Mutex<About>,
    lease_time_s: AtomicU32,
    /// How many connections there are to be.
    wanted: AtomicUsize,
    keepers: Mutex<Option<[AbortHandle; 2]>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.dismiss_keepers();
    }
}

impl Client {
    /// Connects to a server, which usually listens on port 2049, and makes a session.
    ///
    /// ```no_run
    /// # async fn example() -> client::Result<()> {
    /// use client::nfs::{Client, Options};
    ///
    /// // As `mount -o nconnect=4` does.
    /// let options = Options { connections: 4, ..Options::default() };
    /// let client = Client::connect(("192.0.2.7", 2049), options).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] when not all connections can be made, [`Error::Late`] when the server does not answer in time
    /// ([`Options::connect_timeout`]), [`Error::Refused`] when the server wants no session with
    /// us.
    pub async fn connect(address: impl ToSocketAddrs, options: Options) -> Result<Client> {
        let responder = options.delegations.then(Arc::<Responder>::default);
        let mut first = Err(Error::Io(Arc::new(std::io::ErrorKind::AddrNotAvailable.into())));
        for address in tokio::net::lookup_host(address).await? {
            first = Channel::connect(address, 0, &options, responder.clone()).await;
            if first.is_ok() {
                break;
            }
        }
        let first = first?;
        let random: [u8; 16] = auth::crypto::random();
        let number = u128::from_ne_bytes(random);
        let caller = Caller {
            machine_name: options.machine_name.clone().into_bytes(),
            uid: options.uid,
            gid: options.gid,
            groups: options.groups.clone(),
            minor_version: options.minor_version,
        };
        let inner = Arc::new(Inner {
            caller,
            owner: format!("trunkline {} {number:032x}", options.machine_name).into_bytes(),
            verifier: auth::crypto::random(),
            address: first.peer,
            channels: Channels::new(),
            session: RwLock::default(),
            known: tokio::sync::Mutex::default(),
            owners: Owners::default(),
            opens: Opens::default(),
            responder,
            renewed: AtomicBool::new(true),
            flags: AtomicU32::new(0),
            about: Mutex::default(),
            lease_time_s: AtomicU32::new(90),
            wanted: AtomicUsize::new(options.connections),
            keepers: Mutex::default(),
            options,
        });
        if let Some(responder) = &inner.responder {
            responder.serve(&inner);
        }
        inner.channels.add(first);
        inner.begin().await?;
        inner.hire_keepers();
        Ok(Client { inner })
    }

    /// A directory by its path from the root of the server's exports; nothing between slashes counts.
    ///
    /// ```no_run
    /// # async fn example(client: client::nfs::Client) -> client::Result<()> {
    /// let notes = client.directory("/projects/notes").await?;
    /// for name in notes.list().await? {
    ///     println!("{}", String::from_utf8_lossy(&name.name));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Refused`] when there is none, or the way there leads over a symbolic link.
    pub async fn directory(&self, path: &str) -> Result<Directory> {
        Directory::root(Arc::clone(&self.inner)).await?.find(path, Some("LOOKUP")).await
    }

    /// The connections that carry the session now.
    #[must_use]
    pub fn connections(&self) -> Vec<ConnectionStatus> {
        self.inner.channels.status()
    }

    /// Has so many connections from now on, if that is more than before: opens those that are missing, while the others
    /// carry what they carry. Answers how many there are.
    ///
    /// # Errors
    /// What kept one from being made. There will be no more than there are then.
    pub async fn widen(&self, connections: usize) -> Result<usize> {
        let inner = &self.inner;
        let before = inner.wanted.load(Ordering::Relaxed);
        for place in inner.channels.free_places(connections).into_iter().filter(|place| *place >= before) {
            inner.reconnect(place).await?;
            inner.wanted.store(place + 1, Ordering::Relaxed);
        }
        Ok(self.connections().len())
    }

    /// Gives up all connections but `connections`, of which at least one is left. What is under way on the others is
    /// answered there before they are closed.
    pub fn narrow(&self, connections: usize) {
        let wanted = connections.max(1).min(self.inner.wanted.load(Ordering::Relaxed));
        self.inner.wanted.store(wanted, Ordering::Relaxed);
        self.inner.channels.narrow(wanted);
    }

    /// Lets the connection at a place of [`Client::connections`] carry at most `rate` bytes in a second in each
    /// direction, or as many as it can.
    pub fn pace(&self, place: usize, rate: Option<u64>) {
        if let Some(channel) = self.inner.channels.all().get(place) {
            channel.link.rate.set(rate);
        }
    }

    /// How many connections were lost so far.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.inner.channels.losses()
    }

    /// Who the server says it is.
    #[must_use]
    pub fn about(&self) -> About {
        self.inner.about.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long the server keeps what a silent client has, in seconds.
    #[must_use]
    pub fn lease_time_s(&self) -> u32 {
        self.inner.lease_time_s.load(Ordering::Relaxed)
    }

    /// Asks the server whether it is there: a SEQUENCE and nothing more.
    ///
    /// # Errors
    /// When it is not.
    pub async fn echo(&self) -> Result<()> {
        self.inner.ask(&|_| {}).await.map(drop)
    }

    /// How many requests the server lets us have under way at once.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.inner.session().map_or(0, |session| session.slots.len())
    }

    /// The most data that one READ or WRITE carries, in bytes.
    #[must_use]
    pub fn max_io(&self) -> u32 {
        self.inner.session().map_or(0, |session| session.room.0.min(session.room.1))
    }

    /// How many delegations the server has granted and not asked back.
    #[must_use]
    pub fn delegations(&self) -> usize {
        self.inner.responder.as_ref().map_or(0, |responder| responder.held())
    }

    /// What the server said in its last SEQUENCE.
    #[must_use]
    pub fn status_flags(&self) -> StatusFlags {
        StatusFlags::from_bits_retain(self.inner.flags.load(Ordering::Relaxed))
    }

    /// Ends the session and the client ID. Files that are still open are closed by the server.
    ///
    /// # Errors
    /// When the server did not take notice; [`nfs_wire::NfsStat::ClientIdBusy`] while files are open.
    pub async fn close(self) -> Result<()> {
        self.inner.dismiss_keepers();
        let ended = self.inner.destroy().await;
        self.inner.channels.close();
        ended
    }
}

impl Inner {
    /// Makes the session over the first connection, and the others.
    async fn begin(&self) -> Result<()> {
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
    async fn reconnect(&self, place: usize) -> Result<()> {
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

    fn hire_keepers(self: &Arc<Self>) {
        self.channels.keep(true);
        let keepers = [tokio::spawn(keep(Arc::downgrade(self))), tokio::spawn(renew(Arc::downgrade(self)))];
        let keepers = keepers.map(|keeper| keeper.abort_handle());
        *self.keepers.lock().unwrap_or_else(PoisonError::into_inner) = Some(keepers);
    }

    fn dismiss_keepers(&self) {
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

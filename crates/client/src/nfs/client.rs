//! A client of one server: its session, its connections, and the tasks that keep both.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use nfs_wire::op::sequence::StatusFlags;
use tokio::net::ToSocketAddrs;

use super::callback::Responder;
use super::channels::{BoundConnection, Channels};
use super::link::Caller;
use super::opens::Opens;
use super::owners::Owners;
use super::{ExportDirectory, Options};
use crate::error::Result;
use crate::nfs::client_core::{ClientCore, ServerIdentity};
use crate::{ChannelStatus, Error};

/// A client of one server, with one session over any number of connections. Copies share it.
///
/// Dropping the last copy, and the last directory and file, leaves the client record to the server, which
/// drops it when the lease expires. [`Client::close`] ends it at once.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) inner: Arc<ClientCore>,
}

impl Client {
    /// Connects to a server, which usually listens on port 2049, and creates a session.
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
    /// [`Error::Io`] when not all connections can be made, [`Error::Late`] when the server does not answer in
    /// time ([`Options::connect_timeout`]), [`Error::Refused`] when the server refuses a session.
    pub async fn connect(address: impl ToSocketAddrs, options: Options) -> Result<Client> {
        let responder = options.delegations.then(Arc::<Responder>::default);
        let mut first = Err(Error::Io(Arc::new(std::io::ErrorKind::AddrNotAvailable.into())));
        for address in tokio::net::lookup_host(address).await? {
            first = BoundConnection::connect(address, 0, &options, responder.clone()).await;
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
        let inner = Arc::new(ClientCore {
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

    /// Finds a directory by its path from the root of the server's exports. Empty names between slashes are
    /// ignored.
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
    /// [`Error::Refused`] when it does not exist, or its path leads over a symbolic link.
    pub async fn directory(&self, path: &str) -> Result<ExportDirectory> {
        ExportDirectory::root(Arc::clone(&self.inner)).await?.find(path, Some("LOOKUP")).await
    }

    /// The present connections of the session.
    #[must_use]
    pub fn connections(&self) -> Vec<ChannelStatus> {
        self.inner.channels.status()
    }

    /// Raises the number of connections to `connections`, if that is more than before. It opens the missing
    /// ones, while the others carry requests. Returns the present number.
    ///
    /// # Errors
    /// The error of a connection that could not be made. No further ones are opened then.
    pub async fn widen(&self, connections: usize) -> Result<usize> {
        let inner = &self.inner;
        let before = inner.wanted.load(Ordering::Relaxed);
        for index in inner.channels.free_places(connections).into_iter().filter(|index| *index >= before) {
            inner.reconnect(index).await?;
            inner.wanted.store(index + 1, Ordering::Relaxed);
        }
        Ok(self.connections().len())
    }

    /// Closes all connections but `connections`. At least one remains. The requests pending on the others are
    /// answered before they are closed.
    pub fn narrow(&self, connections: usize) {
        let wanted = connections.max(1).min(self.inner.wanted.load(Ordering::Relaxed));
        self.inner.wanted.store(wanted, Ordering::Relaxed);
        self.inner.channels.narrow(wanted);
    }

    /// Limits the connection at an index of [`Client::connections`] to `rate` bytes per second in each
    /// direction, or lifts the limit.
    pub fn pace(&self, index: usize, rate: Option<u64>) {
        if let Some(channel) = self.inner.channels.all().get(index) {
            channel.link.rate.set(rate);
        }
    }

    /// The number of connections lost so far.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.inner.channels.losses()
    }

    /// The identity of the server, as it states it.
    #[must_use]
    pub fn about(&self) -> ServerIdentity {
        self.inner.about.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The lease time of the server, in seconds.
    #[must_use]
    pub fn lease_time_s(&self) -> u32 {
        self.inner.lease_time_s.load(Ordering::Relaxed)
    }

    /// Sends a SEQUENCE alone, to check that the server is alive.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn echo(&self) -> Result<()> {
        self.inner.ask(&|_| {}).await.map(drop)
    }

    /// The number of requests that the server lets us have in flight.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.inner.session().map_or(0, |session| session.slots.len())
    }

    /// The most data of one READ or WRITE, in bytes.
    #[must_use]
    pub fn max_io(&self) -> u32 {
        self.inner.session().map_or(0, |session| session.room.0.min(session.room.1))
    }

    /// The number of delegations that the server has granted and not recalled.
    #[must_use]
    pub fn delegations(&self) -> usize {
        self.inner.responder.as_ref().map_or(0, |responder| responder.held())
    }

    /// The status flags of the server's last SEQUENCE.
    #[must_use]
    pub fn status_flags(&self) -> StatusFlags {
        StatusFlags::from_bits_retain(self.inner.flags.load(Ordering::Relaxed))
    }

    /// Ends the session and the client ID. The server closes files that are still open.
    ///
    /// # Errors
    /// When the server did not confirm it. [`nfs_wire::NfsStat::ClientIdBusy`] while files are open.
    pub async fn close(self) -> Result<()> {
        self.inner.dismiss_keepers();
        let ended = self.inner.destroy().await;
        self.inner.channels.close();
        ended
    }
}

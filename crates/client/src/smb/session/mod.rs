//! A log-on: its identity, its keys and its channels (MS-SMB2 3.2.1.3).

pub(crate) mod call;
mod keeper;
pub(crate) mod open;
mod series;
mod state;

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use smb_wire::create::FileInfo;
use smb_wire::negotiate::SecurityMode;
use smb_wire::session_setup::SessionFlags;
use smb_wire::{NtStatus, SmbCommand, logoff};

use crate::error::Result;
use crate::smb::channels::{Channel, Channels};
use crate::smb::link::FrameRequest;
use crate::smb::protection::Protection;
use crate::smb::{ChannelOptions, Connection, Credentials, OpenedChannels, Tree, log_on};
use crate::{ChannelStatus, Error};
pub(crate) use state::SessionInner;

/// A session: our identity to the server. It uses connections and belongs to none of them. Copies share it.
///
/// Dropping the last copy does not log off. The server ends the session with its last connection.
/// [`Session::log_off`] ends it at once.
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) inner: Arc<SessionInner>,
}

/// A log-on after its first round trip ([`Session::begin`]).
pub struct LoggingOn<'a> {
    connection: &'a Connection,
    who: Credentials,
    begun: log_on::LogonChallenge<'a>,
}

impl fmt::Debug for LoggingOn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggingOn").field("who", &self.who).finish_non_exhaustive()
    }
}

impl LoggingOn<'_> {
    /// Does the second round trip, the authentication. With `encrypt` every message of the session is sealed.
    ///
    /// # Errors
    /// The same as [`Session::log_on`].
    pub async fn finish(self, encrypt: bool) -> Result<Session> {
        let logged_on = self.begun.finish().await?;
        Session::new(self.connection, self.who, logged_on, encrypt)
    }
}

impl Session {
    /// Logs on. With `encrypt` every message of the session is sealed.
    ///
    /// ```no_run
    /// # async fn example(connection: client::smb::Connection) -> client::Result<()> {
    /// let alice = client::smb::Credentials::new("alice", "her password");
    /// let session = client::smb::Session::log_on(&connection, &alice, false).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Status`] and [`Error::LogOn`] when the server does not let us in, [`Error::Guest`] when it
    /// lets us in as a guest, [`Error::NotOffered`] when it cannot encrypt, and [`Error::Late`] when it does
    /// not answer in time (`Options::connect_timeout` for each reply). A KDC has the same time for a ticket,
    /// and its silence is an [`Error::LogOn`].
    pub async fn log_on(connection: &Connection, who: &Credentials, encrypt: bool) -> Result<Session> {
        Session::begin(connection, who).await?.finish(encrypt).await
    }

    /// Does the first of the two round trips of [`Session::log_on`], which does not depend on the password. A
    /// caller that opens several sessions at once can try the password in one of them first. Servers count
    /// wrong passwords, and lock users out.
    ///
    /// # Errors
    /// The same as [`Session::log_on`].
    pub async fn begin<'a>(connection: &'a Connection, who: &Credentials) -> Result<LoggingOn<'a>> {
        Session::begin_anew(connection, who, 0).await
    }

    /// Does the same as [`Session::begin`], for a session that replaces the session `previous` of the same
    /// user. That one may be lost without the server's knowledge. The server ends it with all its opens.
    ///
    /// # Errors
    /// The same as [`Session::log_on`].
    pub async fn begin_anew<'a>(
        connection: &'a Connection,
        who: &Credentials,
        previous: u64,
    ) -> Result<LoggingOn<'a>> {
        let begun = log_on::begin(&connection.inner, who, previous).await?;
        Ok(LoggingOn { connection, who: who.clone(), begun })
    }

    /// Makes the result of a log-on a session over `connection`.
    fn new(
        connection: &Connection,
        who: Credentials,
        logged_on: log_on::LoggedOn,
        encrypt: bool,
    ) -> Result<Session> {
        let inner = &connection.inner;
        let log_on::LoggedOn { id, flags, keys } = logged_on;
        let must_encrypt = encrypt || flags.contains(SessionFlags::ENCRYPT_DATA);
        if must_encrypt && !keys.can_seal() {
            return Err(Error::NotOffered("encryption"));
        }
        let server_requires = inner.negotiated.security_mode.contains(SecurityMode::SIGNING_REQUIRED);
        let protection = match must_encrypt {
            true => Protection::Sealed,
            false if inner.options.require_signing || server_requires => Protection::Signed,
            false => Protection::None,
        };
        let first = Channel::new(Arc::clone(inner), keys, 0);
        let session = SessionInner {
            id,
            flags,
            protection,
            negotiated: inner.negotiated.clone(),
            options: inner.options.clone(),
            host: inner.host.clone(),
            credentials: who,
            keys: Arc::clone(&first.keys),
            channels: Channels::new(first),
            negotiating: tokio::sync::Mutex::new(()),
            renewals: AtomicU64::new(0),
            renewing: tokio::sync::Mutex::new(()),
            keeper: Mutex::new(None),
        };
        Ok(Session { inner: Arc::new(session) })
    }

    /// Opens further connections for this session, to the server's interfaces unless `options` names
    /// addresses. If the server refuses more, the session keeps those it has. An address that does not answer
    /// is replaced by one that does. It takes no longer than `Options::connect_timeout` and the waits for a
    /// turn.
    ///
    /// From now on each request uses the connection with the least in flight, among as many as make it faster
    /// ([`ChannelOptions::use_all`]: among all). When one is lost, its requests are repeated on another so
    /// that each is carried out once, and the connection is reopened. A second call has an effect only with
    /// more channels than before.
    ///
    /// ```no_run
    /// # async fn example(session: client::smb::Session) -> client::Result<()> {
    /// use client::smb::ChannelOptions;
    ///
    /// let opened = session.open_channels(&ChannelOptions { channels: 4, ..Default::default() }).await?;
    /// if let Some(why) = opened.failure {
    ///     eprintln!("{} channels, since {why}", opened.channels);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotOffered`] when the server does not offer Multichannel or has no address for it. The error
    /// of the query for interfaces.
    pub async fn open_channels(&self, options: &ChannelOptions) -> Result<OpenedChannels> {
        let inner = &self.inner;
        if options.channels > 1 && !open::is_offered(&inner.negotiated) {
            return Err(Error::NotOffered("several channels for one session"));
        }
        let mut plan = self.plan(options).await?;
        inner.channels.use_all(options.use_all);
        inner.dismiss_keeper();
        let mut failure = inner.open_all(&mut plan).await;
        if plan.len() < options.channels && failure.is_none() {
            failure = Some(Error::NotOffered("more addresses for channels"));
        }
        let channels = inner.channels.len();
        // A refused channel is not requested again and again.
        let plan = plan.into_iter().take(channels.max(1)).collect();
        inner.hire_keeper(&self.inner, plan, options);
        Ok(OpenedChannels { channels, failure })
    }

    /// Closes all connections but `channels`. At least one remains. The requests pending on the others are
    /// answered before they are closed. [`Session::open_channels`] opens more again.
    pub fn narrow(&self, channels: usize) {
        self.inner.dismiss_keeper();
        let plan = self.inner.channels.narrow(channels);
        self.inner.hire_keeper(&self.inner, plan, &ChannelOptions::default());
    }

    /// Computes the addresses of the further connections that [`Session::open_channels`] would open for
    /// `channels` in all. They serve as [`ChannelOptions::addresses`] later, when the query would wait behind
    /// other requests.
    ///
    /// # Errors
    /// The same as [`Session::open_channels`].
    pub async fn addresses(&self, channels: usize) -> Result<Vec<SocketAddr>> {
        if !open::is_offered(&self.inner.negotiated) {
            return Err(Error::NotOffered("several channels for one session"));
        }
        let mut plan = self.plan(&ChannelOptions { channels, ..ChannelOptions::default() }).await?;
        plan.remove(0);
        Ok(plan)
    }

    /// The addresses of all channels, including the first one.
    async fn plan(&self, options: &ChannelOptions) -> Result<Vec<SocketAddr>> {
        let peer = self.inner.channels.first()?.connection.peer;
        if options.channels <= 1 {
            return Ok(vec![peer]);
        }
        if !options.addresses.is_empty() {
            let further = options.addresses.iter().copied().cycle().take(options.channels - 1);
            return Ok([peer].into_iter().chain(further).collect());
        }
        let tree = self.connect("IPC$").await?;
        let interfaces = tree.interfaces().await;
        tree.disconnect().await?;
        Ok(open::plan(peer, &interfaces?, options.channels))
    }

    /// The present connections of the session.
    #[must_use]
    pub fn channels(&self) -> Vec<ChannelStatus> {
        self.inner.channels.status()
    }

    /// Limits the connection at an index of [`Session::channels`] to `rate` bytes per second in each
    /// direction, or lifts the limit.
    pub fn pace(&self, index: usize, rate: Option<u64>) {
        self.inner.channels.pace(index, rate);
    }

    /// The number of connections lost so far.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.inner.channels.losses()
    }

    /// The server's ID of the session.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// The kind of session that the server made.
    #[must_use]
    pub fn flags(&self) -> SessionFlags {
        self.inner.flags
    }

    /// Whether every message is signed. If not, some still are, such as the TREE_CONNECT of 3.1.1.
    #[must_use]
    pub fn signs(&self) -> bool {
        self.inner.protection == Protection::Signed
    }

    /// Whether every message is sealed.
    #[must_use]
    pub fn seals(&self) -> bool {
        self.inner.protection == Protection::Sealed
    }

    /// Connects to a share.
    ///
    /// # Errors
    /// [`Error::Status`] when the server has no such share or denies access, [`Error::NotOffered`] when the
    /// share demands encryption that was not negotiated.
    pub async fn connect(&self, share: &str) -> Result<Tree> {
        Tree::connect(Arc::clone(&self.inner), share).await
    }

    /// Does the same as [`Session::connect`], and queries `path` in the same round trip, as [`Tree::stat`]
    /// does. It takes further round trips before 3.1.1, where the server does not do both at once, and where
    /// the share demands encryption and the session does not. In the latter case the path is first sent
    /// signed and not sealed, before the server's demand is known.
    ///
    /// # Errors
    /// The same as [`Session::connect`]. The inner result has the errors of the query.
    pub async fn connect_and_look(&self, share: &str, path: &str) -> Result<(Tree, Result<FileInfo>)> {
        Tree::connect_and_look(Arc::clone(&self.inner), share, path).await
    }

    /// Ends the session and everything that was opened in it.
    ///
    /// # Errors
    /// When the server did not confirm it.
    pub async fn log_off(self) -> Result<()> {
        self.inner.dismiss_keeper();
        let part =
            FrameRequest { command: SmbCommand::Logoff, payload: 0, body: &|out| logoff::Request.write(out) };
        let answer = self.inner.call(0, Protection::None, [part]).await;
        self.inner.channels.close();
        answer?.success_or(NtStatus::USER_SESSION_DELETED)
    }
}

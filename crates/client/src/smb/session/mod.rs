//! A login: its identity, its keys, and the channels over which it is reached (MS-SMB2 3.2.1.3).

pub(crate) mod call;
mod inner;
mod keeper;
pub(crate) mod open;
mod series;

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use smb_wire::create::FileInfo;
use smb_wire::negotiate::SecurityMode;
use smb_wire::session_setup::SessionFlags;
use smb_wire::{NtStatus, SmbCommand, logoff};

use crate::error::Result;
use crate::patience::answered;
use crate::smb::channels::{Channel, Channels};
use crate::smb::link::Part;
use crate::smb::protection::Protection;
use crate::smb::{ChannelOptions, Connection, Credentials, Opened, Tree, log_on};
use crate::{ChannelStatus, Error};
pub(crate) use inner::SessionInner;

/// A session: who we are to the server. It uses connections and belongs to none; copies share it.
///
/// Dropping the last copy does not log off: the server ends the session with its last connection.
/// [`Session::log_off`] ends it now.
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) inner: Arc<SessionInner>,
}

/// What a login waits for.
const SESSION_SETUP: &str = "SESSION_SETUP";

/// A login of which the server has answered the first message ([`Session::begin`]).
pub struct LoggingOn<'a> {
    connection: &'a Connection,
    who: Credentials,
    begun: log_on::Begun<'a>,
}

impl fmt::Debug for LoggingOn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggingOn").field("who", &self.who).finish_non_exhaustive()
    }
}

impl LoggingOn<'_> {
    /// The second round trip: proves who we are. With `encrypt` every message of the session is sealed.
    ///
    /// # Errors
    /// As [`Session::log_on`].
    pub async fn finish(self, encrypt: bool) -> Result<Session> {
        let time = self.connection.inner.options.connect_timeout;
        let logged_on = answered(SESSION_SETUP, time, self.begun.finish()).await?;
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
    /// [`Error::Status`] and [`Error::LogOn`] when the server does not let us in, [`Error::Guest`] when it does
    /// so as its guest, [`Error::NotOffered`] when it cannot encrypt, [`Error::Late`] when it does not answer in time
    /// ([`Options::connect_timeout`]).
    pub async fn log_on(connection: &Connection, who: &Credentials, encrypt: bool) -> Result<Session> {
        answered(SESSION_SETUP, connection.inner.options.connect_timeout, async {
            Session::begin(connection, who).await?.finish(encrypt).await
        })
        .await
    }

    /// The first of the two round trips of [`Session::log_on`], in which nothing is said that depends on the password:
    /// for who opens several sessions at once, and wants to know from one of them that the password is right before
    /// it is tried in the others. Servers count wrong ones, and lock users out.
    ///
    /// # Errors
    /// As [`Session::log_on`].
    pub async fn begin<'a>(connection: &'a Connection, who: &Credentials) -> Result<LoggingOn<'a>> {
        Session::begin_anew(connection, who, 0).await
    }

    /// As [`Session::begin`], for a session that takes the place of the one with the number `previous`, of the same user.
    /// That may have been lost without the server knowing; it is ended there with all that it has open.
    ///
    /// # Errors
    /// As [`Session::log_on`].
    pub async fn begin_anew<'a>(
        connection: &'a Connection,
        who: &Credentials,
        previous: u64,
    ) -> Result<LoggingOn<'a>> {
        let time = connection.inner.options.connect_timeout;
        let begin = log_on::begin(&connection.inner, who, previous);
        let begun = answered(SESSION_SETUP, time, begin).await?;
        Ok(LoggingOn { connection, who: who.clone(), begun })
    }

    /// What came of a login, as a session over `connection`.
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

    /// Opens further connections for this session, to the server's interfaces unless `options` say where. A
    /// server that wants no more of them leaves the session with those it has; the place of an address that does not answer
    /// goes to one that does. It takes no longer than [`Options::connect_timeout`] and what waits for a turn.
    ///
    /// From now on a request goes over whichever connection has the least under way, among as many as make it
    /// quicker ([`ChannelOptions::use_all`]: among all); when one is lost, its requests are repeated on another so
    /// that each is done once, and it is opened again. To have an effect a second time it must be called with more
    /// channels than before.
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
    /// [`Error::NotOffered`] when the server does not offer Multichannel or knows no address for it; else what
    /// went wrong when it was asked for its interfaces.
    pub async fn open_channels(&self, options: &ChannelOptions) -> Result<Opened> {
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
        // What the server refused is not asked for again and again.
        let plan = plan.into_iter().take(channels.max(1)).collect();
        inner.hire_keeper(&self.inner, plan, options);
        Ok(Opened { channels, failure })
    }

    /// Gives up all connections but `channels`, of which at least one is left. What is under way on the others is
    /// answered there before they are closed. [`Session::open_channels`] opens more again.
    pub fn narrow(&self, channels: usize) {
        self.inner.dismiss_keeper();
        let plan = self.inner.channels.narrow(channels);
        self.inner.hire_keeper(&self.inner, plan, &ChannelOptions::default());
    }

    /// Where [`Session::open_channels`] would open further connections, in turn, so that there are `channels` in all; for
    /// [`ChannelOptions::addresses`] later on, when the question would wait behind what is under way.
    ///
    /// # Errors
    /// As [`Session::open_channels`].
    pub async fn addresses(&self, channels: usize) -> Result<Vec<SocketAddr>> {
        if !open::is_offered(&self.inner.negotiated) {
            return Err(Error::NotOffered("several channels for one session"));
        }
        let mut plan = self.plan(&ChannelOptions { channels, ..ChannelOptions::default() }).await?;
        plan.remove(0);
        Ok(plan)
    }

    /// Where all channels go, the first one included.
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

    /// The connections that carry the session now.
    #[must_use]
    pub fn channels(&self) -> Vec<ChannelStatus> {
        self.inner.channels.status()
    }

    /// Lets the connection at a place of [`Session::channels`] carry at most `rate` bytes in a second in each direction, or as
    /// many as it can.
    pub fn pace(&self, place: usize, rate: Option<u64>) {
        self.inner.channels.pace(place, rate);
    }

    /// How many connections were lost so far.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.inner.channels.losses()
    }

    /// The number by which the server knows the session.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// What kind of session the server made.
    #[must_use]
    pub fn flags(&self) -> SessionFlags {
        self.inner.flags
    }

    /// Whether every message is signed. Where this is false some still are, such as the TREE_CONNECT of 3.1.1.
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
    /// [`Error::Status`] when the server has no such share or does not let us in, [`Error::NotOffered`] when the
    /// share demands encryption that was not agreed on.
    pub async fn connect(&self, share: &str) -> Result<Tree> {
        Tree::connect(Arc::clone(&self.inner), share).await
    }

    /// As [`Session::connect`], and looks what is at `path` in the same round trip: what [`Tree::stat`] would answer. It takes
    /// further ones before 3.1.1, where the server does not do both at once, and where the share demands encryption and the
    /// session does not: the path is then sent signed and not sealed, before the server has said so.
    ///
    /// # Errors
    /// As [`Session::connect`]. What the server has against the look is within.
    pub async fn connect_and_look(&self, share: &str, path: &str) -> Result<(Tree, Result<FileInfo>)> {
        Tree::connect_and_look(Arc::clone(&self.inner), share, path).await
    }

    /// Ends the session and everything that was opened in it.
    ///
    /// # Errors
    /// When the server did not take notice.
    pub async fn log_off(self) -> Result<()> {
        self.inner.dismiss_keeper();
        let part = Part { command: SmbCommand::Logoff, payload: 0, body: &|out| logoff::Request.write(out) };
        let answer = self.inner.call(0, Protection::None, [part]).await;
        self.inner.channels.close();
        answer?.success_or(NtStatus::USER_SESSION_DELETED)
    }
}

//! A connection to a server. It carries messages, and owns neither sessions nor files.

use std::net::SocketAddr;
use std::sync::Arc;

use smb_wire::echo;
use tokio::net::{TcpStream, ToSocketAddrs};

use crate::error::Result;
use crate::retry::{answered, within};
use crate::smb::Options;
use crate::smb::link::{ECHO, Envelope, SmbTransport};
use crate::smb::negotiate::{Negotiated, negotiate};
use crate::transport::{Tasks, Tuning, tune};

/// A negotiated connection. Copies share it. It closes when the last copy is dropped, and the last session
/// and tree that use it.
#[derive(Debug, Clone)]
pub struct Connection {
    pub(crate) inner: Arc<ConnectionCore>,
}

#[derive(Debug)]
pub(crate) struct ConnectionCore {
    pub(crate) link: Arc<SmbTransport>,
    pub(crate) negotiated: Negotiated,
    pub(crate) options: Options,
    pub(crate) host: String,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    _tasks: Tasks,
}

impl Connection {
    /// Connects to `address` and negotiates. `host` is the server's name. The server may choose its identity
    /// by it, and it appears in paths. A server without a name is named by its address.
    ///
    /// ```no_run
    /// # async fn example() -> client::Result<()> {
    /// let options = client::smb::Options::default();
    /// let v4 = client::smb::Connection::connect(("192.0.2.7", 445), "files", &options).await?;
    /// let v6 = client::smb::Connection::connect("[2001:db8::7]:4450", "files", &options).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Error::Io` when there is no connection in time, `Error::Late` when NEGOTIATE is not answered, or
    /// the error that ends the negotiation.
    pub async fn connect(address: impl ToSocketAddrs, host: &str, options: &Options) -> Result<Connection> {
        let stream =
            within(options.connect_timeout, async { Ok(TcpStream::connect(address).await?) }).await?;
        Connection::over(stream, host, options).await
    }

    /// Negotiates over a connected stream.
    ///
    /// # Errors
    /// The error that ends the negotiation.
    pub async fn over(stream: TcpStream, host: &str, options: &Options) -> Result<Connection> {
        tune(&stream, Tuning { dead_after: options.dead_after, is_paced: options.pace.is_some() })?;
        let (local, peer) = (stream.local_addr()?, stream.peer_addr()?);
        let (link, tasks) = SmbTransport::start(stream, options.credits, options.silence);
        let negotiating = negotiate(&link, options, host);
        let negotiated = answered("NEGOTIATE", options.connect_timeout, negotiating).await?;
        link.rate.set(options.pace);
        let (options, host) = (options.clone(), host.to_owned());
        let inner = ConnectionCore { link, negotiated, options, host, local, peer, _tasks: tasks };
        Ok(Connection { inner: Arc::new(inner) })
    }

    /// The result of the negotiation.
    #[must_use]
    pub fn negotiated(&self) -> &Negotiated {
        &self.inner.negotiated
    }

    /// The credits that the server has granted, including those of pending requests. Each is worth 64 KiB of
    /// a request. [`Options::credits`] is the number that the client asks for.
    #[must_use]
    pub fn credits(&self) -> u32 {
        self.inner.link.credits()
    }

    /// The most credits that the server grants at once, if a request needed more and the server was asked for
    /// them in vain. Such requests are then split, and compounds go as single requests.
    #[must_use]
    pub fn most_credits(&self) -> Option<u32> {
        self.inner.link.most_credits()
    }

    /// Our address.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.inner.local
    }

    /// The server's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.inner.peer
    }

    /// Limits the connection to `rate` bytes per second in each direction, or lifts the limit.
    pub fn pace(&self, rate: Option<u64>) {
        self.inner.link.rate.set(rate);
    }

    /// Sends an ECHO to check that the server is alive.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn echo(&self) -> Result<()> {
        let [pending] = self.inner.link.send(Envelope::PLAIN, [ECHO], None).await?;
        let reply = pending.await?.success()?;
        echo::Response::parse(reply.message())?;
        Ok(())
    }
}

//! One session with a share. A lost session is replaced by another one.

use std::net::SocketAddr;
use std::sync::Arc;

use client::Url;
use client::remote::RemoteSession;
use client::smb::{ChannelOptions, Connection, Session, Tree};
use smb_wire::Guid;
use smb_wire::create::FileInfo;
use tokio::sync::{OnceCell, watch};

use crate::error::{Error, ErrorContext, FileResult};
use crate::plan::Access;

/// The most channels of a session.
const MOST_CHANNELS: usize = 16;

/// The order in which sessions that are opened at once try the password. A server counts wrong passwords, and
/// may lock a user out after a few. So one copy tries a wrong password once.
#[derive(Debug)]
pub(super) enum Order {
    /// This session tries it first, and tells here that it was let in.
    First(watch::Sender<bool>),
    /// Another session tries it first, and tells here that it was let in.
    Behind(watch::Receiver<bool>),
}

impl Order {
    /// The order of a session that is opened alone, or after another one.
    pub(super) fn alone() -> Order {
        Order::First(watch::Sender::new(false))
    }

    /// Waits until the password may be tried. Returns the sender for the news that it was right, or none if
    /// it was wrong.
    async fn turn(self) -> Option<watch::Sender<bool>> {
        match self {
            Order::First(told) => Some(told),
            Order::Behind(mut first) => {
                first.wait_for(|is_in| *is_in).await.ok()?;
                Some(watch::Sender::new(true))
            }
        }
    }
}

/// A new session, and the result of the query of the root.
pub(super) type Arrived = (ReconnectingSession, client::Result<FileInfo>);

/// A session with a share.
#[derive(Debug)]
pub(super) struct ReconnectingSession {
    smb: Session,
    pub(super) tree: Tree,
    /// The same session as [`client::remote`] has it.
    pub(super) session: RemoteSession,
    /// The addresses of further channels, once they are known.
    further: Arc<OnceCell<Vec<SocketAddr>>>,
    server: Guid,
    /// The source's share in this session, from which the server copies by itself.
    source_share: OnceCell<Tree>,
}

impl ReconnectingSession {
    /// Opens a session with the share.
    pub(super) async fn begin(
        remote: &Url,
        access: &Access,
        order: Order,
    ) -> Result<ReconnectingSession, Error> {
        ReconnectingSession::begin_in_place_of(None, remote, access, order).await
    }

    /// Opens a session with the share and queries the root.
    pub(super) async fn arrive(remote: &Url, access: &Access, order: Order) -> Result<Arrived, Error> {
        let (connection, session) = log_on(None, remote, access, order).await?;
        let arrived = session.connect_and_look(&remote.share, &remote.path).await;
        let (tree, found) = arrived.doing(|| connecting_to(remote))?;
        Ok((ReconnectingSession::new(&connection, session, tree), found))
    }

    /// Opens another session with the share. The server may not know yet that `lost` is gone, and keep its
    /// opens.
    pub(super) async fn begin_in_place_of(
        lost: Option<&ReconnectingSession>,
        remote: &Url,
        access: &Access,
        order: Order,
    ) -> Result<ReconnectingSession, Error> {
        let (connection, session) = log_on(lost, remote, access, order).await?;
        let tree = session.connect(&remote.share).await.doing(|| connecting_to(remote))?;
        Ok(ReconnectingSession::new(&connection, session, tree))
    }

    fn new(connection: &Connection, session: Session, tree: Tree) -> ReconnectingSession {
        let server = connection.negotiated().server_guid;
        let (smb, connection) = (session.clone(), connection.clone());
        let remote = RemoteSession::Smb { connection, session, tree: tree.clone() };
        let (further, source_share) = (Arc::default(), OnceCell::new());
        ReconnectingSession { smb, tree, session: remote, further, server, source_share }
    }

    /// Queries the addresses of further channels in the background. Later the query would wait behind the
    /// copied data.
    pub(super) fn look_around(&self) {
        let (session, further) = (self.smb.clone(), Arc::clone(&self.further));
        tokio::spawn(async move { drop(addresses(&session, &further).await) });
    }

    /// Opens as many channels as possible up to `channels`, and returns their number. Fewer only make the
    /// copy slower, so there is no message. The report shows the number.
    pub(super) async fn open_channels(&self, channels: usize) -> usize {
        if channels > self.smb.channels().len() {
            let addresses = addresses(&self.smb, &self.further).await;
            let options = ChannelOptions { channels, addresses, ..ChannelOptions::default() };
            let _ = self.smb.open_channels(&options).await;
        }
        self.smb.channels().len()
    }

    /// Whether both sessions are with one server.
    pub(super) fn is_at_server_of(&self, other: &ReconnectingSession) -> bool {
        // MS-SMB2 2.2.4
        self.server != Guid::ZERO && self.server == other.server
    }

    /// The source's share `share`, which is always the same, in this session.
    pub(super) async fn source_share(&self, share: &str) -> FileResult<Tree> {
        Ok(self.source_share.get_or_try_init(|| self.smb.connect(share)).await?.clone())
    }
}

fn connecting_to(remote: &Url) -> String {
    format!("connecting to the share {} of {}", remote.share, remote.host)
}

/// Connects and logs on.
async fn log_on(
    lost: Option<&ReconnectingSession>,
    remote: &Url,
    access: &Access,
    order: Order,
) -> Result<(Connection, Session), Error> {
    let address = (remote.host.as_str(), remote.port);
    let connection = Connection::connect(address, &remote.host, &access.smb)
        .await
        .doing(|| format!("connecting to {} port {}", remote.host, remote.port))?;
    let wanted = access.credentials.as_ref();
    let wanted = wanted.ok_or_else(|| Error::new("logging on", "there is no password"))?;
    let logging_on = || format!("logging on to {} as {}", remote.host, remote.user);
    let previous = lost.map_or(0, |lost| lost.smb.id());
    let begun = Session::begin_anew(&connection, wanted, previous).await.doing(logging_on)?;
    let told = order.turn().await.ok_or_else(|| Error::new(logging_on(), "the first session was refused"))?;
    let session = begun.finish(access.encrypt).await.doing(logging_on)?;
    told.send_replace(true);
    Ok((connection, session))
}

/// Queries, once, the addresses of further channels of the session.
async fn addresses(session: &Session, found: &OnceCell<Vec<SocketAddr>>) -> Vec<SocketAddr> {
    let ask = || async {
        let further = session.addresses(MOST_CHANNELS).await;
        // An interface without several queues accepts several connections all the same.
        let first = || session.channels().first().map(|it| it.peer).into_iter().collect();
        further.ok().filter(|it| !it.is_empty()).unwrap_or_else(first)
    };
    found.get_or_init(ask).await.clone()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    /// Whether `turn` has come, without waiting for it.
    async fn has_come(
        turn: &mut std::pin::Pin<&mut impl Future<Output = Option<watch::Sender<bool>>>>,
    ) -> bool {
        poll_fn(|context| Poll::Ready(turn.as_mut().poll(context).is_ready())).await
    }

    #[tokio::test]
    async fn others_try_the_password_only_when_the_first_session_was_let_in() {
        let (told, first) = watch::channel(false);
        let mut behind = pin!(Order::Behind(first).turn());
        let told = Order::First(told).turn().await.expect("nobody is waited for");
        assert!(!has_come(&mut behind).await);
        told.send_replace(true);
        assert!(has_come(&mut behind).await);
        assert!(Order::alone().turn().await.is_some());
    }

    #[tokio::test]
    async fn a_password_that_was_wrong_is_not_tried_again() {
        let (told, first) = watch::channel(false);
        drop(Order::First(told).turn().await);
        assert!(Order::Behind(first).turn().await.is_none());
    }
}

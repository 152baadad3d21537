//! A session with a share as long as it lasts.

use std::net::SocketAddr;
use std::sync::Arc;

use client::smb::{ChannelOptions, Connection, Session, Tree};
use client::{ChannelStatus, Url};
use smb_wire::Guid;
use smb_wire::create::FileInfo;
use tokio::sync::{OnceCell, watch};

use crate::error::{Doing, Done, Error};
use crate::plan::Access;

/// The most channels of a session.
const MOST_CHANNELS: usize = 16;

/// Which of several sessions that are opened at once tries the password first. A server counts wrong passwords, and may
/// lock a user out after a few: one copy uses up one of them.
#[derive(Debug)]
pub(super) enum Order {
    /// This one, which says here when it was let in.
    First(watch::Sender<bool>),
    /// Another one, which says here when it was.
    Behind(watch::Receiver<bool>),
}

impl Order {
    /// That of a session that is opened alone, or after another one.
    pub(super) fn alone() -> Order {
        Order::First(watch::Sender::new(false))
    }

    /// Waits until the password may be tried; answers who is to be told that it was right. None if it was wrong.
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

/// A session that was begun, and what is where the copy begins.
pub(super) type Arrived = (Live, client::Result<FileInfo>);

/// A session with a share.
#[derive(Debug)]
pub(super) struct Live {
    session: Session,
    pub(super) tree: Tree,
    /// The most bytes of one READ or WRITE.
    pub(super) max_io: u32,
    /// Where further channels go, in turn, as soon as it is known.
    further: Arc<OnceCell<Vec<SocketAddr>>>,
    server: Guid,
    /// The share from which the server copies by itself, in this session.
    beside: OnceCell<Tree>,
}

impl Live {
    /// Goes to the share.
    pub(super) async fn begin(remote: &Url, access: &Access, order: Order) -> Result<Live, Error> {
        Live::begin_in_place_of(None, remote, access, order).await
    }

    /// Goes to the share and looks what is where the copy begins.
    pub(super) async fn arrive(remote: &Url, access: &Access, order: Order) -> Result<Arrived, Error> {
        let (connection, session) = log_on(None, remote, access, order).await?;
        let arrived = session.connect_and_look(&remote.share, &remote.path).await;
        let (tree, found) = arrived.doing(|| connecting_to(remote))?;
        Ok((Live::new(&connection, session, tree), found))
    }

    /// Goes to the share again. The server may not know yet that `lost` is gone, and keep what it has open.
    pub(super) async fn begin_in_place_of(
        lost: Option<&Live>,
        remote: &Url,
        access: &Access,
        order: Order,
    ) -> Result<Live, Error> {
        let (connection, session) = log_on(lost, remote, access, order).await?;
        let tree = session.connect(&remote.share).await.doing(|| connecting_to(remote))?;
        Ok(Live::new(&connection, session, tree))
    }

    fn new(connection: &Connection, session: Session, tree: Tree) -> Live {
        let negotiated = connection.negotiated();
        let max_io = negotiated.max_read_size.min(negotiated.max_write_size);
        let server = negotiated.server_guid;
        Live { session, tree, max_io, further: Arc::default(), server, beside: OnceCell::new() }
    }

    /// Asks where further channels go, while other things are done. Later that would wait behind what is being copied.
    pub(super) fn look_around(&self) {
        let (session, further) = (self.session.clone(), Arc::clone(&self.further));
        tokio::spawn(async move { drop(addresses(&session, &further).await) });
    }

    /// Gives the session as many channels as it can have, and answers how many there are. Fewer only make the copy slower,
    /// so nothing is said; the report shows them.
    pub(super) async fn open_channels(&self, channels: usize) -> usize {
        if channels > self.session.channels().len() {
            let addresses = addresses(&self.session, &self.further).await;
            let options = ChannelOptions { channels, addresses, ..ChannelOptions::default() };
            let _ = self.session.open_channels(&options).await;
        }
        self.session.channels().len()
    }

    /// Gives up channels until there are so many.
    pub(super) fn narrow(&self, channels: usize) {
        self.session.narrow(channels);
    }

    /// Whether both are with one server.
    pub(super) fn is_at_server_of(&self, other: &Live) -> bool {
        // MS-SMB2 2.2.4
        self.server != Guid::ZERO && self.server == other.server
    }

    /// The share `share` in this session, which is always the same.
    pub(super) async fn beside(&self, share: &str) -> Done<Tree> {
        Ok(self.beside.get_or_try_init(|| self.session.connect(share)).await?.clone())
    }

    /// Whether it has no connection left.
    pub(super) fn is_lost(&self) -> bool {
        self.session.channels().is_empty()
    }

    /// Its connections.
    pub(super) fn channels(&self) -> Vec<ChannelStatus> {
        self.session.channels()
    }
}

fn connecting_to(remote: &Url) -> String {
    format!("connecting to the share {} of {}", remote.share, remote.host)
}

/// Gets in.
async fn log_on(
    lost: Option<&Live>,
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
    let previous = lost.map_or(0, |lost| lost.session.id());
    let begun = Session::begin_anew(&connection, wanted, previous).await.doing(logging_on)?;
    let told = order.turn().await.ok_or_else(|| Error::new(logging_on(), "the first session was refused"))?;
    let session = begun.finish(access.encrypt).await.doing(logging_on)?;
    told.send_replace(true);
    Ok((connection, session))
}

/// Finds out, once, where further channels of the session go.
async fn addresses(session: &Session, found: &OnceCell<Vec<SocketAddr>>) -> Vec<SocketAddr> {
    let ask = || async {
        let further = session.addresses(MOST_CHANNELS).await;
        // An interface that says nothing of several queues takes several connections all the same.
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

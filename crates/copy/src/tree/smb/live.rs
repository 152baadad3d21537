//! A session with a share as long as it lasts.

use std::net::SocketAddr;
use std::sync::Arc;

use client::{ChannelOptions, Connection, Session, Tree};
use tokio::sync::OnceCell;

use crate::Channel;
use crate::error::{Doing, Error};
use crate::place::Remote;
use crate::plan::Access;
use crate::tree::Carried;

/// The most channels of a session.
const MOST_CHANNELS: usize = 16;

/// A session with a share.
#[derive(Debug)]
pub(super) struct Live {
    session: Session,
    pub(super) tree: Tree,
    /// The most bytes of one READ or WRITE.
    pub(super) max_io: u32,
    /// Where further channels go, in turn, as soon as it is known.
    further: Arc<OnceCell<Vec<SocketAddr>>>,
}

impl Live {
    /// Goes to the share.
    pub(super) async fn begin(remote: &Remote, access: &Access) -> Result<Live, Error> {
        let address = (remote.host.as_str(), remote.port);
        let connection = Connection::connect(address, &remote.host, &access.smb)
            .await
            .doing(|| format!("connecting to {} port {}", remote.host, remote.port))?;
        let wanted = access.credentials.as_ref();
        let wanted = wanted.ok_or_else(|| Error::new("logging on", "there is no password"))?;
        let session = Session::log_on(&connection, wanted, access.encrypt)
            .await
            .doing(|| format!("logging on to {} as {}", remote.host, remote.user))?;
        let tree = session.connect(&remote.share).await;
        let tree = tree.doing(|| format!("connecting to the share {} of {}", remote.share, remote.host))?;
        let negotiated = connection.negotiated();
        let max_io = negotiated.max_read_size.min(negotiated.max_write_size);
        Ok(Live { session, tree, max_io, further: Arc::default() })
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

    /// What its connections have carried.
    pub(super) fn carried(&self) -> Carried {
        let channels = self.session.channels();
        channels.iter().map(|it| Carried::of(it.traffic)).fold(Carried::default(), Carried::and)
    }

    /// Its connections.
    pub(super) fn channels(&self) -> Vec<Channel> {
        let channel = |it: &client::ChannelStatus| Channel {
            local: it.local,
            peer: it.peer,
            requests: it.requests,
            bytes: it.bytes,
        };
        self.session.channels().iter().map(channel).collect()
    }
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

//! A way to the server that can be cut: what goes in at one end comes out at the other until it does not.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

/// Forwards connections to a server.
pub struct Proxy {
    /// Where this way begins.
    pub address: SocketAddr,
    carried: Arc<Mutex<Vec<AbortHandle>>>,
    held: watch::Sender<bool>,
    accepting: JoinHandle<()>,
    /// Bytes that were carried, in both directions.
    bytes: Arc<AtomicU64>,
}

impl Proxy {
    /// A way to `server`.
    pub async fn start(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let carried: Arc<Mutex<Vec<AbortHandle>>> = Arc::default();
        let of_all = Arc::clone(&carried);
        let (held, holding) = watch::channel(false);
        let bytes: Arc<AtomicU64> = Arc::default();
        let count = Arc::clone(&bytes);
        let accepting = tokio::spawn(async move {
            while let Ok((mut inner, _)) = listener.accept().await {
                let holding = holding.clone();
                let count = Arc::clone(&count);
                let carrying = tokio::spawn(async move {
                    if let Ok(outer) = TcpStream::connect(server).await {
                        let ((from_client, to_client), (from_server, to_server)) =
                            (inner.split(), outer.into_split());
                        let asking = carry(from_client, to_server, watch::channel(false).1, &count);
                        // Half of what was under way gets lost in either direction, as on a real link.
                        let _ = tokio::join!(asking, carry(from_server, to_client, holding, &count));
                    }
                });
                of_all.lock().unwrap().push(carrying.abort_handle());
            }
        });
        Proxy { address, carried, held, accepting, bytes }
    }

    /// Bytes that were carried so far, in both directions.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Keeps answers of the server back, or lets them pass.
    pub fn hold_answers(&self, is_held: bool) {
        self.held.send_replace(is_held);
    }

    /// Cuts everything that is carried; new connections pass. True when there was something to cut.
    pub fn cut(&self) -> bool {
        let carried = std::mem::take(&mut *self.carried.lock().unwrap());
        let alive = carried.iter().filter(|it| !it.is_finished());
        alive.inspect(|it| it.abort()).count() > 0
    }
}

/// Carries what one side says, unless it is held, and counts it.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut held: watch::Receiver<bool>,
    bytes: &AtomicU64,
) {
    let mut room = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut room).await {
        // Without the proxy nothing is held.
        let _ = held.wait_for(|is_held| !is_held).await;
        bytes.fetch_add(count as u64, Ordering::Relaxed);
        if to.write_all(&room[..count]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

/// Waits until `is` says so, for a while.
pub async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let waiting = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), waiting).await.is_ok(), "{what}");
}

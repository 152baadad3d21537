//! A proxy to a server whose connections can be cut.

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
    /// The address of the proxy.
    pub address: SocketAddr,
    carried: Arc<Mutex<Vec<AbortHandle>>>,
    held: watch::Sender<bool>,
    accepting: JoinHandle<()>,
    /// The number of bytes in both directions.
    bytes: Arc<AtomicU64>,
}

impl Proxy {
    /// Starts a proxy to `server`.
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
                        // As on a real link, data in flight is lost in both directions.
                        let _ = tokio::join!(asking, carry(from_server, to_client, holding, &count));
                    }
                });
                of_all.lock().unwrap().push(carrying.abort_handle());
            }
        });
        Proxy { address, carried, held, accepting, bytes }
    }

    /// The number of bytes so far, in both directions.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Holds the server's answers back, or lets them pass.
    pub fn hold_answers(&self, is_held: bool) {
        self.held.send_replace(is_held);
    }

    /// Cuts all connections. New connections pass. Returns whether there were any.
    pub fn cut(&self) -> bool {
        let carried = std::mem::take(&mut *self.carried.lock().unwrap());
        let alive = carried.iter().filter(|it| !it.is_finished());
        alive.inspect(|it| it.abort()).count() > 0
    }
}

/// Forwards one direction, unless it is held, and counts the bytes.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut held: watch::Receiver<bool>,
    bytes: &AtomicU64,
) {
    let mut room = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut room).await {
        // An error means that the proxy was dropped, and then nothing is held.
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

/// Waits until `is` returns true, up to a limit.
pub async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let waiting = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), waiting).await.is_ok(), "{what}");
}

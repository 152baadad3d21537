//! A way to the server that can be cut: what goes in at one end comes out at the other until it does not.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinHandle};

/// Forwards connections to a server.
pub struct Proxy {
    pub address: SocketAddr,
    carried: Arc<Mutex<Vec<AbortHandle>>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// A way to `server`.
    pub async fn start(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let carried: Arc<Mutex<Vec<AbortHandle>>> = Arc::default();
        let of_all = Arc::clone(&carried);
        let accepting = tokio::spawn(async move {
            while let Ok((mut inner, _)) = listener.accept().await {
                let carrying = tokio::spawn(async move {
                    if let Ok(mut outer) = TcpStream::connect(server).await {
                        // Half of what was under way gets lost in either direction, as on a real link.
                        let _ = tokio::io::copy_bidirectional(&mut inner, &mut outer).await;
                    }
                });
                of_all.lock().unwrap().push(carrying.abort_handle());
            }
        });
        Proxy { address, carried, accepting }
    }

    /// Cuts everything that is carried; new connections pass. True when there was something to cut.
    pub fn cut(&self) -> bool {
        let carried = std::mem::take(&mut *self.carried.lock().unwrap());
        let alive = carried.iter().filter(|it| !it.is_finished());
        alive.inspect(|it| it.abort()).count() > 0
    }
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

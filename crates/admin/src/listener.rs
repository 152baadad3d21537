//! The HTTP listeners of the admin page and of the metrics: one request on each connection, with or without
//! TLS, and with bounds on callers that are not let in ([`crate::strangers`]).

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::refusals::RefusalLog;
use crate::strangers::{Stranger, Strangers};
use crate::tls::{ClientCertificate, Tls};

/// The time that one exchange may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The other end of a connection.
pub(crate) struct HttpPeer {
    /// The caller's place among those who are not let in.
    stranger: Stranger,
    /// Its address.
    remote: SocketAddr,
    refusals: Arc<RefusalLog>,
    /// The client certificate, which the handshake has checked.
    pub certificate: Option<ClientCertificate>,
}

impl HttpPeer {
    /// The caller is let in.
    pub fn introduced(&self) {
        self.stranger.introduced();
    }

    /// Logs that the caller has sent a token that is refused for this reason.
    pub fn token_refused(&self, listener: &str, why: &str) {
        self.refusals.note(listener, self.remote, why);
    }
}

/// Something that a listener serves.
pub(crate) trait Service: Send + Sync + 'static {
    /// Its name in the log.
    const NAME: &'static str;

    /// The response to a request.
    fn respond(
        &self,
        request: Request<Incoming>,
        peer: &HttpPeer,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// Serves callers on a listening socket until the future is dropped.
pub(crate) async fn serve<S: Service>(listener: &TcpListener, tls: Option<Arc<Tls>>, service: Arc<S>) {
    let (strangers, refusals) = (Arc::new(Strangers::default()), Arc::new(RefusalLog::default()));
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => {
                let (service, tls, refusals) = (Arc::clone(&service), tls.clone(), Arc::clone(&refusals));
                strangers.serve(remote.ip().to_canonical(), |stranger| async move {
                    let peer = HttpPeer { stranger, remote, refusals, certificate: None };
                    if let Err(why) = connection(stream, peer, tls, service).await {
                        tracing::debug!(%remote, %why, "a caller of {} was not served", S::NAME);
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "{} accept no caller", S::NAME);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection<S: Service>(
    stream: TcpStream,
    peer: HttpPeer,
    tls: Option<Arc<Tls>>,
    service: Arc<S>,
) -> Result<(), String> {
    let Some(tls) = tls else { return exchange(stream, peer, service).await };
    let stream = tls.accept(stream).await.map_err(|error| error.to_string())?;
    let certificate = ClientCertificate::of(&stream);
    exchange(stream, HttpPeer { certificate, ..peer }, service).await
}

/// Answers one request and closes the connection.
async fn exchange<S: Service>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: HttpPeer,
    service: Arc<S>,
) -> Result<(), String> {
    let peer = Arc::new(peer);
    let answer = |request: Request<Incoming>| {
        let (peer, service) = (Arc::clone(&peer), Arc::clone(&service));
        async move { Ok::<_, Infallible>(service.respond(request, &peer).await) }
    };
    let connection =
        http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service_fn(answer));
    let ended = tokio::time::timeout(PATIENCE, connection).await.map_err(|_| "too slow".to_owned())?;
    ended.map_err(|error| error.to_string())
}

/// Makes a listening socket ready for [`crate::api::serve`] or [`crate::http::serve`]. The call must come
/// from inside a tokio runtime.
///
/// # Errors
/// The host's error.
pub fn ready(socket: std::net::TcpListener) -> io::Result<TcpListener> {
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

/// Whether other hosts can reach an address.
#[must_use]
pub fn is_reached_from_elsewhere(at: SocketAddr) -> bool {
    !at.ip().to_canonical().is_loopback()
}

//! Metrics over HTTP for programs on this host: `/metrics` for Prometheus, `/transactions` and `/workload` as
//! JSON.
//!
//! Nobody is authenticated here. So only harmless figures can be read, and only on loopback. A page of
//! another site in a browser on this host must not read them either: a request must name the host by a name
//! of loopback.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::{Controlled, prometheus};

/// The time that one exchange may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The number of callers that are served at once; more wait.
const MAX_CALLERS: usize = 8;

const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// The list of paths.
const INDEX: &str = "/metrics       for Prometheus\n/transactions  the same and more as JSON\n\
                     /workload      what clients do, as JSON\n";

/// Serves callers on a listening socket until the future is dropped.
pub async fn serve(listener: &TcpListener, server: Arc<dyn Controlled>) {
    let places = Arc::new(Semaphore::new(MAX_CALLERS));
    loop {
        let Ok(permit) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, remote)) => {
                let server = Arc::clone(&server);
                tokio::spawn(async move {
                    if let Err(why) = exchange(stream, server).await {
                        tracing::debug!(%remote, %why, "a caller of the metrics was not served");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the metrics accept no caller");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Answers one request and closes the connection.
async fn exchange(stream: TcpStream, server: Arc<dyn Controlled>) -> Result<(), String> {
    let answer = |request: Request<Incoming>| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(answer(&request, server).await) }
    };
    let connection =
        http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service_fn(answer));
    let ended = tokio::time::timeout(PATIENCE, connection).await.map_err(|_| "too slow".to_owned())?;
    ended.map_err(|error| error.to_string())
}

async fn answer<B>(request: &Request<B>, server: Arc<dyn Controlled>) -> Response<Full<Bytes>> {
    if !is_named_as_loopback(request.headers().get(HOST)) {
        let why = "ask for this host by localhost or its address\n";
        return response(StatusCode::MISDIRECTED_REQUEST, PLAIN, why.to_owned());
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut refused = response(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD\n".to_owned());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    let path = request.uri().path().to_owned();
    // It may ask the host, which may take long.
    let made = tokio::task::spawn_blocking(move || page(&path, &*server)).await;
    match made {
        Ok(Some((kind, text))) => response(StatusCode::OK, kind, text),
        Ok(None) => response(StatusCode::NOT_FOUND, PLAIN, format!("there is only\n{INDEX}")),
        Err(_) => response(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, "it failed; see the log\n".to_owned()),
    }
}

/// The content type and the text of a path.
fn page(path: &str, server: &dyn Controlled) -> Option<(&'static str, String)> {
    match path {
        "/" => Some((PLAIN, INDEX.to_owned())),
        "/metrics" => Some((prometheus::CONTENT_TYPE, prometheus::text(&server.transactions()))),
        "/transactions" => Some((JSON, serde_json::to_string(&server.transactions()).ok()?)),
        "/workload" => Some((JSON, serde_json::to_string(&server.workload()).ok()?)),
        _ => None,
    }
}

fn response(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers: [(HeaderName, &'static str); 3] =
        [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether a request names this host by a name or an address of loopback.
pub(crate) fn is_named_as_loopback(host: Option<&HeaderValue>) -> bool {
    let Some(host) = host.and_then(|host| host.to_str().ok()) else { return false };
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Makes a listening socket ready for [`serve`]. The call must come from inside a tokio runtime.
///
/// # Errors
/// The host's error.
pub fn listener(socket: std::net::TcpListener) -> io::Result<TcpListener> {
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::testing::Fake;

    /// Sends `request` to a server. Gives all that comes back.
    fn ask(request: &str) -> String {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let controlled: Arc<dyn Controlled> = Arc::new(Fake::default());
        let serving = runtime.spawn(async move { serve(&listener(socket).unwrap(), controlled).await });
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serving.abort();
        answer
    }

    fn get(path: &str) -> String {
        ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost:9445\r\n\r\n"))
    }

    #[test]
    fn metrics_come_in_both_forms() {
        let metrics = get("/metrics");
        assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n") && metrics.contains("version=0.0.4"), "{metrics}");
        assert!(metrics.contains("\n# TYPE trunkline_transactions_total counter\n"), "{metrics}");
        let json = get("/transactions");
        assert!(json.contains("application/json") && json.contains("\"at_ns\":7"), "{json}");
        assert!(get("/workload").contains("\"clients\":[]"));
        assert!(get("/").contains("/metrics"));
        let head = ask("HEAD /metrics HTTP/1.1\r\nHost: [::1]\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && !head.contains("# TYPE"), "{head}");
    }

    #[test]
    fn whatever_else_is_asked_is_refused() {
        let refused = |request: &str, status: &str| {
            let answer = ask(request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        };
        refused("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421");
        refused("GET /metrics HTTP/1.1\r\nHost: 10.0.0.1:9445\r\n\r\n", "421");
        refused("GET /metrics HTTP/1.1\r\n\r\n", "421");
        refused("POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n", "405");
        refused("GET /../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "404");
        refused("nonsense\r\n\r\n", "400");
    }
}

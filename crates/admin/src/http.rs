//! Metrics over HTTP: `/metrics` for Prometheus, `/transactions` and `/workload` as JSON. The probes of
//! [`crate::probes`] are here too.
//!
//! On loopback nobody is asked for a token, so only harmless figures can be read. A page of another site in a
//! browser on this host must not read them: a request must name the host by a name of loopback. From other
//! hosts a request comes over TLS, with a token or a client certificate ([`crate::door`]).

use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::access::Role;
use crate::door::{Door, NotLetIn};
use crate::listener::{self, HttpPeer, Service};
use crate::probes::{Probe, Probes};
use crate::tls::Tls;
use crate::{Controlled, prometheus};

/// The number of callers that are served at once; more wait.
const MAX_CALLERS: usize = 8;

const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// A path of the metrics.
pub(crate) struct MetricsPage {
    pub path: &'static str,
    about: &'static str,
    /// The role that is needed from another host.
    pub role: Role,
    /// The content type and the text.
    text: fn(&dyn Controlled) -> Option<(&'static str, String)>,
}

/// All paths.
pub(crate) static PAGES: [MetricsPage; 3] = [
    MetricsPage {
        path: "/metrics",
        about: "for Prometheus",
        role: Role::Read,
        text: |server| Some((prometheus::CONTENT_TYPE, prometheus::text(&server.transactions()))),
    },
    MetricsPage {
        path: "/transactions",
        about: "the same and more as JSON",
        role: Role::Read,
        text: |server| Some((JSON, serde_json::to_string(&server.transactions()).ok()?)),
    },
    MetricsPage {
        path: "/workload",
        about: "what clients do, as JSON",
        role: Role::Read,
        text: |server| Some((JSON, serde_json::to_string(&server.workload()).ok()?)),
    },
];

/// The probes, which need no role.
pub(crate) const PROBES: [(&str, &str); 2] =
    [("/livez", "ok while the server is alive"), ("/readyz", "ok while clients can be sent to it")];

/// The list of paths.
fn index() -> String {
    let pages = PAGES.iter().map(|page| (page.path, page.about));
    pages.chain(PROBES).map(|(path, about)| format!("{path:14} {about}\n")).collect()
}

/// The parts that all callers share.
struct Metrics {
    door: Door,
    places: Semaphore,
    probes: Probes,
    server: Arc<dyn Controlled>,
}

/// Serves callers on a listening socket until the future is dropped. Without TLS nobody is asked for a token.
pub async fn serve(listener: &TcpListener, door: Door, tls: Option<Arc<Tls>>, server: Arc<dyn Controlled>) {
    let (places, probes) = (Semaphore::new(MAX_CALLERS), Probes::new(Arc::clone(&server)));
    let metrics = Metrics { door, places, probes, server };
    listener::serve(listener, tls, Arc::new(metrics)).await;
}

impl Service for Metrics {
    const NAME: &'static str = "the metrics";

    async fn respond(&self, request: Request<Incoming>, peer: &HttpPeer) -> Response<Full<Bytes>> {
        let (head, _) = request.into_parts();
        if let Err(refused) = self.door.names_this_host(&head) {
            return plain(refused.status, refused.text);
        }
        if head.method != Method::GET && head.method != Method::HEAD {
            let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        if let Some(probe) = Probe::of(head.uri.path()) {
            let is_verbose = Probe::is_verbose(&head) && self.admits(&head, peer).is_ok();
            let (status, text) = self.probes.answer(probe, is_verbose).await;
            return response(status, PLAIN, text);
        }
        if let Err(refused) = self.admits(&head, peer) {
            let is_unknown = refused.status == StatusCode::UNAUTHORIZED;
            let mut response = plain(refused.status, refused.text);
            if is_unknown {
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            return response;
        }
        // Without TLS nobody is asked, so that nobody is known.
        if self.door.is_sealed {
            peer.introduced();
        }
        let Ok(_place) = self.places.acquire().await else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "the server ends");
        };
        let (path, server) = (head.uri.path().to_owned(), Arc::clone(&self.server));
        // It may ask the host, which may take long.
        let made = tokio::task::spawn_blocking(move || page(&path, &*server)).await;
        match made {
            Ok(Some((kind, text))) => response(StatusCode::OK, kind, text),
            Ok(None) => plain(StatusCode::NOT_FOUND, format!("there is only\n{}", index().trim_end())),
            Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "it failed; see the log"),
        }
    }
}

impl Metrics {
    /// Whether the sender of a request may have the page.
    fn admits(&self, head: &Parts, peer: &HttpPeer) -> Result<(), NotLetIn> {
        if !self.door.is_sealed {
            return Ok(());
        }
        let role = PAGES.iter().find(|page| page.path == head.uri.path()).map_or(Role::Read, |it| it.role);
        let caller = self.door.caller(Metrics::NAME, head, peer, &*self.server)?;
        let refused = |text| NotLetIn { status: StatusCode::FORBIDDEN, text };
        caller.may(head.uri.path(), role).map_err(refused)
    }
}

/// The content type and the text of a path.
fn page(path: &str, server: &dyn Controlled) -> Option<(&'static str, String)> {
    if path == "/" {
        return Some((PLAIN, index()));
    }
    let page = PAGES.iter().find(|page| page.path == path)?;
    (page.text)(server)
}

fn plain(status: StatusCode, text: impl Into<String>) -> Response<Full<Bytes>> {
    response(status, PLAIN, text.into() + "\n")
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
        let serving = runtime.spawn(async move {
            serve(&listener::ready(socket).unwrap(), Door::default(), None, controlled).await;
        });
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(listener::PATIENCE)).unwrap();
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
        assert!(get("/").contains("/metrics") && get("/").contains("/readyz"));
        assert!(get("/livez").ends_with("\r\n\r\nok\n") && get("/readyz").ends_with("\r\n\r\nok\n"));
        assert!(get("/readyz?verbose").contains("[+]shares ok\n"));
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

    #[test]
    fn from_other_hosts_a_token_is_needed_and_without_tls_nobody_is_asked() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let files = tempfile::tempdir().unwrap();
        let (certificate, key) = crate::tls::tests::pair();
        let at = |name: &str| files.path().join(name);
        std::fs::write(at("cert.pem"), &certificate).unwrap();
        std::fs::write(at("key.pem"), key).unwrap();
        let own = crate::tls::TlsFiles { certificate: at("cert.pem"), key: at("key.pem"), client_ca: None };
        let tls = Arc::new(Tls::load(own).unwrap());
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let controlled: Arc<dyn Controlled> = Arc::new(Fake::default());
        let door = Door { is_sealed: true, ..Door::default() };
        runtime.spawn(async move {
            serve(&listener::ready(socket).unwrap(), door, Some(tls), controlled).await;
        });
        let connector = crate::tls::tests::connector(&certificate, None);
        let ask = |path: &str, headers: &str| {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let request = format!("GET {path} HTTP/1.1\r\nHost: files.example.net\r\n{headers}\r\n");
            let exchange = async {
                let stream = tokio::net::TcpStream::connect(address).await.unwrap();
                let mut stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                answer
            };
            runtime.block_on(async { tokio::time::timeout(listener::PATIENCE, exchange).await }).unwrap()
        };
        let with = |token: &str| format!("Authorization: Bearer {token}\r\n");
        let none = ask("/metrics", "");
        assert!(none.starts_with("HTTP/1.1 401 ") && none.contains("www-authenticate: Bearer"), "{none}");
        for bad in ["wrong", "token-old"] {
            assert!(ask("/metrics", &with(bad)).starts_with("HTTP/1.1 401 "), "{bad}");
        }
        for path in ["/metrics", "/transactions", "/workload", "/"] {
            let read = ask(path, &with(&crate::testing::token(Role::Read)));
            assert!(read.starts_with("HTTP/1.1 200 "), "{path}: {read}");
            assert!(ask(path, "").starts_with("HTTP/1.1 401 "), "{path}");
        }
        // Probes need no token. Reasons are for those who have one.
        for (path, _) in PROBES {
            let verbose = format!("{path}?verbose");
            for (path, headers) in [(path, ""), (verbose.as_str(), ""), (&verbose, &*with("wrong"))] {
                let answer = ask(path, headers);
                assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nok\n"), "{answer}");
            }
            let told = ask(&verbose, &with(&crate::testing::token(Role::Read)));
            assert!(told.contains(" check passed\n"), "{told}");
        }
    }
}

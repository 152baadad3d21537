//! The admin API and the admin page over HTTP: what the server does, and changes of accounts, shares, users,
//! tokens and open files.
//!
//! [`crate::listener`] accepts connections, and [`crate::door`] decides about each request: which host it
//! names, from which page it comes, and who sends it. `routes.rs` leads requests to their handlers and checks
//! the caller's role. [`openapi`] describes the routes. [`objects`] handles accounts and shares, [`users`]
//! users, [`tokens`] tokens. The page (`page/`) is files in this program and sends requests to nothing but
//! this API.

mod objects;
pub mod openapi;
mod routes;
mod tokens;
mod users;

use std::sync::{Arc, OnceLock};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::Controlled;
use crate::access::Caller;
use crate::door::{Door, NotLetIn};
use crate::listener::{self, HttpPeer, Service};
use crate::objects::{Refusal, RefusalKind};
use crate::open_files;
use crate::overview::{Overview, ROWS, TableFilter};
use crate::probes::{Probe, Probes};
use crate::tls::Tls;
pub(crate) use routes::with_roles as routes_with_roles;

/// The number of callers with a token that are served at once; more wait.
const MAX_CALLERS: usize = 16;
/// The longest body of a request, in bytes.
const MAX_BODY: usize = 64 * 1024;

const JSON: &str = "application/json";
const PLAIN: &str = "text/plain; charset=utf-8";
const PAGE: &str = include_str!("../page/page.html");
const STYLE: &str = include_str!("../page/page.css");
const SCRIPT: &str = include_str!("../page/page.js");
const PLOT: &str = include_str!("../page/plot.js");
const TABLES: &str = include_str!("../page/tables.js");
const ICON: &str = include_str!("../page/icon.svg");
const FORMS: &str = include_str!("../page/forms.js");
const TOKENS: &str = include_str!("../page/tokens.js");

/// The content security policy: the page loads files from here and sends requests to here.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The parts that all callers share.
struct Page {
    door: Door,
    places: Semaphore,
    probes: Probes,
    server: Arc<dyn Controlled>,
    /// The description of the API. It is made once, because callers without the token may ask for it.
    described: OnceLock<Bytes>,
}

/// Serves callers on a listening socket until the future is dropped.
pub async fn serve(listener: &TcpListener, door: Door, tls: Option<Arc<Tls>>, server: Arc<dyn Controlled>) {
    let (places, described) = (Semaphore::new(MAX_CALLERS), OnceLock::new());
    let probes = Probes::new(Arc::clone(&server));
    let page = Page { door, places, probes, server, described };
    listener::serve(listener, tls, Arc::new(page)).await;
}

impl Service for Page {
    const NAME: &'static str = "the admin API";

    async fn respond(&self, request: Request<Incoming>, peer: &HttpPeer) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let has_body = !body.is_end_stream();
        let door = &self.door;
        let known = door.names_this_host(&head).and_then(|()| door.is_no_other_site(&head, has_body));
        if let Err(refused) = known {
            return ApiResponse::not_let_in(&refused).response();
        }
        if let Some((kind, text)) = open(&path, self) {
            let is_read = [Method::GET, Method::HEAD].contains(&head.method);
            return if is_read {
                with_headers(Response::new(Full::new(text)), kind)
            } else {
                ApiResponse::no_method("GET, HEAD").response()
            };
        }
        let caller = self.door.caller(Page::NAME, &head, peer, &*self.server);
        if let Some(probe) = Probe::of(&path) {
            let (status, text) = self.probes.answer(probe, Probe::is_verbose(&head) && caller.is_ok()).await;
            let mut response = with_headers(Response::new(Full::new(Bytes::from(text))), PLAIN);
            *response.status_mut() = status;
            return response;
        }
        if let Err(refused) = caller {
            return ApiResponse::not_let_in(&refused).response();
        }
        // Until its body is here a caller counts as a stranger and holds no place.
        let Ok(body) = Limited::new(body, MAX_BODY).collect().await else {
            let why = "the body is longer than 64 KiB";
            return ApiResponse::error(StatusCode::PAYLOAD_TOO_LARGE, why).response();
        };
        peer.introduced();
        let Ok(_place) = self.places.acquire().await else {
            return ApiResponse::error(StatusCode::SERVICE_UNAVAILABLE, "the server ends").response();
        };
        // Body and place took time. A token that was revoked or has expired since does nothing more.
        let caller = match self.door.caller(Page::NAME, &head, peer, &*self.server) {
            Ok(caller) => caller,
            Err(refused) => return ApiResponse::not_let_in(&refused).response(),
        };
        let asked = ApiRequest { head, path, body: body.to_bytes(), caller };
        let server = Arc::clone(&self.server);
        // It may ask the host, which may take long.
        let made = tokio::task::spawn_blocking(move || routes::answer(&asked, &*server)).await;
        let failed = |_| ApiResponse::error(StatusCode::INTERNAL_SERVER_ERROR, "it failed; see the log");
        made.unwrap_or_else(failed).response()
    }
}

/// The files that need no token, because they hold nothing of the server: the page and the description of the
/// API.
fn open(path: &str, page: &Page) -> Option<(&'static str, Bytes)> {
    let file = |kind, text: &'static str| Some((kind, Bytes::from_static(text.as_bytes())));
    match path {
        "/" => file("text/html; charset=utf-8", PAGE),
        "/page.css" => file("text/css; charset=utf-8", STYLE),
        "/page.js" => file("text/javascript; charset=utf-8", SCRIPT),
        "/plot.js" => file("text/javascript; charset=utf-8", PLOT),
        "/tables.js" => file("text/javascript; charset=utf-8", TABLES),
        "/forms.js" => file("text/javascript; charset=utf-8", FORMS),
        "/tokens.js" => file("text/javascript; charset=utf-8", TOKENS),
        "/icon.svg" => file("image/svg+xml", ICON),
        "/openapi.json" => {
            let document = || openapi::document(|kind| page.server.settings_schema(kind));
            let described = page.described.get_or_init(|| document().to_string().into());
            Some((JSON, described.clone()))
        }
        _ => None,
    }
}

fn with_headers(mut response: Response<Full<Bytes>>, kind: &'static str) -> Response<Full<Bytes>> {
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("content-security-policy"), POLICY),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A request that was let in.
struct ApiRequest {
    head: hyper::http::request::Parts,
    path: String,
    body: Bytes,
    caller: Caller,
}

/// The response to a request.
struct ApiResponse {
    status: StatusCode,
    json: String,
    headers: Vec<(HeaderName, String)>,
}

impl ApiResponse {
    fn ok(value: &impl Serialize) -> ApiResponse {
        match serde_json::to_string(value) {
            Ok(json) => ApiResponse { status: StatusCode::OK, json, headers: Vec::new() },
            Err(error) => ApiResponse::error(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }

    fn error(status: StatusCode, text: &str) -> ApiResponse {
        let json = serde_json::json!({ "error": text }).to_string();
        ApiResponse { status, json, headers: Vec::new() }
    }

    fn refused(refusal: &Refusal) -> ApiResponse {
        let status = match refusal.why {
            RefusalKind::Bad => StatusCode::BAD_REQUEST,
            RefusalKind::NotFound => StatusCode::NOT_FOUND,
            RefusalKind::Conflict => StatusCode::CONFLICT,
            RefusalKind::OldVersion => StatusCode::PRECONDITION_FAILED,
            RefusalKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        ApiResponse::error(status, &refusal.text)
    }

    fn no_method(allowed: &str) -> ApiResponse {
        let refused = ApiResponse::error(StatusCode::METHOD_NOT_ALLOWED, &format!("only {allowed}"));
        refused.with(hyper::header::ALLOW, allowed)
    }

    fn not_let_in(refused: &NotLetIn) -> ApiResponse {
        let answer = ApiResponse::error(refused.status, &refused.text);
        match refused.status {
            StatusCode::UNAUTHORIZED => answer.with(WWW_AUTHENTICATE, "Bearer"),
            _ => answer,
        }
    }

    fn with(mut self, name: HeaderName, value: impl Into<String>) -> ApiResponse {
        self.headers.push((name, value.into()));
        self
    }

    fn response(self) -> Response<Full<Bytes>> {
        let mut response = with_headers(Response::new(Full::new(Bytes::from(self.json))), JSON);
        *response.status_mut() = self.status;
        for (name, value) in self.headers {
            // Values that cannot stand in a header are none of ours.
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

impl ApiRequest {
    fn overview(&self, server: &dyn Controlled) -> ApiResponse {
        let (status, counted) = (server.status(), server.transactions());
        let mut overview = Overview::new(&status, &server.channels(), &counted, &self.filter());
        // Both tables of the view of files come from one look at the server.
        if let Some(find) = self.query("files") {
            overview.files =
                Some(open_files::OpenTables::new(&status, &TableFilter { find, ..self.filter() }));
        }
        ApiResponse::ok(&overview)
    }

    /// The part of a table that is requested.
    fn filter(&self) -> TableFilter {
        let most = self.query("most").and_then(|most| most.parse().ok()).unwrap_or(ROWS);
        let share = self.query("share").filter(|share| !share.is_empty());
        TableFilter { find: self.query("find").unwrap_or_default(), most, share }
    }

    /// Closes the open or the locks of an id.
    fn close_open(close_id: &str, server: &dyn Controlled) -> ApiResponse {
        match server.close_open(close_id) {
            Ok(closed) => ApiResponse::ok(&closed),
            Err(refusal) => ApiResponse::refused(&refusal),
        }
    }

    /// A value of the query.
    fn query(&self, key: &str) -> Option<String> {
        let items = self.head.uri.query()?.split('&');
        let found = items.filter_map(|item| item.split_once('=')).find(|(name, _)| *name == key)?;
        decoded(&found.1.replace('+', " "))
    }
}

/// Decodes percent signs. None when the result is no text.
fn decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        out.push(u8::try_from(digit()? << 4 | digit()?).ok()?);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests;

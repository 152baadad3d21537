//! The JSON gateway of the members of etcd, over HTTP/1.1 with or without TLS.
//!
//! [`Gateway::ask`] does some work with one member after the other, until one has done it.
//! [`Gateway::ask_any`] begins with the next member before the one before it has failed, for work that may be
//! done twice. The time is bounded, so a member that hangs costs little of a term.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tenure::StoreError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::reply::{self, ReplyHeader};
use super::tls::ClientTls;

/// The port of etcd for clients.
const PORT: u16 = 2379;

/// The longest reply, and the longest line of a watch. A record is much shorter.
const MAX_REPLY: usize = 1 << 20;

/// The address of a member, or of several behind one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdEndpoint {
    pub is_tls: bool,
    /// A name or an address, without brackets.
    pub host: String,
    pub port: u16,
}

impl EtcdEndpoint {
    /// Reads `http://HOST:PORT` or `https://HOST:PORT`.
    ///
    /// # Errors
    /// One line with the reason.
    pub fn parse(text: &str) -> Result<EtcdEndpoint, String> {
        let bad = |why: &str| format!("`{text}` is no endpoint of etcd: {why}");
        let (is_tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err(bad("it begins with neither http:// nor https://")),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#', '@']) || rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(bad("it has more than a host and a port"));
        }
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or_else(|| bad("a `]` is missing"))?;
                let port = after.strip_prefix(':').or(after.is_empty().then_some(""));
                (host, port.ok_or_else(|| bad("the port follows a `:`"))?)
            }
            None => rest.split_once(':').unwrap_or((rest, "")),
        };
        if host.is_empty() {
            return Err(bad("the host is missing"));
        }
        if port.contains(':') {
            return Err(bad("an IPv6 address is written in brackets"));
        }
        let port = match port {
            "" => PORT,
            port => {
                port.parse().ok().filter(|port| *port != 0).ok_or_else(|| bad("the port is no number"))?
            }
        };
        Ok(EtcdEndpoint { is_tls, host: host.to_owned(), port })
    }

    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Whether bytes to it stay on this host.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for EtcdEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_tls { "https" } else { "http" }, self.authority())
    }
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// This member does not reply, or its reply is of no use. Another member may do better.
    Member(String),
    /// The token is not valid any more.
    Token(String),
    /// etcd refuses the call, whichever member is asked.
    Refused(String),
}

/// A name and a password for etcd.
#[derive(Clone)]
pub struct EtcdLogin {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for EtcdLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdLogin").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Work with one endpoint.
type MemberWork<'a, T> = Pin<Box<dyn Future<Output = Result<T, CallError>> + 'a>>;

/// The longest time until another member is asked as well.
const MAX_STAGGER: Duration = Duration::from_millis(250);

/// The members of one etcd.
pub struct Gateway {
    endpoints: Vec<EtcdEndpoint>,
    tls: Option<ClientTls>,
    login: Option<EtcdLogin>,
    /// The time for one call.
    patience: Duration,
    /// The endpoint that has done the last work.
    preferred: AtomicUsize,
    token: Mutex<Option<String>>,
    /// The id of the cluster that has replied first. A reply of another cluster is never believed.
    cluster: Mutex<Option<u64>>,
}

impl Gateway {
    pub fn new(
        endpoints: Vec<EtcdEndpoint>,
        tls: Option<ClientTls>,
        login: Option<EtcdLogin>,
        patience: Duration,
    ) -> Gateway {
        let (preferred, token, cluster) = (AtomicUsize::new(0), Mutex::new(None), Mutex::new(None));
        Gateway { endpoints, tls, login, patience, preferred, token, cluster }
    }

    /// The endpoints from the one that has done the last work on.
    pub fn order(&self) -> Vec<usize> {
        let (first, count) = (self.preferred.load(Ordering::Relaxed), self.endpoints.len());
        (0..count).map(|step| (first + step) % count).collect()
    }

    /// Does `work` with one member after the other, until one has done it. Each has its part of the time. The
    /// work may have been done by members that failed, too.
    ///
    /// # Errors
    /// [`StoreError::Refused`], or [`StoreError::Unreachable`] with the failures of all members.
    pub async fn ask<T>(
        &self,
        work: impl AsyncFn(&mut Member) -> Result<T, CallError>,
    ) -> Result<T, StoreError> {
        let part = self.patience / u32::try_from(self.endpoints.len()).unwrap_or(u32::MAX);
        let mut failures = Failures::default();
        for at in self.order() {
            let endpoint = &self.endpoints[at];
            match within(part, self.ask_one(endpoint, &work)).await {
                Ok(done) => {
                    self.preferred.store(at, Ordering::Relaxed);
                    return Ok(done);
                }
                Err(error) => failures.add(endpoint, error)?,
            }
        }
        Err(failures.unreachable())
    }

    /// Does `work` with all members, each begun a moment after the one before it. The first one that has done
    /// it counts.
    ///
    /// # Errors
    /// [`StoreError::Refused`], or [`StoreError::Unreachable`] with the failures of all members.
    pub async fn ask_any<T>(
        &self,
        work: impl AsyncFn(&mut Member) -> Result<T, CallError>,
    ) -> Result<T, StoreError> {
        let (mut stagger, work) = (Duration::ZERO, &work);
        let attempts = self.order().into_iter().map(|at| -> (usize, MemberWork<'_, T>) {
            let pause = stagger;
            stagger += (self.patience / 10).min(MAX_STAGGER);
            let attempt = async move {
                tokio::time::sleep(pause).await;
                self.ask_one(&self.endpoints[at], work).await
            };
            (at, Box::pin(within(self.patience, attempt)))
        });
        let (at, done) = self.first(attempts.collect()).await?;
        self.preferred.store(at, Ordering::Relaxed);
        Ok(done)
    }

    /// Watches a key at all members at once, since one that hangs would hide a change. It returns when
    /// something happens to the key from this revision on.
    ///
    /// # Errors
    /// [`StoreError::Refused`], or [`StoreError::Unreachable`] with the failures of all members.
    pub async fn watch(&self, key: &str, revision: u64) -> Result<(), StoreError> {
        let attempts = self.order().into_iter().map(|at| -> (usize, MemberWork<'_, ()>) {
            (at, Box::pin(self.watch_one(&self.endpoints[at], key, revision)))
        });
        self.first(attempts.collect()).await.map(|(_, done)| done)
    }

    /// The first success of attempts at several endpoints, with the endpoint.
    async fn first<T>(
        &self,
        mut attempts: Vec<(usize, MemberWork<'_, T>)>,
    ) -> Result<(usize, T), StoreError> {
        let mut failures = Failures::default();
        std::future::poll_fn(move |context| {
            let mut next = 0;
            while let Some((at, attempt)) = attempts.get_mut(next) {
                match attempt.as_mut().poll(context) {
                    Poll::Ready(Ok(done)) => return Poll::Ready(Ok((*at, done))),
                    Poll::Ready(Err(error)) => {
                        if let Err(refused) = failures.add(&self.endpoints[*at], error) {
                            return Poll::Ready(Err(refused));
                        }
                        drop(attempts.swap_remove(next));
                    }
                    Poll::Pending => next += 1,
                }
            }
            match attempts.is_empty() {
                true => Poll::Ready(Err(std::mem::take(&mut failures).unreachable())),
                false => Poll::Pending,
            }
        })
        .await
    }

    async fn ask_one<T>(
        &self,
        endpoint: &EtcdEndpoint,
        work: &impl AsyncFn(&mut Member) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let mut member = self.connect(endpoint).await?;
        match work(&mut member).await {
            Err(CallError::Token(_)) if self.login.is_some() => {
                *self.token.lock() = None;
                member.log_on().await?;
                work(&mut member).await
            }
            done => done,
        }
    }

    /// Watches a key at one member. Only the beginning is bounded.
    async fn watch_one(&self, endpoint: &EtcdEndpoint, key: &str, revision: u64) -> Result<(), CallError> {
        let created = async {
            let mut member = self.connect(endpoint).await?;
            let request = json!({"create_request": {"key": key, "start_revision": revision.to_string()}});
            let body = member.send("/v3/watch", &request).await?;
            let mut lines = WatchLines { body: body.into_body(), pending: Vec::new() };
            self.check_cluster(ReplyHeader::of(lines.next().await?.result()?)?)?;
            Ok((member, lines))
        };
        let (_member, mut lines) = within(self.patience, created).await?;
        loop {
            if lines.next().await?.is_news(key)? {
                return Ok(());
            }
        }
    }

    async fn connect<'a>(&'a self, endpoint: &'a EtcdEndpoint) -> Result<Member<'a>, CallError> {
        let failed = |why: &dyn fmt::Display| CallError::Member(format!("no connection: {why}"));
        let tcp =
            TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await.map_err(|e| failed(&e))?;
        tcp.set_nodelay(true).map_err(|e| failed(&e))?;
        let stream: Box<dyn ByteStream> = match &self.tls {
            Some(tls) if endpoint.is_tls => {
                let secured = tls.secure(tcp, &endpoint.host).await;
                Box::new(secured.map_err(|e| CallError::Member(format!("no TLS connection: {e}")))?)
            }
            _ => Box::new(tcp),
        };
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| failed(&e))?;
        let mut driver = JoinSet::new();
        // A failure of the connection is told to the call that waits for it.
        driver.spawn(async move { drop(connection.await) });
        let mut member = Member { gateway: self, endpoint, sender, _driver: driver };
        if self.login.is_some() && self.token.lock().is_none() {
            member.log_on().await?;
        }
        Ok(member)
    }

    fn check_cluster(&self, header: ReplyHeader) -> Result<(), CallError> {
        let mut cluster = self.cluster.lock();
        match *cluster {
            Some(known) if known != header.cluster => Err(CallError::Refused(format!(
                "it belongs to another etcd (cluster {:x}) than the endpoint that replied first ({known:x}); \
                 all endpoints of a virtual server must be of one etcd",
                header.cluster
            ))),
            _ => {
                *cluster = Some(header.cluster);
                Ok(())
            }
        }
    }
}

/// The failures of the members in one call.
#[derive(Default)]
struct Failures(Vec<String>);

impl Failures {
    /// Adds one. A refusal ends the call, since other members would refuse it as well.
    fn add(&mut self, endpoint: &EtcdEndpoint, error: CallError) -> Result<(), StoreError> {
        match error {
            CallError::Refused(why) => Err(StoreError::Refused(format!("{endpoint}: {why}"))),
            CallError::Member(why) | CallError::Token(why) => {
                self.0.push(format!("{endpoint}: {why}"));
                Ok(())
            }
        }
    }

    fn unreachable(self) -> StoreError {
        StoreError::Unreachable(self.0.join("; "))
    }
}

/// Bounds the time of a call.
async fn within<T>(
    patience: Duration,
    call: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    let late = |_| CallError::Member(format!("no reply within {} ms", patience.as_millis()));
    tokio::time::timeout(patience, call).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}

/// A stream with or without TLS.
trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

/// A connection to a member.
pub struct Member<'a> {
    gateway: &'a Gateway,
    endpoint: &'a EtcdEndpoint,
    sender: SendRequest<Full<Bytes>>,
    /// The task that moves the bytes. It ends with this value.
    _driver: JoinSet<()>,
}

impl Member<'_> {
    /// Makes a call. Returns the reply, which has a header of the expected cluster.
    pub async fn call(&mut self, path: &str, request: &Value) -> Result<(ReplyHeader, Value), CallError> {
        let response = self.send(path, request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_REPLY).collect().await;
        let body = body.map_err(|why| CallError::Member(format!("no whole reply: {why}")))?.to_bytes();
        let Ok(mut value) = serde_json::from_slice::<Value>(&body) else {
            return Err(CallError::Member(format!("it replied to {path} with status {status} and no JSON")));
        };
        if !status.is_success() {
            return Err(reply::failure(&value));
        }
        // The replies to a stream, such as those of keep-alives, are one level deeper.
        if let Some(inner) = value.get_mut("result") {
            value = inner.take();
        }
        if value.get("code").is_some() || value.get("error").is_some() {
            return Err(reply::failure(&value));
        }
        let header = ReplyHeader::of(&value)?;
        self.gateway.check_cluster(header)?;
        Ok((header, value))
    }

    async fn send(&mut self, path: &str, request: &Value) -> Result<Response<Incoming>, CallError> {
        let failed = |why: &dyn fmt::Display| CallError::Member(format!("no reply: {why}"));
        let mut builder = Request::post(path)
            .header(HOST, self.endpoint.authority())
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = self.gateway.token.lock().as_ref() {
            builder = builder.header(AUTHORIZATION, token);
        }
        let request = builder.body(Full::new(Bytes::from(request.to_string()))).map_err(|e| failed(&e))?;
        self.sender.ready().await.map_err(|e| failed(&e))?;
        self.sender.send_request(request).await.map_err(|e| failed(&e))
    }

    /// Gets a token for the user.
    async fn log_on(&mut self) -> Result<(), CallError> {
        let Some(login) = &self.gateway.login else { return Ok(()) };
        let request = json!({"name": login.user, "password": login.password});
        let (_, value) = self.call("/v3/auth/authenticate", &request).await?;
        let token = value.get("token").and_then(Value::as_str).filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| CallError::Member("it gave no token for the user".to_owned()))?;
        *self.gateway.token.lock() = Some(token.to_owned());
        Ok(())
    }
}

/// The replies of a watch: one JSON object in each line.
struct WatchLines {
    body: Incoming,
    pending: Vec<u8>,
}

impl WatchLines {
    async fn next(&mut self) -> Result<reply::WatchLine, CallError> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return reply::WatchLine::parse(&line);
            }
            if self.pending.len() > MAX_REPLY {
                return Err(CallError::Member("a reply of its watch is too long".to_owned()));
            }
            let frame = self.body.frame().await;
            let frame = frame.unwrap_or_else(|| Ok(hyper::body::Frame::data(Bytes::new())));
            let frame = frame.map_err(|why| CallError::Member(format!("the watch has ended: {why}")))?;
            match frame.data_ref() {
                Some(data) if data.is_empty() => {
                    return Err(CallError::Member("the watch has ended".to_owned()));
                }
                Some(data) => self.pending.extend_from_slice(data),
                None => {}
            }
        }
    }
}

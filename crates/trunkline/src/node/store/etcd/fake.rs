//! A small etcd with the JSON gateway, inside the test. It can fail in the ways of a network and of foreign
//! programs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

/// The way in which one reply fails.
#[derive(Debug, Clone)]
pub enum ReplyFault {
    /// Nothing is done, and no reply comes.
    Hang,
    /// The call is done, and the connection ends without a reply.
    LoseReply,
    /// The call is done, and half of the reply comes.
    HalfReply,
    /// This text comes in place of the reply, with this status.
    Text(u16, String),
    /// The call is done, and this is put into the reply.
    Change(fn(&mut Value)),
}

/// A key of the fake.
#[derive(Debug, Clone)]
struct FakeKey {
    value: String,
    changed: u64,
    lease: u64,
}

#[derive(Default)]
struct FakeState {
    revision: u64,
    keys: BTreeMap<String, FakeKey>,
    leases: BTreeMap<u64, u64>,
    /// The revision and the key of each change.
    history: Vec<(u64, String)>,
    raft_term: u64,
    cluster: u64,
    /// The next failures: the end of the path, and the failure.
    faults: Vec<(&'static str, ReplyFault)>,
    /// The tokens that are valid. None: there are no users.
    tokens: Option<Vec<String>>,
    /// The paths of the calls.
    calls: Vec<String>,
    /// The connections, which end with the fake.
    streams: Vec<TcpStream>,
    is_over: bool,
}

#[derive(Default)]
struct FakeShared {
    state: Mutex<FakeState>,
    changed: Condvar,
}

/// A member of the fake. Clones of its state may be served by several members.
pub struct FakeEtcd {
    pub address: SocketAddr,
    shared: Arc<FakeShared>,
    accepting: Option<thread::JoinHandle<()>>,
}

/// The shortest lease, in seconds.
const SHORTEST: u64 = 2;

impl FakeEtcd {
    pub fn start() -> FakeEtcd {
        let shared = Arc::new(FakeShared::default());
        {
            let mut state = shared.state.lock().unwrap();
            (state.revision, state.raft_term, state.cluster) = (1, 2, 77);
        }
        FakeEtcd::serve(shared)
    }

    /// Another member with the same keys.
    pub fn member(&self) -> FakeEtcd {
        FakeEtcd::serve(Arc::clone(&self.shared))
    }

    fn serve(shared: Arc<FakeShared>) -> FakeEtcd {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inner = Arc::clone(&shared);
        let accepting = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut state = inner.state.lock().unwrap();
                if state.is_over {
                    break;
                }
                state.streams.push(stream.try_clone().unwrap());
                drop(state);
                let inner = Arc::clone(&inner);
                thread::spawn(move || inner.connection(&stream));
            }
        });
        FakeEtcd { address, shared, accepting: Some(accepting) }
    }

    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.shared.state.lock().unwrap()
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next call whose path ends like this fails.
    pub fn fail(&self, path: &'static str, fault: ReplyFault) {
        self.state().faults.push((path, fault));
    }

    /// Whether all failures that were asked for have happened.
    pub fn has_failed(&self) -> bool {
        self.state().faults.is_empty()
    }

    /// Calls to paths that end like this.
    pub fn calls(&self, path: &str) -> usize {
        self.state().calls.iter().filter(|call| call.ends_with(path)).count()
    }

    /// Ends all leases.
    pub fn expire(&self) {
        let mut state = self.state();
        state.leases.clear();
        let gone: Vec<String> =
            state.keys.iter().filter(|(_, key)| key.lease != 0).map(|(name, _)| name.clone()).collect();
        state.revision += 1;
        for name in gone {
            state.keys.remove(&name);
            let revision = state.revision;
            state.history.push((revision, name));
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Replaces the value of each key with a name that ends like this, in base64.
    pub fn replace_values(&self, value: &str) {
        self.state().keys.values_mut().for_each(|key| key.value = value.to_owned());
    }

    /// Tokens are wanted from now on, and all earlier ones are not valid any more.
    pub fn want_tokens(&self) {
        self.state().tokens = Some(Vec::new());
    }

    pub fn set_cluster(&self, cluster: u64) {
        self.state().cluster = cluster;
    }

    /// Another leader is elected.
    pub fn elect(&self) {
        self.state().raft_term += 1;
    }
}

impl Drop for FakeEtcd {
    fn drop(&mut self) {
        let mut state = self.state();
        state.is_over = true;
        for stream in state.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        self.shared.changed.notify_all();
        let _ = TcpStream::connect(self.address);
        let _ = self.accepting.take().map(thread::JoinHandle::join);
    }
}

impl FakeShared {
    fn connection(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some((path, token, body)) = request(&mut reader) {
            if !self.respond(stream, &path, token.as_deref(), &body) {
                break;
            }
        }
        let _ = stream.shutdown(Shutdown::Both);
    }

    /// Responds to a request. Returns whether the connection goes on.
    fn respond(&self, mut stream: &TcpStream, path: &str, token: Option<&str>, body: &Value) -> bool {
        let mut state = self.state.lock().unwrap();
        state.calls.push(path.to_owned());
        let fault = state.faults.iter().position(|(end, _)| path.ends_with(end));
        let fault = fault.map(|at| state.faults.remove(at).1);
        if matches!(fault, Some(ReplyFault::Hang)) {
            let _over = self.changed.wait_while(state, |state| !state.is_over).unwrap();
            return false;
        }
        if let Some(ReplyFault::Text(status, text)) = fault {
            return write(stream, &reply(status, &text)).is_ok();
        }
        if path == "/v3/watch" {
            drop(state);
            return self.watch(stream, body).is_ok();
        }
        let (status, mut value) = state.call(path, token, body);
        drop(state);
        self.changed.notify_all();
        match fault {
            Some(ReplyFault::LoseReply) => return false,
            Some(ReplyFault::HalfReply) => {
                let whole = reply(status, &value.to_string());
                let _ = stream.write_all(&whole.as_bytes()[..whole.len() - 20]);
                return false;
            }
            Some(ReplyFault::Change(change)) => change(&mut value),
            _ => {}
        }
        write(stream, &reply(status, &value.to_string())).is_ok()
    }

    fn watch(&self, stream: &TcpStream, body: &Value) -> std::io::Result<()> {
        let request = &body["create_request"];
        let key = request["key"].as_str().unwrap().to_owned();
        let from: u64 = request["start_revision"].as_str().unwrap().parse().unwrap();
        let header = self.state.lock().unwrap().header();
        write(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        chunk(stream, &json!({"result": {"header": header, "created": true}}))?;
        let is_news = |state: &FakeState| state.history.iter().any(|(at, name)| *at >= from && *name == key);
        let state = self.state.lock().unwrap();
        let state = self.changed.wait_while(state, |state| !state.is_over && !is_news(state)).unwrap();
        let event = json!({"type": "DELETE", "kv": {"key": key, "mod_revision": state.revision.to_string()}});
        chunk(stream, &json!({"result": {"header": state.header(), "events": [event]}}))
    }
}

impl FakeState {
    fn header(&self) -> Value {
        json!({
            "cluster_id": self.cluster.to_string(),
            "member_id": "5",
            "revision": self.revision.to_string(),
            "raft_term": self.raft_term.to_string(),
        })
    }

    fn call(&mut self, path: &str, token: Option<&str>, body: &Value) -> (u16, Value) {
        if path == "/v3/auth/authenticate" {
            return self.authenticate(body);
        }
        let is_known = |tokens: &Vec<String>| tokens.iter().any(|known| Some(known.as_str()) == token);
        if self.tokens.as_ref().is_some_and(|tokens| !is_known(tokens)) {
            return (401, json!({"code": 16, "message": "etcdserver: invalid auth token"}));
        }
        let id = || body["ID"].as_str().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        match path {
            "/v3/kv/txn" => self.transaction(body),
            "/v3/lease/grant" => {
                let ttl = body["TTL"].as_str().unwrap().parse::<u64>().unwrap().max(SHORTEST);
                let lease = 1000 + self.calls.len() as u64;
                self.leases.insert(lease, ttl);
                let (ttl, lease) = (ttl.to_string(), lease.to_string());
                (200, json!({"header": self.header(), "ID": lease, "TTL": ttl}))
            }
            "/v3/lease/keepalive" => {
                let mut result = json!({"header": self.header(), "ID": id().to_string()});
                if let Some(ttl) = self.leases.get(&id()) {
                    result["TTL"] = json!(ttl.to_string());
                }
                (200, json!({"result": result}))
            }
            _ => (404, json!({"code": 12, "message": "Not Implemented"})),
        }
    }

    fn authenticate(&mut self, body: &Value) -> (u16, Value) {
        let header = self.header();
        match &mut self.tokens {
            None => (400, json!({"code": 9, "message": "etcdserver: authentication is not enabled"})),
            Some(tokens) if body["password"] == "right" => {
                let token = format!("token.{}", tokens.len());
                tokens.push(token.clone());
                (200, json!({"header": header, "token": token}))
            }
            Some(_) => {
                let message = "etcdserver: authentication failed, invalid user ID or password";
                (400, json!({"code": 3, "message": message}))
            }
        }
    }

    fn transaction(&mut self, body: &Value) -> (u16, Value) {
        let is_true = |it: &Value| {
            let found = self.keys.get(it["key"].as_str().unwrap());
            let (field, actual) = match it["target"].as_str().unwrap() {
                "MOD" => ("mod_revision", found.map_or(0, |key| key.changed)),
                "LEASE" => ("lease", found.map_or(0, |key| key.lease)),
                other => panic!("no comparison of {other}"),
            };
            it[field].as_str().unwrap().parse::<u64>().unwrap() == actual
        };
        let succeeded = body["compare"].as_array().is_none_or(|all| all.iter().all(is_true));
        let steps =
            body[if succeeded { "success" } else { "failure" }].as_array().cloned().unwrap_or_default();
        if steps.iter().any(|step| step.get("request_range").is_none()) {
            self.revision += 1;
        }
        let mut responses = Vec::new();
        for step in &steps {
            let Ok(response) = self.step(step) else {
                return (404, json!({"code": 5, "message": "etcdserver: requested lease not found"}));
            };
            responses.push(response);
        }
        (200, json!({"header": self.header(), "succeeded": succeeded, "responses": responses}))
    }

    fn step(&mut self, step: &Value) -> Result<Value, ()> {
        let (kind, of) = step.as_object().unwrap().iter().next().unwrap();
        let key = of["key"].as_str().unwrap().to_owned();
        if kind == "request_range" {
            let found = self.keys.get(&key);
            return Ok(match found {
                None => json!({"response_range": {"header": {}}}),
                Some(it) => json!({"response_range": {"count": "1", "kvs": [{
                    "key": key,
                    "value": it.value,
                    "mod_revision": it.changed.to_string(),
                    "lease": it.lease.to_string(),
                }]}}),
            });
        }
        if kind == "request_put" {
            let lease = of["lease"].as_str().unwrap().parse().unwrap();
            if lease != 0 && !self.leases.contains_key(&lease) {
                return Err(());
            }
            let value = of["value"].as_str().unwrap().to_owned();
            self.keys.insert(key.clone(), FakeKey { value, changed: self.revision, lease });
        } else {
            self.keys.remove(&key);
        }
        self.history.push((self.revision, key));
        Ok(json!({}))
    }
}

/// Reads a request: its path, its token and its body.
fn request(reader: &mut BufReader<&TcpStream>) -> Option<(String, Option<String>, Value)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut token) = (0, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        match name.to_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => token = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, token, serde_json::from_slice(&body).unwrap()))
}

fn reply(status: u16, text: &str) -> String {
    format!("HTTP/1.1 {status} Word\r\nContent-Length: {}\r\n\r\n{text}", text.len())
}

fn write(mut stream: &TcpStream, text: &str) -> std::io::Result<()> {
    stream.write_all(text.as_bytes())
}

fn chunk(stream: &TcpStream, value: &Value) -> std::io::Result<()> {
    let line = format!("{value}\n");
    write(stream, &format!("{:x}\r\n{line}\r\n", line.len()))
}

//! The replies of etcd's JSON gateway.
//!
//! The gateway writes 64-bit numbers as text and leaves out zeros and empty lists. Each reply is checked for
//! what it is about, since a proxy may mix replies up.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::gateway::CallError;

/// The codes of gRPC for failures that no other member changes.
const INVALID_ARGUMENT: u64 = 3;
const PERMISSION_DENIED: u64 = 7;
const FAILED_PRECONDITION: u64 = 9;
const UNIMPLEMENTED: u64 = 12;
const UNAUTHENTICATED: u64 = 16;

/// The header of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHeader {
    pub cluster: u64,
    pub member: u64,
    pub revision: u64,
    /// The number of the leader's election, as this member knows it.
    pub raft_term: u64,
}

impl ReplyHeader {
    pub fn of(reply: &Value) -> Result<ReplyHeader, CallError> {
        let header = reply.get("header").ok_or_else(|| odd("a reply without a header"))?;
        Ok(ReplyHeader {
            cluster: number(header, "cluster_id")?,
            member: number(header, "member_id")?,
            revision: number(header, "revision")?,
            raft_term: number(header, "raft_term")?,
        })
    }
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    pub value: Vec<u8>,
    /// The revision of its last change.
    pub changed: u64,
    /// The lease, or 0.
    pub lease: u64,
}

/// The reply is of no use.
fn odd(what: &str) -> CallError {
    CallError::Member(format!("it sent {what}"))
}

/// A number, which is 0 if it is missing.
pub fn number(of: &Value, name: &str) -> Result<u64, CallError> {
    let read = match of.get(name) {
        None => Some(0),
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => value.as_u64(),
    };
    read.ok_or_else(|| odd(&format!("`{name}` that is no number")))
}

/// Whether the comparisons of a transaction were true.
pub fn has_succeeded(reply: &Value) -> bool {
    reply.get("succeeded").and_then(Value::as_bool).unwrap_or(false)
}

/// The key that the step `at` of a transaction has read, or none if it does not exist.
pub fn read(reply: &Value, at: usize, key: &str) -> Result<Option<KeyValue>, CallError> {
    let step = reply.get("responses").and_then(|all| all.get(at));
    let range = step.and_then(|step| step.get("response_range"));
    let range = range.ok_or_else(|| odd("a reply without what was read"))?;
    let Some(first) = range.get("kvs").and_then(|all| all.get(0)) else {
        return match number(range, "count")? {
            0 => Ok(None),
            _ => Err(odd("a reply without the key that it counts")),
        };
    };
    if first.get("key").and_then(Value::as_str) != Some(key) {
        return Err(odd("a reply about another key"));
    }
    let value = first.get("value").and_then(Value::as_str).unwrap_or_default();
    let value = STANDARD.decode(value).map_err(|_| odd("a value that is not in base64"))?;
    Ok(Some(KeyValue { value, changed: number(first, "mod_revision")?, lease: number(first, "lease")? }))
}

/// A key or a value as the gateway wants it.
pub fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// The failure that a reply tells.
pub fn failure(reply: &Value) -> CallError {
    let inner = reply.get("error").filter(|inner| inner.is_object()).unwrap_or(reply);
    let code = inner.get("code").or_else(|| inner.get("grpc_code")).and_then(Value::as_u64).unwrap_or(0);
    let text = |name: &str| inner.get(name).and_then(Value::as_str);
    let message = text("message").or(text("error")).unwrap_or("a failure without a reason");
    // The words of a foreign program stay on one line, and short.
    let message: String =
        message.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect();
    match code {
        UNAUTHENTICATED => CallError::Token(message),
        // The roles were changed since the token was made.
        INVALID_ARGUMENT if message.contains("revision in header is old") => CallError::Token(message),
        INVALID_ARGUMENT | PERMISSION_DENIED | FAILED_PRECONDITION | UNIMPLEMENTED => {
            CallError::Refused(message)
        }
        _ => CallError::Member(message),
    }
}

/// One reply of a watch.
pub struct WatchLine(Value);

impl WatchLine {
    pub fn parse(line: &[u8]) -> Result<WatchLine, CallError> {
        serde_json::from_slice(line).map(WatchLine).map_err(|_| odd("a reply to a watch that is no JSON"))
    }

    /// The content of the reply.
    pub fn result(&self) -> Result<&Value, CallError> {
        let result = self.0.get("result").ok_or_else(|| failure(&self.0))?;
        let is_canceled = result.get("canceled").and_then(Value::as_bool).unwrap_or(false);
        // Older changes than those that etcd keeps are news as well.
        if is_canceled && number(result, "compact_revision")? == 0 {
            let why = result.get("cancel_reason").and_then(Value::as_str).unwrap_or("no reason");
            return Err(CallError::Member(format!("it ended the watch: {why}")));
        }
        Ok(result)
    }

    /// Whether something has happened to this key, or may have.
    pub fn is_news(&self, key: &str) -> Result<bool, CallError> {
        let result = self.result()?;
        if result.get("canceled").and_then(Value::as_bool).unwrap_or(false) {
            return Ok(true);
        }
        let events = result.get("events").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        Ok(events.iter().any(|event| event.pointer("/kv/key").and_then(Value::as_str) == Some(key)))
    }
}

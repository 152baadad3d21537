//! The audit: receives the events of all shares and servers, and writes each as a line of JSON to the target
//! of `[audit]`.
//!
//! A line is made in the thread of the request, in memory that the thread keeps. Then it is copied into the
//! queue of the stream (`serve::lines`).

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use admin::status::Audit as Shown;
use share::{AuditDetail, AuditEvent, AuditSink, AuditedOperation, ClientDetails, Refusal, RenderedClient};
use volume::security::Rights;

use super::exports::Servers;
use super::locks::held;
use crate::config::{Audit, Config, file_error};
use crate::serve::lines::file::{LineFile, Rotation};
use crate::serve::lines::json::JsonLine;
use crate::serve::lines::syslog::Syslog;
use crate::serve::lines::target::LineTarget;
use crate::serve::lines::{LineStream, Losses};

thread_local! {
    /// The line that this thread makes.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// The words for the rights of the last open. Many opens in a row have the same.
    static LAST_RIGHTS: RefCell<(Rights, Vec<u8>)> = const { RefCell::new((Rights::empty(), Vec::new())) };
}

/// The words for rights in an event, as they stand in a list.
const RIGHTS: &[(Rights, &str)] = &[
    (Rights::READ_DATA, "\"read\","),
    (Rights::WRITE_DATA, "\"write\","),
    (Rights::APPEND_DATA, "\"append\","),
    (Rights::EXECUTE, "\"execute\","),
    (Rights::DELETE, "\"delete\","),
    (Rights::DELETE_CHILD, "\"delete_child\","),
    (Rights::READ_ATTRIBUTES, "\"read_attributes\","),
    (Rights::WRITE_ATTRIBUTES, "\"write_attributes\","),
    (Rights::READ_EA, "\"read_xattr\","),
    (Rights::WRITE_EA, "\"write_xattr\","),
    (Rights::READ_CONTROL, "\"read_acl\","),
    (Rights::WRITE_DAC, "\"write_acl\","),
    (Rights::WRITE_OWNER, "\"write_owner\","),
    (Rights::ACCESS_SYSTEM_SECURITY, "\"audit_acl\","),
    (Rights::MAXIMUM_ALLOWED, "\"maximum\","),
];

/// The audit of a server.
#[derive(Default)]
pub struct AuditLog {
    tells_logons: AtomicBool,
    /// Begins with the first target.
    stream: OnceLock<Arc<LineStream>>,
    /// The settings in force.
    applied: Mutex<Option<Audit>>,
}

/// A target that was opened for new settings, before they are put into force.
pub struct Prepared {
    wanted: Audit,
    target: Option<Box<dyn LineTarget>>,
}

impl AuditLog {
    /// An audit to which these servers report log-ons. It has no target yet.
    pub fn of_servers(smb: &smb::Server, nfs: &Servers) -> Arc<AuditLog> {
        let audit: Arc<AuditLog> = Arc::default();
        smb.auditor.send_to(Arc::<AuditLog>::clone(&audit));
        for (_, server) in nfs.list() {
            server.auditor.send_to(Arc::<AuditLog>::clone(&audit));
        }
        audit
    }

    /// Opens the target of new settings, if they have another one.
    ///
    /// # Errors
    /// One line for the user.
    pub fn prepare(&self, config: &Config) -> Result<Prepared, String> {
        let wanted = config.audit.clone();
        let is_same = held(&self.applied).as_ref().is_some_and(|applied| *applied == wanted);
        let target = if is_same || !wanted.has_target() { None } else { Some(open(config)?) };
        Ok(Prepared { wanted, target })
    }

    /// Puts new settings into force.
    ///
    /// # Errors
    /// One line for the user.
    pub fn apply(&self, Prepared { wanted, target }: Prepared) -> Result<(), String> {
        let room = usize::try_from(wanted.buffer_mib.value << 20).unwrap_or(usize::MAX);
        match (target, self.stream.get()) {
            (Some(target), Some(stream)) => stream.go_on(target, room),
            (Some(target), None) => {
                let stream = LineStream::start("audit", target, room, Some(tell_losses));
                let stream = stream.map_err(|e| format!("no thread for `[audit]`: {e}"))?;
                let _begun_before = self.stream.set(stream);
            }
            (None, _) => {}
        }
        self.tells_logons.store(wanted.logons.value, Ordering::Relaxed);
        *held(&self.applied) = Some(wanted);
        Ok(())
    }

    /// The state for the status; none without a target.
    pub fn shown(&self) -> Option<Shown> {
        let stream = self.stream.get()?;
        let applied = held(&self.applied);
        let audit = applied.as_ref()?;
        let file = audit.file.as_ref().map(|file| file.value.display().to_string());
        let syslog = audit.syslog.as_ref().map(|daemon| daemon.value.to_string());
        Some(Shown {
            target: file.or(syslog)?,
            written: stream.written(),
            lost: stream.lost(),
            is_failing: stream.is_failing(),
        })
    }

    /// Tells of an administrator's request.
    pub fn note_request(&self, by: (&str, Option<u32>), request: &str, refused: Option<&str>) {
        self.on_event(&AuditEvent {
            refused: refused.map(|_| &Refusal::AccessDenied),
            user: Some(by),
            detail: AuditDetail::Request(request, refused),
            ..AuditEvent::of(AuditedOperation::Administer, None)
        });
    }

    /// Writes the remaining events and stops.
    pub fn stop(&self) {
        if let Some(stream) = self.stream.get() {
            stream.stop();
        }
    }
}

impl AuditSink for AuditLog {
    fn on_event(&self, event: &AuditEvent<'_>) {
        let is_of_server = matches!(event.operation, AuditedOperation::LogOn | AuditedOperation::LogOff);
        if is_of_server && !self.tells_logons.load(Ordering::Relaxed) {
            return;
        }
        let Some(stream) = self.stream.get() else { return };
        LINE.with_borrow_mut(|line| {
            line.clear();
            write(event, crate::calendar::wall_ns(), line);
            stream.put(line);
        });
    }
}

/// Opens the target of a configuration.
fn open(config: &Config) -> Result<Box<dyn LineTarget>, String> {
    let audit = &config.audit;
    if let Some(daemon) = &audit.syslog {
        let facility = audit.syslog_facility.value.0;
        return Ok(Box::new(Syslog::new(daemon.value.clone(), facility, &config.server.name.value)));
    }
    let path = audit.file.as_ref().map(|file| file.value.clone()).unwrap_or_default();
    let rotation = Rotation {
        max_bytes: audit.max_mib.value << 20,
        max_age: audit.max_age(),
        keep: u32::try_from(audit.keep.value).unwrap_or(u32::MAX),
    };
    let file = LineFile::open(&path, rotation).map_err(|e| {
        let (why, path) = (file_error(&path, &e), path.display());
        format!("`file` in [audit]: {path}: {why}; give another path, or make its directory")
    })?;
    Ok(Box::new(file))
}

/// An event as a line.
fn write(event: &AuditEvent<'_>, now_ns: i64, out: &mut Vec<u8>) {
    let mut line = JsonLine::begin(out);
    line.time("time", now_ns);
    line.word("operation", event.operation.word());
    line.word("result", if event.refused.is_some() { "refused" } else { "ok" });
    match event.client {
        Some(client) => {
            let rendered = client.rendered.get_or_init(|| render(event.user, client));
            if rendered.is_of(event.user) {
                line.append(&rendered.bytes);
            } else {
                write_user(event.user, &mut line);
                line.append(&rendered.bytes[rendered.session_from..]);
            }
        }
        None => write_user(event.user, &mut line),
    }
    if let Some(share) = event.share {
        line.text("share", share);
    }
    if let Some(path) = event.path {
        line.name("path", path);
    }
    if let Some(stream) = event.stream {
        line.name("stream", stream);
    }
    if let Some(new_path) = event.new_path {
        line.name("new_path", new_path);
    }
    if let Some(file) = event.file {
        // As stat(1) prints them. An id has the major number in its upper half.
        let device = rustix::fs::makedev((file.device >> 32) as u32, file.device as u32);
        line.pair("file", device, file.inode);
    }
    if let Some(open) = event.open {
        line.number("open", open);
    }
    write_detail(event, &mut line);
    line.end();
}

fn write_user(user: Option<(&str, Option<u32>)>, line: &mut JsonLine<'_>) {
    if let Some((user, uid)) = user {
        line.text("user", user);
        if let Some(uid) = uid {
            line.number("uid", u64::from(uid));
        }
    }
}

/// The members about a user and a client's session.
fn render(user: Option<(&str, Option<u32>)>, client: &ClientDetails) -> RenderedClient {
    let mut out = Vec::new();
    write_user(user, &mut JsonLine::members(&mut out));
    let session_from = out.len();
    let mut line = JsonLine::members(&mut out);
    line.display("address", client.address);
    if !client.machine.is_empty() {
        line.text("machine", &client.machine);
    }
    line.text("protocol", client.protocol);
    // Most readers of JSON lose digits beyond 53 bits.
    line.quoted_number("session", client.session);
    let user = user.map(|(name, uid)| (name.into(), uid));
    RenderedClient { user, bytes: out.into(), session_from }
}

/// Appends the words for rights.
fn write_rights(rights: Rights, line: &mut JsonLine<'_>) {
    LAST_RIGHTS.with_borrow_mut(|(last, text)| {
        if *last != rights || text.is_empty() {
            text.clear();
            let words = RIGHTS.iter().filter(|(one, _)| rights.contains(*one)).map(|(_, word)| *word);
            JsonLine::members(text).words("access", words);
            *last = rights;
        }
        line.append(text);
    });
}

/// The values that only some operations have.
fn write_detail(event: &AuditEvent<'_>, line: &mut JsonLine<'_>) {
    let has_reason = matches!(event.detail, AuditDetail::Reason(_) | AuditDetail::Request(..));
    if let (Some(why), false) = (event.refused, has_reason) {
        line.display("reason", why);
    }
    match event.detail {
        AuditDetail::None => {}
        AuditDetail::Rights(rights) => write_rights(rights.mapped(), line),
        AuditDetail::Moved { read, written } => {
            line.number("bytes_read", read);
            line.number("bytes_written", written);
        }
        AuditDetail::Size(size) => line.number("size", size),
        AuditDetail::Mode(mode) => line.display("mode", format_args!("{mode:04o}")),
        AuditDetail::Owner(uid, gid) => {
            for (key, id) in [("new_uid", uid), ("new_gid", gid)] {
                if let Some(id) = id {
                    line.number(key, u64::from(id));
                }
            }
        }
        AuditDetail::Attribute(name) => line.name("attribute", name),
        AuditDetail::LinkText(text) => line.name("target", text),
        AuditDetail::Reason(why) => line.name("reason", why.as_bytes()),
        AuditDetail::Request(request, refused) => {
            line.name("request", request.as_bytes());
            if let Some(why) = refused {
                line.name("reason", why.as_bytes());
            }
        }
    }
}

/// The line about lost events.
fn tell_losses(lost: &Losses, out: &mut Vec<u8>) {
    let mut line = JsonLine::begin(out);
    line.time("time", net::now().wall_ns);
    line.text("operation", "lost");
    line.text("result", "lost");
    line.number("events", lost.count);
    line.time("first", lost.first_ns);
    line.time("last", lost.last_ns);
    line.end();
}

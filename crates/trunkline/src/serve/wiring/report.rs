//! Reads the SMB server's tables for the status.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use admin::Status;
use admin::status::{
    Channel, Connection, FileId, Lease, Lock, LockedFile, Mask, Open, OpenFile, Protection, ServerId,
    Session, TreeConnect,
};
use auth::crypto::{Cipher, SigningAlgorithm};
use share::{Caching, Deny, RangeKind};
use smb::state::Tree;
use smb_wire::negotiate::Dialect;
use volume::security::Rights;
use volume::{Name, Time};

use super::close_ids::CloseId;
use super::engines::EngineList;
use super::nfs_report::LockNames;
use crate::calendar::rfc3339;

/// Adds the state of `server` and `engines` to the status. `of_nfs` names the locks of NFS clients.
pub fn fill(server: &smb::Server, of_nfs: &LockNames, engines: &EngineList, status: &mut Status) {
    connections(server, status);
    for session in server.sessions() {
        let id = session.id.to_string();
        for tree in session.trees() {
            let entry = tree_connect(&tree, &session);
            status.tcons.insert(format!("{id}/{}", tree.id), entry);
        }
        status.sessions.insert(id, one_session(&session));
    }
    let opens = server.opens.all();
    for open in &opens {
        one_open(server, engines, open, status);
    }
    let of_smb = opens.iter().map(|open| (open.lock_owner(), open.id)).collect();
    for (path, engine) in engines {
        locks(path, engine, (&of_smb, of_nfs), status);
    }
}

/// The identity of this process.
pub fn own() -> ServerId {
    ServerId { pid: std::process::id().to_string() }
}

fn connections(server: &smb::Server, status: &mut Status) {
    let sessions = server.sessions();
    for handle in server.connections() {
        let of_it = sessions
            .iter()
            .filter(|session| session.channels().iter().any(|channel| channel.id == handle.id));
        let of_it: Vec<_> = of_it.collect();
        let dialect = of_it.first().map_or("", |session| dialect(session.protection.dialect));
        let entry = Connection {
            local_address: handle.peer.local.to_string(),
            remote_address: handle.peer.remote.to_string(),
            connected_at: rfc3339(handle.since.wall_ns),
            dialect: dialect.to_owned(),
            sessions: of_it.iter().map(|session| session.id.to_string()).collect(),
        };
        status.connections.insert(handle.id.to_string(), entry);
    }
}

fn one_session(session: &smb::state::Session) -> Session {
    let created = rfc3339(session.created.wall_ns);
    let channels = session.channels();
    let remote = channels.first().map(|channel| channel.peer.remote.ip().to_string()).unwrap_or_default();
    let identity = session.authenticated().map(|proved| &proved.identity);
    let sealed = session.sealing_required.load(Relaxed);
    let channels = channels.iter().map(|channel| {
        let entry = Channel {
            channel_id: channel.id.to_string(),
            creation_time: rfc3339(channel.since.wall_ns),
            local_address: channel.peer.local.to_string(),
            remote_address: channel.peer.remote.to_string(),
            transport: "tcp".to_owned(),
        };
        (channel.id.to_string(), entry)
    });
    Session {
        session_id: session.id.to_string(),
        server_id: own(),
        uid: identity.map_or(0, |identity| identity.uid),
        gid: identity.map_or(0, |identity| identity.gid),
        username: session.user_name().to_owned(),
        groupname: String::new(),
        auth_time: created.clone(),
        creation_time: created,
        expiration_time: String::new(),
        hostname: remote.clone(),
        remote_machine: remote,
        session_dialect: dialect(session.protection.dialect).to_owned(),
        encryption: encryption(session, sealed),
        signing: signing(session, session.signing_required.load(Relaxed)),
        channels: channels.collect(),
    }
}

fn tree_connect(tree: &Tree, session: &smb::state::Session) -> TreeConnect {
    let machine = session.channels().first().map(|channel| channel.peer.remote.ip().to_string());
    TreeConnect {
        tcon_id: tree.id.to_string(),
        session_id: session.id.to_string(),
        server_id: own(),
        service: tree.share_name().to_owned(),
        machine: machine.unwrap_or_default(),
        connected_at: rfc3339(session.created.wall_ns),
        encryption: encryption(session, tree.sealed || session.sealing_required.load(Relaxed)),
        signing: signing(session, tree.signed || session.signing_required.load(Relaxed)),
    }
}

fn encryption(session: &smb::state::Session, all: bool) -> Protection {
    protection(session.protection.cipher.map_or("", Cipher::name), all)
}

fn signing(session: &smb::state::Session, all: bool) -> Protection {
    let cipher = match session.protection.signing {
        SigningAlgorithm::HmacSha256 => "HMAC-SHA256",
        SigningAlgorithm::AesCmac => "AES-128-CMAC",
        SigningAlgorithm::AesGmac => "AES-128-GMAC",
    };
    protection(cipher, all)
}

fn protection(cipher: &str, all: bool) -> Protection {
    let degree = if all { "full" } else { "none" };
    Protection { cipher: if all { cipher.to_owned() } else { String::new() }, degree: degree.to_owned() }
}

/// The dialect in the spelling of smbstatus.
pub fn dialect(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Smb202 => "SMB2_02",
        Dialect::Smb210 => "SMB2_10",
        Dialect::Smb300 => "SMB3_00",
        Dialect::Smb302 => "SMB3_02",
        Dialect::Smb311 => "SMB3_11",
        _ => "",
    }
}

const RIGHTS: &[(u32, &str)] = &[
    (Rights::READ_DATA.bits(), "R"),
    (Rights::WRITE_DATA.bits() | Rights::APPEND_DATA.bits(), "W"),
    (Rights::DELETE.bits(), "D"),
    (Rights::EXECUTE.bits(), "X"),
];
/// FILE_SHARE_READ, FILE_SHARE_WRITE and FILE_SHARE_DELETE (MS-SMB2 2.2.13).
const SHARING: [(Deny, u32, &str); 3] = [(Deny::READ, 1, "R"), (Deny::WRITE, 2, "W"), (Deny::DELETE, 4, "D")];

fn one_open(server: &smb::Server, engines: &EngineList, open: &smb::state::Open, status: &mut Status) {
    let Some((engine, file)) = open.file() else { return };
    let root = engines.iter().find(|(_, known)| Arc::ptr_eq(known, engine)).map(|(path, _)| path.clone());
    let root = root.unwrap_or_default();
    let name = shown(&engine.path_of(file), file.stream().as_ref());
    let session = server.session(open.session_id);
    let caching = file.caching().map_or(Caching::empty(), |grant| grant.state);
    let lease_key = open.lease_key.get().map(|key| Lease { lease_key: smb_wire::Guid(*key).to_string() });
    let share = SHARING.iter().filter(|(deny, ..)| !file.deny().contains(*deny)).map(|(_, bit, _)| bit).sum();
    let entry = Open {
        share_file_id: open.id.volatile.to_string(),
        close_id: CloseId::Smb(open.id).to_string(),
        session_id: open.session_id.to_string(),
        client_id: String::new(),
        protocol: "smb".to_owned(),
        server_id: own(),
        uid: file.identity().uid,
        username: file.identity().name.clone(),
        sharemode: Mask::new(share, &SHARING.map(|(_, bit, letter)| (bit, letter))),
        access_mask: Mask::new(file.granted().bits(), RIGHTS),
        caching: caching_mask(caching),
        oplock: oplock(caching, lease_key.is_some()).to_owned(),
        lease: lease_key,
        persistence: persistence(open).to_owned(),
        detached: file.is_detached(),
        opened_at: time(file.opened_at()),
    };
    let node = file.node_id();
    let key = root.join(&name).display().to_string();
    let of_file = status.open_files.entry(key).or_insert_with(|| OpenFile {
        service_path: root.display().to_string(),
        share: engine.name(),
        filename: name,
        fileid: FileId { devid: node.device, inode: node.inode, extid: 0 },
        ..OpenFile::default()
    });
    of_file.opens.insert(format!("{}/{}", session.map_or(0, |session| session.id), open.id.volatile), entry);
}

/// How an open survives the loss of its connection.
fn persistence(open: &smb::state::Open) -> &'static str {
    let survival = open.survival.lock();
    match (survival.resilient_ms, survival.durable) {
        (Some(_), _) => "resilient",
        (None, Some(_)) => "durable",
        (None, None) => "none",
    }
}

fn oplock(caching: Caching, leased: bool) -> &'static str {
    match (leased, caching.contains(Caching::WRITE), caching.contains(Caching::HANDLE)) {
        (true, ..) => "lease",
        (false, true, true) => "batch",
        (false, true, false) => "exclusive",
        _ if caching.contains(Caching::READ) => "level_ii",
        _ => "none",
    }
}

/// The caching rights, in the bits of a lease.
pub fn caching_mask(caching: Caching) -> Mask {
    let letters = [(Caching::READ, 1, "R"), (Caching::HANDLE, 2, "H"), (Caching::WRITE, 4, "W")];
    // SMB2_LEASE_READ_CACHING and the others of MS-SMB2 2.2.13.2.8.
    let bits = letters.iter().filter(|(right, ..)| caching.contains(*right)).map(|(_, bit, _)| bit).sum();
    Mask::new(bits, &letters.map(|(_, bit, letter)| (bit, letter)))
}

/// The ids of SMB's opens by the owners of the ranges that are locked through them.
type SmbOwners = HashMap<share::LockOwner, smb_wire::FileId>;

fn locks(root: &Path, engine: &share::Share, of: (&SmbOwners, &LockNames), status: &mut Status) {
    let (of_smb, of_nfs) = of;
    for held in engine.held_ranges() {
        let name = shown(&held.path, None);
        let key = root.join(&name).display().to_string();
        let by_nfs = of_nfs.get(&(held.owner, held.node));
        let by_smb = of_smb.get(&held.owner).map_or_else(String::new, |id| CloseId::Smb(*id).to_string());
        let entry = Lock {
            share_file_id: by_nfs
                .map_or_else(|| held.owner.owner.to_string(), |names| names.in_words.clone()),
            close_id: by_nfs.map_or_else(|| by_smb.clone(), |names| names.close_id.clone()),
            open_id: by_nfs.map_or(by_smb, |names| names.open_id.clone()),
            protocol: if by_nfs.is_some() { "nfs" } else { "smb" }.to_owned(),
            server_id: own(),
            kind: if held.range.kind == RangeKind::Shared { "R" } else { "W" }.to_owned(),
            start: held.range.start,
            size: held.range.len,
        };
        let file = status.byte_range_locks.entry(key);
        let new = || LockedFile { share: engine.name(), filename: name, ..LockedFile::default() };
        let file = file.or_insert_with(new);
        file.locks.push(entry);
    }
}

/// A path inside a share; `.` is its root.
pub fn shown(path: &[Name], stream: Option<&Name>) -> String {
    let parts: Vec<_> =
        path.iter().map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned()).collect();
    let mut shown = if parts.is_empty() { ".".to_owned() } else { parts.join("/") };
    if let Some(stream) = stream {
        shown.push(':');
        shown.push_str(&String::from_utf8_lossy(stream.as_bytes()));
    }
    shown
}

/// A time of the volume as RFC 3339.
pub fn time(time: Time) -> String {
    rfc3339(time.secs.saturating_mul(1_000_000_000).saturating_add(i64::from(time.nanos)))
}

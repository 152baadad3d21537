//! `trunkline status`: the connected clients and their state.

use std::fmt::Write;

use admin::status::Transport;
use admin::{Request, Response, Status};

use super::table::{self, shown};
use super::{control, limits, metadata, nfs, usage};
use crate::cli::LocationArgs;

/// Prints the status of the server that `location` selects.
pub fn run(location: &LocationArgs, json: bool) -> anyhow::Result<()> {
    let dir = control::state_dir(location)?;
    let Response::Status(status) = control::ask_running(&dir, &Request::Status)? else {
        anyhow::bail!("the server sent an unexpected answer");
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        print!("{}", page(&status));
    }
    Ok(())
}

/// The status as text for people.
fn page(status: &Status) -> String {
    let server = &status.server;
    let mut out = format!(
        "{} ({}), process {}, since {}\nlistens on {}; serves {}\n",
        server.name,
        status.version,
        server.pid,
        server.started_at,
        server.listen.join(", "),
        server.shares.join(", ")
    );
    if let Some(records) = &status.records {
        let _ = writeln!(
            out,
            "records requests in {}: {} written, {} lost",
            records.path, records.written, records.lost
        );
    }
    if let Some(audit) = &status.audit {
        let failing = if audit.is_failing { "; it takes nothing now" } else { "" };
        let _ = writeln!(
            out,
            "writes audit events to {}: {} written, {} lost{failing}",
            audit.target, audit.written, audit.lost
        );
    }
    transport(&status.transport, &mut out);
    sessions(status, &mut out);
    let mut rows = Vec::new();
    for connection in status.connections.values() {
        rows.push([
            connection.remote_address.clone(),
            connection.local_address.clone(),
            connection.dialect.clone(),
            connection.sessions.len().to_string(),
            connection.connected_at.clone(),
        ]);
    }
    table("Connections", ["CLIENT", "SERVER", "DIALECT", "SESSIONS", "SINCE"], &rows, &mut out);
    let mut rows = Vec::new();
    for tree in status.tcons.values() {
        let Some(session) = status.sessions.get(&tree.session_id) else { continue };
        rows.push([
            tree.service.clone(),
            session.username.clone(),
            tree.machine.clone(),
            tree.connected_at.clone(),
            shown(&tree.encryption.cipher),
            shown(&tree.signing.cipher),
        ]);
    }
    table("Shares in use", ["SHARE", "USER", "CLIENT", "SINCE", "ENCRYPTION", "SIGNING"], &rows, &mut out);
    limits::page(&status.limits, &mut out);
    metadata::page(&status.metadata, &mut out);
    usage::page(&status.usage, &mut out);
    nfs::page(&status.nfs, &mut out);
    files(status, &mut out);
    out
}

/// The connections, and counts of refused and closed ones.
fn transport(of: &Transport, out: &mut String) {
    let Transport {
        smb,
        nfs,
        unread_bytes,
        unread_bound_bytes,
        unread_closed,
        descriptors,
        client_memory,
        ..
    } = of;
    let _ = writeln!(
        out,
        "connections: {} over SMB ({} not logged on), {} over NFS ({} without a session); {} refused",
        smb.connections,
        smb.unproved,
        nfs.connections,
        nfs.unproved,
        smb.refused() + nfs.refused()
    );
    let (mib, bound) = (unread_bytes.div_ceil(1 << 20), unread_bound_bytes >> 20);
    let _ =
        writeln!(out, "unread replies: {mib} of {bound} MiB; {unread_closed} connections closed for them");
    if *descriptors != Default::default() {
        let _ = writeln!(
            out,
            "descriptors ran short: idle files were closed {} times and opened again {} times, {} opens \
             refused",
            descriptors.idle_closed, descriptors.opened_again, descriptors.refused_opens
        );
    }
    if client_memory.refused > 0 {
        let (mib, bound) = (client_memory.bytes.div_ceil(1 << 20), client_memory.bound_bytes >> 20);
        let refused = client_memory.refused;
        let _ = writeln!(
            out,
            "opens, locks and sessions: {mib} of {bound} MiB; {refused} requests refused for them"
        );
    }
}

fn sessions(status: &Status, out: &mut String) {
    let mut rows = Vec::new();
    for session in status.sessions.values() {
        rows.push([
            session.session_id.clone(),
            session.username.clone(),
            session.remote_machine.clone(),
            session.session_dialect.clone(),
            session.channels.len().to_string(),
            shown(&session.encryption.cipher),
            shown(&session.signing.cipher),
            session.creation_time.clone(),
        ]);
    }
    let titles = ["SESSION", "USER", "CLIENT", "DIALECT", "CHANNELS", "ENCRYPTION", "SIGNING", "SINCE"];
    table("Sessions", titles, &rows, out);
}

fn files(status: &Status, out: &mut String) {
    let mut rows = Vec::new();
    for file in status.open_files.values() {
        for open in file.opens.values() {
            rows.push([
                open.username.clone(),
                open.access_mask.text.clone(),
                shown(&open.sharemode.text),
                shown(&open.caching.text),
                shown(&open.oplock),
                kept(open),
                file.service_path.clone(),
                file.filename.clone(),
                open.opened_at.clone(),
            ]);
        }
    }
    let titles = ["USER", "ACCESS", "SHARES", "CACHES", "BY", "KEPT", "IN", "FILE", "SINCE"];
    table("Open files", titles, &rows, out);
    let mut rows = Vec::new();
    for file in status.byte_range_locks.values() {
        for lock in &file.locks {
            rows.push([
                lock.kind.clone(),
                lock.start.to_string(),
                lock.size.to_string(),
                lock.share_file_id.clone(),
                file.filename.clone(),
            ]);
        }
    }
    table("Byte-range locks", ["TYPE", "START", "SIZE", "OPEN", "FILE"], &rows, out);
}

/// The persistence of an open, and whether its client is disconnected.
fn kept(open: &admin::status::Open) -> String {
    if open.detached { format!("{}, client gone", open.persistence) } else { shown(&open.persistence) }
}

/// Prints a table under its name and the number of its rows.
pub fn table<const N: usize>(name: &str, titles: [&str; N], rows: &[[String; N]], out: &mut String) {
    let _ = writeln!(out, "\n{name}: {}", rows.len());
    table::rows(titles, rows, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::status::{Open, OpenFile, Session};

    #[test]
    fn a_page_shows_what_is_held_and_minds_the_terminal() {
        let mut status = Status::default();
        let session = Session { username: "ann".to_owned(), ..Session::default() };
        status.sessions.insert("1".to_owned(), session);
        let mut file = OpenFile { filename: "a\u{1b}[2J".to_owned(), ..OpenFile::default() };
        file.opens.insert("7".to_owned(), Open { username: "ann".to_owned(), ..Open::default() });
        let left = Open { persistence: "durable".to_owned(), detached: true, ..Open::default() };
        file.opens.insert("8".to_owned(), left);
        status.open_files.insert("/srv/a".to_owned(), file);
        let page = page(&status);
        assert!(page.contains("  durable, client gone  "), "{page}");
        assert!(
            page.contains("Sessions: 1\n")
                && page.contains("Open files: 2\n")
                && page.contains("Shares in use: 0\n")
        );
        assert!(!page.contains('\u{1b}'), "{page:?}");
    }
}

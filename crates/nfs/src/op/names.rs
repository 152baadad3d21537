//! Common parts of operations on names.

use nfs_wire::NfsStat;
use nfs_wire::types::ChangeInfo;
use share::{Attributes, AuditedOperation, Caching, Deny, Disposition, Item, OpenRequest, Options};
use volume::security::Rights;
use volume::{BadName, Name, NodeId, NodeKind};

use crate::compound::{Run, Stop};
use crate::config::Export;

/// Checks a name that a client sent. Any bytes are allowed, as on the host, so every name in a listing can be
/// looked up.
///
/// # Errors
/// NFS4ERR_INVAL for an empty name, NFS4ERR_BADNAME for `.` and `..`, NFS4ERR_BADCHAR, NFS4ERR_NAMETOOLONG.
// RFC 8881 14.5 (exception: a name need not be UTF-8)
pub fn name(sent: &[u8]) -> Result<Name, NfsStat> {
    if sent.is_empty() {
        return Err(NfsStat::Inval);
    }
    if sent.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(NfsStat::BadChar);
    }
    Name::new(sent).map_err(|why| match why {
        BadName::TooLong => NfsStat::NameTooLong,
        BadName::Invalid => NfsStat::BadName,
    })
}

/// The status of a removal or a rename that the engine refused because of a conflict. The conflict is an open
/// that denies deletion, or a file system that the host has mounted on the directory. `kind` is that of the
/// object to remove.
#[must_use]
pub fn conflict_status(stop: Stop, kind: NodeKind) -> Stop {
    match (stop, kind) {
        (Stop::Fail(NfsStat::ShareDenied), _) => Stop::Fail(NfsStat::FileOpen),
        // RFC 8881 18.25.3, 18.26.3: FILE_OPEN is for files that clients have open. The Linux server returns
        // ACCESS for a directory.
        (Stop::Fail(NfsStat::FileOpen), NodeKind::Directory) => Stop::Fail(NfsStat::Access),
        (other, _) => other,
    }
}

/// Runs an action that begins with the lookup of a name. If the name was cached for an object that is gone,
/// the action runs once more: the cache no longer has the name then.
///
/// # Errors
/// The error of the last run.
pub fn retry_stale_name<T>(run: &mut Run, act: impl Fn(&mut Run) -> Result<T, Stop>) -> Result<T, Stop> {
    match act(run) {
        Err(Stop::Fail(NfsStat::Stale)) => act(run),
        other => other,
    }
}

/// An open request for these rights that conflicts with no other open.
#[must_use]
pub fn opening(path: &[Name], access: Rights) -> OpenRequest<'_> {
    OpenRequest {
        path,
        stream: None,
        access,
        deny: Deny::empty(),
        disposition: Disposition::Open,
        options: Options::OPEN_LINK
            | Options::EXACT_CASE
            | Options::MERGING_RANGES
            | Options::MODE_DECIDES
            | Options::ATTRIBUTES_FOR_ALL,
        attributes: Attributes::empty(),
        mode: None,
        descriptor: None,
        extended: &[],
        allocation: 0,
        caching: None,
        step_of: None,
    }
}

/// The same for an item, without a conflict with the client's own rights on it.
///
/// # Errors
/// NFS4ERR_OP_NOT_IN_SESSION, which cannot happen after SEQUENCE.
pub fn opening_own<'a>(
    run: &Run,
    export: &Export,
    node: NodeId,
    path: &'a [Name],
    access: Rights,
) -> Result<OpenRequest<'a>, NfsStat> {
    let mut request = opening(path, access);
    request.caching = Some(run.session()?.client.caching(export.id, node, Caching::empty()));
    Ok(request)
}

/// The same request as a step of an operation that the audit tells in its place.
#[must_use]
pub fn step_of(operation: AuditedOperation, request: OpenRequest<'_>) -> OpenRequest<'_> {
    OpenRequest { step_of: Some(operation), ..request }
}

/// The version of a directory before a change, for change_info4.
///
/// # Errors
/// The status of the engine's error.
pub fn version(export: &Export, directory: &Item) -> Result<u64, Stop> {
    Ok(export.engine.version_before(directory)?)
}

/// The change_info4 of a directory after a change. Others may have changed it meanwhile, so it is not atomic.
///
/// # Errors
/// The status of the engine's error.
pub fn changed(export: &Export, directory: &Item, before: u64) -> Result<ChangeInfo, Stop> {
    Ok(ChangeInfo { atomic: false, before, after: export.engine.item_version(directory)? })
}

/// Opens an item with these rights for an operation, runs it, and closes the item.
///
/// # Errors
/// The error of the engine or of `act`.
pub fn with_open<T>(
    run: &Run,
    export: &std::sync::Arc<Export>,
    item: &Item,
    operation: AuditedOperation,
    access: Rights,
    act: impl FnOnce(&std::sync::Arc<share::Open>) -> Result<T, Stop>,
) -> Result<T, Stop> {
    let mut request = step_of(operation, opening_own(run, export, item.id(), &[], access)?);
    request.options |= Options::UNSHARED_METADATA;
    let opened = run.ask(export, |engine, caller| engine.create_from(caller, item, &request))?;
    let done = act(&opened.open);
    let closed = export.engine.close(&opened.open, run.now);
    let done = done?;
    closed?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_refused_with_the_status_that_says_why() {
        for (sent, status) in [
            (&b""[..], NfsStat::Inval),
            (b".", NfsStat::BadName),
            (b"..", NfsStat::BadName),
            (b"a/b", NfsStat::BadChar),
            (b"a\0b", NfsStat::BadChar),
            (&[b'x'; 256], NfsStat::NameTooLong),
        ] {
            assert_eq!(name(sent).err(), Some(status), "{sent:?}");
        }
        for sent in ["ä b".as_bytes(), b"\xff", b"caf\xe9", b"\xed\xa0\x80", b"a\\b"] {
            assert_eq!(name(sent).unwrap().as_bytes(), sent);
        }
    }
}

//! Share reservations: what an open of a client is for, and what others may not do, as the engine has it (RFC 8881 9.7).

use nfs_wire::NfsStat;
use nfs_wire::op::open::{ShareAccess, ShareDeny};
use share::Deny;
use volume::security::Rights;

/// What an open is for, and what it denies to others.
#[derive(Debug, Clone, Copy)]
pub struct Reservation {
    /// What for.
    pub access: ShareAccess,
    /// What others may not do.
    pub deny: ShareDeny,
}

/// The rights of the engine that an open for this has. Whoever may write anywhere may write behind the end.
// RFC 8881 6.2.1.3.1 (WRITE_DATA)
#[must_use]
pub fn rights(access: ShareAccess) -> Rights {
    let mut out = Rights::empty();
    if access.contains(ShareAccess::READ) {
        out |= Rights::READ_DATA;
    }
    if access.contains(ShareAccess::WRITE) {
        out |= Rights::WRITE_DATA;
    }
    out
}

/// What an open that narrows to an access keeps of its rights. Whoever reads a file in order to run it has EXECUTE in place of
/// READ_DATA.
// RFC 8881 6.2.1.3.1
#[must_use]
pub fn narrowed(granted: Rights, access: ShareAccess) -> Rights {
    let runs = if access.contains(ShareAccess::READ) { Rights::EXECUTE } else { Rights::empty() };
    granted & (rights(access) | runs)
}

/// What an open that denies this denies in the engine.
///
/// # Errors
/// NFS4ERR_INVAL for anything else.
pub fn denial(deny: ShareDeny) -> Result<Deny, NfsStat> {
    if !ShareDeny::BOTH.contains(deny) {
        return Err(NfsStat::Inval);
    }
    let mut out = Deny::empty();
    out.set(Deny::READ, deny.contains(ShareDeny::READ));
    out.set(Deny::WRITE, deny.contains(ShareDeny::WRITE));
    Ok(out)
}

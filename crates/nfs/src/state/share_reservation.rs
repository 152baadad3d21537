//! Share reservations (RFC 8881 9.7) in the engine's terms: the rights of an open, and the access that it
//! denies.

use nfs_wire::NfsStat;
use nfs_wire::op::open::{ShareAccess, ShareDeny};
use share::Deny;
use volume::security::Rights;

/// The access of an open, and the access that it denies to others.
#[derive(Debug, Clone, Copy)]
pub struct Reservation {
    /// The access that it allows.
    pub access: ShareAccess,
    /// The access that it denies to others.
    pub deny: ShareDeny,
}

/// The engine's rights for an access. WRITE_DATA includes writing after the end of the file.
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

/// The rights that remain if an open is narrowed to an access. An open that reads a file in order to run it
/// has EXECUTE instead of READ_DATA.
// RFC 8881 6.2.1.3.1
#[must_use]
pub fn narrowed(granted: Rights, access: ShareAccess) -> Rights {
    let runs = if access.contains(ShareAccess::READ) { Rights::EXECUTE } else { Rights::empty() };
    granted & (rights(access) | runs)
}

/// The engine's denial for a share deny value.
///
/// # Errors
/// NFS4ERR_INVAL for any other value.
pub fn denial(deny: ShareDeny) -> Result<Deny, NfsStat> {
    if !ShareDeny::BOTH.contains(deny) {
        return Err(NfsStat::Inval);
    }
    let mut out = Deny::empty();
    out.set(Deny::READ, deny.contains(ShareDeny::READ));
    out.set(Deny::WRITE, deny.contains(ShareDeny::WRITE));
    Ok(out)
}

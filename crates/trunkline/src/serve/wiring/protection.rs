//! What sessions and shares demand, in the SMB server's own terms.

use crate::config::{Dialect, Encryption, Signing};

pub(super) fn encryption(encryption: Encryption) -> smb::Encryption {
    match encryption {
        Encryption::Off => smb::Encryption::Off,
        Encryption::Enabled => smb::Encryption::Enabled,
        Encryption::Required => smb::Encryption::Required,
    }
}

pub(super) fn signing(signing: Signing) -> smb::Signing {
    match signing {
        Signing::Auto => smb::Signing::Offered,
        Signing::Required => smb::Signing::Required,
    }
}

pub(super) fn dialect(dialect: Dialect) -> smb_wire::negotiate::Dialect {
    use smb_wire::negotiate::Dialect as Wire;
    match dialect {
        Dialect::Smb202 => Wire::Smb202,
        Dialect::Smb21 => Wire::Smb210,
        Dialect::Smb30 => Wire::Smb300,
        Dialect::Smb302 => Wire::Smb302,
        Dialect::Smb311 => Wire::Smb311,
    }
}

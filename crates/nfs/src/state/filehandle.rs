//! Filehandles: their contents, and the check against forgery.
//!
//! ```text
//! version 1 | export 4 | address of the node, up to 64 | code 16
//! ```
//!
//! The code is a MAC over everything before it, with a key that only the server knows. A filehandle stays
//! valid as long as the file exists, over renames and restarts. The pseudo root is export 0 with an empty
//! address.

use std::sync::Arc;

use auth::crypto::HmacKey;
use nfs_wire::NfsStat;

use crate::config::Export;

/// The version of this layout.
const VERSION: u8 = 1;
/// Bytes before the address.
const HEAD: usize = 5;
/// Bytes of the code.
const CODE: usize = 16;
/// Length of the longest filehandle in bytes.
pub const MAX_HANDLE: usize = HEAD + volume::ADDRESS_MAX + CODE;

/// A filehandle that this server has made.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    len: u8,
    bytes: [u8; MAX_HANDLE],
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("export", &self.export()).finish_non_exhaustive()
    }
}

impl Handle {
    /// The filehandle in wire format.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The export. Zero means the pseudo root.
    #[must_use]
    pub fn export(&self) -> u32 {
        let mut number = [0; 4];
        number.copy_from_slice(&self.bytes[1..HEAD]);
        u32::from_be_bytes(number)
    }

    /// The node's address in its volume.
    #[must_use]
    pub fn address(&self) -> &[u8] {
        &self.bytes[HEAD..usize::from(self.len) - CODE]
    }
}

/// A filehandle that was checked, with its export. The export is none for the pseudo root.
#[derive(Debug)]
pub struct CheckedHandle {
    /// The handle.
    pub handle: Handle,
    /// The export.
    pub export: Option<Arc<Export>>,
}

/// Makes filehandles and checks them.
pub struct HandleKey(HmacKey);

impl HandleKey {
    /// Uses the server's own key.
    #[must_use]
    pub fn new(key: [u8; 32]) -> HandleKey {
        HandleKey(HmacKey::new(&key))
    }

    /// The filehandle of a node in an export. None if its address is too long.
    #[must_use]
    pub fn make(&self, export: u32, address: &[u8]) -> Option<Handle> {
        let end = HEAD + address.len();
        let len = end + CODE;
        if len > MAX_HANDLE {
            return None;
        }
        let mut bytes = [0; MAX_HANDLE];
        bytes[0] = VERSION;
        bytes[1..HEAD].copy_from_slice(&export.to_be_bytes());
        bytes[HEAD..end].copy_from_slice(address);
        let code = self.0.code(&bytes[..end]);
        bytes[end..len].copy_from_slice(&code[..CODE]);
        Some(Handle { len: len as u8, bytes })
    }

    /// Checks a filehandle that a client sent.
    ///
    /// # Errors
    /// NFS4ERR_BADHANDLE for anything that was not made with this key.
    pub fn check(&self, sent: &[u8]) -> Result<Handle, NfsStat> {
        if sent.len() < HEAD + CODE || sent.len() > MAX_HANDLE || sent[0] != VERSION {
            return Err(NfsStat::BadHandle);
        }
        let (body, code) = sent.split_at(sent.len() - CODE);
        let right = self.0.code(body);
        // The comparison takes the same time whatever byte differs.
        let differs = right[..CODE].iter().zip(code).fold(0, |differs, (a, b)| differs | (a ^ b));
        if differs != 0 {
            return Err(NfsStat::BadHandle);
        }
        let mut bytes = [0; MAX_HANDLE];
        bytes[..sent.len()].copy_from_slice(sent);
        Ok(Handle { len: sent.len() as u8, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_known_again_and_no_changed_one_is() {
        let key = HandleKey::new([7; 32]);
        let made = key.make(3, b"address").unwrap();
        assert_eq!((made.export(), made.address()), (3, &b"address"[..]));
        assert_eq!(key.check(made.bytes()), Ok(made));
        for at in 0..made.bytes().len() {
            for bit in 0..8 {
                let mut changed = made.bytes().to_vec();
                changed[at] ^= 1 << bit;
                assert_eq!(key.check(&changed), Err(NfsStat::BadHandle));
            }
            assert_eq!(key.check(&made.bytes()[..at]), Err(NfsStat::BadHandle));
        }
        assert_eq!(HandleKey::new([8; 32]).check(made.bytes()), Err(NfsStat::BadHandle));
        assert!(key.make(3, &[0; volume::ADDRESS_MAX]).is_some());
        assert!(key.make(3, &[0; volume::ADDRESS_MAX + 1]).is_none());
        assert_eq!(key.check(&[1; 128]), Err(NfsStat::BadHandle));
    }
}

//! One component of a path, as the host keeps it.

use std::fmt;
use std::sync::Arc;

/// A single name inside a directory: 1 to 255 bytes without `/` and NUL, and neither `.` nor `..`.
///
/// Only a `Name` can be looked up, created or removed. So no string from a client can leave a directory.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<[u8]>);

/// The reason why bytes cannot be a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// Empty, `.`, `..`, or contains `/` or NUL.
    #[error("not a name")]
    Invalid,
    /// Longer than 255 bytes.
    #[error("name too long")]
    TooLong,
}

impl Name {
    /// Checks `bytes` and makes a name of them.
    ///
    /// # Errors
    /// [`BadName`].
    pub fn new(bytes: &[u8]) -> std::result::Result<Name, BadName> {
        if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.iter().any(|&b| b == b'/' || b == 0) {
            return Err(BadName::Invalid);
        }
        if bytes.len() > 255 {
            return Err(BadName::TooLong);
        }
        Ok(Name(bytes.into()))
    }

    /// The bytes as the host keeps them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name for messages to people. Bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn display(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl AsRef<[u8]> for Name {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.display(), f)
    }
}

//! The only error of parsing. It names the structure, and the field of it, that is invalid.

use crate::Truncated;

/// Bytes that are not the expected structure. The protocol decides how a server replies to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed {structure}: {field}")]
pub struct Malformed {
    /// The structure's name in the protocol's specification.
    pub structure: &'static str,
    /// The field that is missing, points outside, or has an invalid value.
    pub field: &'static str,
}

impl Malformed {
    /// An error about `field` of `structure`.
    #[must_use]
    pub const fn new(structure: &'static str, field: &'static str) -> Self {
        Malformed { structure, field }
    }

    /// An error of a value that does not know its structure. [`Malformed::within`] adds that.
    #[must_use]
    pub const fn nameless(what: &'static str) -> Self {
        Malformed { structure: "", field: what }
    }

    /// Adds structure and field to a nameless error.
    #[cold]
    #[must_use]
    pub fn within(self, structure: &'static str, field: &'static str) -> Self {
        if self.structure.is_empty() { Malformed { structure, field } } else { self }
    }
}

impl From<Truncated> for Malformed {
    fn from(_: Truncated) -> Self {
        Malformed::nameless("length")
    }
}

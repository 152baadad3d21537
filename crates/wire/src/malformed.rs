//! The one error of parsing: which structure, and which field of it, cannot be right.

use crate::Truncated;

/// Bytes that are not the structure they should be. What a server answers to them is for its protocol to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed {structure}: {field}")]
pub struct Malformed {
    /// The structure's name in the protocol's specification.
    pub structure: &'static str,
    /// The field that is missing, points outside, or has a value it must not have.
    pub field: &'static str,
}

impl Malformed {
    /// An error about `field` of `structure`.
    #[must_use]
    pub const fn new(structure: &'static str, field: &'static str) -> Self {
        Malformed { structure, field }
    }

    /// An error of a value that does not know where it stands; [`Malformed::within`] says it.
    #[must_use]
    pub const fn nameless(what: &'static str) -> Self {
        Malformed { structure: "", field: what }
    }

    /// Names the place of a nameless error.
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

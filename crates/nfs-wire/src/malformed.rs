//! The one error of decoding: which structure, and which field of it, cannot be right.

/// Bytes that are not the structure they should be. A server answers NFS4ERR_BADXDR inside a COMPOUND and
/// GARBAGE_ARGS in front of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed {structure}: {field}")]
pub struct Malformed {
    /// The structure's name in the RFC.
    pub structure: &'static str,
    /// The field that is missing, too long, or has a value it must not have.
    pub field: &'static str,
}

impl Malformed {
    /// An error about `field` of `structure`.
    #[must_use]
    pub const fn new(structure: &'static str, field: &'static str) -> Self {
        Malformed { structure, field }
    }

    /// An error of a value that does not know where it stands; [`Malformed::within`] says it.
    pub(crate) const fn nameless(what: &'static str) -> Self {
        Malformed { structure: "", field: what }
    }

    /// Names the place of a nameless error.
    #[cold]
    pub(crate) fn within(self, structure: &'static str, field: &'static str) -> Self {
        if self.structure.is_empty() { Malformed { structure, field } } else { self }
    }
}

impl From<wire::Truncated> for Malformed {
    fn from(_: wire::Truncated) -> Self {
        Malformed::nameless("length")
    }
}

//! The one error of parsing: which structure, and which field of it, cannot be right.

/// Bytes that are not the structure they should be. A server answers STATUS_INVALID_PARAMETER or, where
/// the section of the command says so, something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed {structure}: {field}")]
pub struct Malformed {
    /// The structure's name in MS-SMB2 or MS-FSCC.
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
}

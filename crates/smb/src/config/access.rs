//! The access that settings give, and the rule by which they compare names.

/// The access of a user to a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// No access.
    None,
    /// Read and execute.
    Read,
    /// Also write and delete.
    Write,
    /// Also change descriptors and owners.
    Full,
}

/// Whether two names of users or shares are the same, ignoring case.
pub(crate) fn same_name(one: &str, other: &str) -> bool {
    let is_ascii = one.is_ascii() && other.is_ascii();
    one.eq_ignore_ascii_case(other) || !is_ascii && one.to_lowercase() == other.to_lowercase()
}

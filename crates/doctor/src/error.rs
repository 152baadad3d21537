//! The reasons why nothing was examined.

/// An error, as one line for the user.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The options do not fit together.
    #[error("{0}")]
    Usage(String),
    /// This host failed.
    #[error("{doing}: {why}")]
    Host {
        /// The operation.
        doing: String,
        /// The error of the host.
        why: String,
    },
}

impl Error {
    /// An operation of this host failed.
    pub fn host(doing: impl Into<String>, why: impl ToString) -> Error {
        Error::Host { doing: doing.into(), why: why.to_string() }
    }
}

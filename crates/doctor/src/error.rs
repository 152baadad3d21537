//! Why nothing was examined.

/// One line for the user.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// What was asked for does not go together.
    #[error("{0}")]
    Usage(String),
    /// This host.
    #[error("{doing}: {why}")]
    Host {
        /// What was being done.
        doing: String,
        /// What the host says.
        why: String,
    },
}

impl Error {
    /// This host could not do something.
    pub fn host(doing: impl Into<String>, why: impl ToString) -> Error {
        Error::Host { doing: doing.into(), why: why.to_string() }
    }
}

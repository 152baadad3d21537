//! Why there is no report.

use crate::peer::Failure;

/// One line for the user.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The options do not go together.
    #[error("{0}")]
    Usage(String),
    /// The server, while something was done with it.
    #[error("{doing}: {why}")]
    Server {
        /// What was being done.
        doing: String,
        /// What came of it.
        #[source]
        why: client::Error,
    },
    /// The server works, but not as it should.
    #[error("{0}")]
    Wrong(String),
    /// The host of the generator.
    #[error("{doing}: {why}")]
    Host {
        /// What was being done.
        doing: String,
        /// What the host says.
        why: String,
    },
}

impl Error {
    pub(crate) fn host(doing: impl Into<String>, why: impl ToString) -> Error {
        Error::Host { doing: doing.into(), why: why.to_string() }
    }
}

/// Says what was being done.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Doing<T> for client::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|why| Error::Server { doing: what(), why })
    }
}

impl<T> Doing<T> for Result<T, Failure> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|why| match why {
            Failure::Server(why) => Error::Server { doing: what(), why },
            Failure::Host(why) => Error::host(what(), why),
        })
    }
}

//! The reasons why there is no report.

use client::nfs::NfsStat;
use client::remote::local;
use smb_wire::NtStatus;

/// An error, as one line for the user.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The options do not fit together.
    #[error("{0}")]
    Usage(String),
    /// An operation on the server failed.
    #[error("{doing}: {why}{}", remedy(why))]
    Server {
        /// The operation.
        doing: String,
        /// The error. The text includes it, so it is not a separate source.
        why: client::Error,
    },
    /// The server works, but gives a wrong result.
    #[error("{0}")]
    Wrong(String),
    /// The host of the load generator failed.
    #[error("{doing}: {why}")]
    Host {
        /// The operation.
        doing: String,
        /// The error of the host.
        why: String,
    },
}

impl Error {
    pub(crate) fn host(doing: impl Into<String>, why: impl ToString) -> Error {
        Error::Host { doing: doing.into(), why: why.to_string() }
    }
}

/// Advice about a server's refusal, if there is any.
fn remedy(why: &client::Error) -> &'static str {
    match why {
        client::Error::Io(_) => "; see whether host and port are right and a server listens there",
        client::Error::Status { status, .. } => match *status {
            NtStatus::LOGON_FAILURE => "; see the user in TARGET, and the password",
            NtStatus::BAD_NETWORK_NAME => "; the server has no such share",
            NtStatus::ACCESS_DENIED => "; this user may not do that there",
            NtStatus::DISK_FULL => "; free space there, or use fewer or smaller files",
            _ => "",
        },
        client::Error::Refused { status: NfsStat::Access, .. } => {
            "; see --uid and --gid, and whether the server wants ports below 1024"
        }
        _ => "",
    }
}

/// Adds the operation to an error.
pub(crate) trait ErrorContext<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> ErrorContext<T> for client::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|why| match why {
            client::Error::Local(why) if local::refuses_direct(&why) => {
                Error::host(what(), format!("{why}; leave out --direct or -S"))
            }
            client::Error::Local(why) => Error::host(what(), why),
            why => Error::Server { doing: what(), why },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, ErrorKind};

    #[test]
    fn options_are_named_where_an_open_past_the_caches_was_refused() {
        let said = |why: io::Error| {
            let failed: client::Result<()> = Err(client::Error::Local(why.into()));
            failed.doing(|| "opening x".to_owned()).unwrap_err().to_string()
        };
        let refused = io::Error::new(ErrorKind::Unsupported, "the file system takes no direct I/O");
        assert!(said(refused).ends_with("takes no direct I/O; leave out --direct or -S"));
        for number in [rustix::io::Errno::OPNOTSUPP, rustix::io::Errno::NOSYS] {
            assert!(!said(number.into()).contains("--direct"));
        }
    }
}

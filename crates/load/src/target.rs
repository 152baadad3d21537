//! The target of a load: the location of files, or a null server.

use std::fmt;

use client::{Scheme, Url, written};

/// The target of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadTarget {
    /// A directory or a file.
    Files(Url),
    /// A server without files, which answers reads alone.
    Null {
        /// Its name or address.
        host: String,
        /// Its TCP port.
        port: u16,
    },
}

/// Reads a target: `smb://USER@HOST[:PORT]/SHARE[/DIR]`, `nfs://HOST[:PORT]/EXPORT[/DIR]`,
/// `null://HOST:PORT`, or a path of this host, where something may be mounted.
///
/// # Errors
/// A message for the user.
pub fn target(text: &str) -> Result<LoadTarget, String> {
    match text.split_once("://") {
        Some(("null", address)) => null(address),
        Some(("smb" | "nfs", _)) => text.parse().map(LoadTarget::Files),
        // With two slashes or backslashes Windows names a share.
        None if !text.starts_with("//") && !text.starts_with(r"\\") && !text.is_empty() => {
            text.parse().map(LoadTarget::Files)
        }
        _ => {
            let (smb, nfs) = (Scheme::Smb.form(), Scheme::Nfs.form());
            // The text behind a scheme may hold a password.
            let shown = text
                .split_once("://")
                .map_or_else(|| format!("{text:?}"), |(scheme, _)| format!("{scheme}://"));
            Err(format!("{shown} is no target; {smb}, {nfs}, or the path of a mounted directory"))
        }
    }
}

fn null(address: &str) -> Result<LoadTarget, String> {
    match written::host_and_port(address.trim_end_matches('/'), 0)? {
        (host, port) if port > 0 && !host.is_empty() => Ok(LoadTarget::Null { host, port }),
        _ => Err("no host or no port; write null://HOST:PORT".to_owned()),
    }
}

impl LoadTarget {
    /// The user whose password is needed.
    pub(crate) fn login(&self) -> Option<&str> {
        match self {
            LoadTarget::Files(url) => url.login(),
            LoadTarget::Null { .. } => None,
        }
    }

    /// The directory or file. A null server has none, and an empty path stands for it.
    pub(crate) fn directory(&self) -> Url {
        match self {
            LoadTarget::Files(url) => url.clone(),
            LoadTarget::Null { .. } => Url::local(""),
        }
    }

    /// Whether both are in the same share, reached in the same way.
    pub(crate) fn shares_root(&self, other: &LoadTarget) -> bool {
        match (self, other) {
            (LoadTarget::Files(one), LoadTarget::Files(other)) => root(one) == root(other),
            _ => self == other,
        }
    }
}

/// The share for error messages and reports.
impl fmt::Display for LoadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadTarget::Files(url) => shown_share(url).fmt(f),
            LoadTarget::Null { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// The root of the same share.
pub(crate) fn root(url: &Url) -> Url {
    Url { path: String::new(), ..url.clone() }
}

/// The share for reports.
pub(crate) fn shown_share(url: &Url) -> String {
    match url.scheme {
        Scheme::Local if url.path.is_empty() => "this host".to_owned(),
        Scheme::Local => url.path.clone(),
        Scheme::Smb | Scheme::Nfs => format!("{}/{}", url.host, url.share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_does_not_belong_there_is_said() {
        for (wrong, why) in [
            ("//h/x", "smb://"),
            (r"\\h\x", "smb://"),
            ("ftp://h/x", "nfs://"),
            ("cifs://ann:secret@h/x", "cifs:// is no target"),
            ("null://h", "null://HOST:PORT"),
            ("", "no target"),
            ("smb://h/x", "no user"),
            ("smb://a:secret@h/x", "--password-file"),
            ("nfs://a@h/x", "--uid"),
            ("nfs://h/", "empty"),
            ("smb://a@h", "no share"),
            ("smb://a@h/", "empty"),
            ("smb://a@::1/x", "brackets"),
            ("smb://a@h:0/x", "no port"),
            ("smb://a@h/x/../y", ".."),
        ] {
            let said = target(wrong).unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
            assert!(!said.contains("secret"), "{said}");
        }
    }
}

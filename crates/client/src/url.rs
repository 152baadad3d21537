//! The location of files: `smb://USER@HOST[:PORT]/SHARE[/PATH]`, `nfs://HOST[:PORT]/EXPORT[/PATH]`, or a path
//! of this host.

use std::fmt;
use std::str::FromStr;

use crate::written;

/// The location of a file or directory on a server, and the user. For this host it is a path alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// The protocol.
    pub scheme: Scheme,
    /// The user, or nothing over NFS.
    pub user: String,
    /// The user's domain, or nothing.
    pub domain: String,
    /// The name or address of the server.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The share, or the first part of the path to an export.
    pub share: String,
    /// The path in the share or export, with parts divided by `/`, or nothing for its root. For this host it
    /// is the whole path, as it was written.
    pub path: String,
}

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// SMB.
    Smb,
    /// NFSv4.1 and 4.2.
    Nfs,
    /// Files of this host, where something may be mounted.
    Local,
}

impl Scheme {
    /// The form of a URL, for error messages.
    #[must_use]
    pub fn form(self) -> &'static str {
        match self {
            Scheme::Smb => "write smb://USER@HOST[:PORT]/SHARE[/PATH]",
            Scheme::Nfs => "write nfs://HOST[:PORT]/EXPORT[/PATH]",
            Scheme::Local => "write the path of a directory or file",
        }
    }
}

impl Url {
    /// A path of this host.
    #[must_use]
    pub fn local(path: impl Into<String>) -> Url {
        let [user, domain, host, share] = [const { String::new() }; 4];
        Url { scheme: Scheme::Local, user, domain, host, port: 0, share, path: path.into() }
    }

    /// The user whose password is needed.
    #[must_use]
    pub fn login(&self) -> Option<&str> {
        (self.scheme == Scheme::Smb).then_some(&self.user)
    }
}

/// Joins two parts of a path, either of which may be empty.
#[must_use]
pub fn join(path: &str, name: &str) -> String {
    match (path, name) {
        ("", one) | (one, "") => one.to_owned(),
        _ => format!("{path}/{name}"),
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Url { user, domain, host, port, share, path, .. } = self;
        let scheme = match self.scheme {
            Scheme::Smb => "smb",
            Scheme::Nfs => "nfs",
            Scheme::Local => return path.fmt(f),
        };
        let semicolon = if domain.is_empty() { "" } else { ";" };
        let at = if user.is_empty() { "" } else { "@" };
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        let slash = if path.is_empty() { "" } else { "/" };
        write!(f, "{scheme}://{domain}{semicolon}{user}{at}{open}{host}{close}:{port}/{share}{slash}{path}")
    }
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Url, String> {
        let (scheme, usual, rest) = match text.split_once("://") {
            Some(("smb", rest)) => (Scheme::Smb, 445, rest),
            Some(("nfs", rest)) => (Scheme::Nfs, 2049, rest),
            Some((scheme, _)) if !scheme.contains('/') => {
                let (smb, nfs) = (Scheme::Smb.form(), Scheme::Nfs.form());
                // What stands behind it may hold a password.
                return Err(format!(
                    "{scheme}:// is not known; {smb}, or {nfs}, or a path (put ./ in front for a file of \
                     that name)"
                ));
            }
            _ if text.is_empty() => return Err("an empty path".to_owned()),
            _ => return Ok(Url::local(text)),
        };
        let form = scheme.form();
        let (authority, path) = rest.split_once('/').ok_or(format!("no share; {form}"))?;
        let (user, host_and_port) = match (scheme, authority.rsplit_once('@')) {
            (Scheme::Smb, Some(both)) => both,
            (Scheme::Smb, None) => return Err(format!("no user; {form}")),
            (_, None) => ("", authority),
            (_, Some(_)) => return Err(format!("NFS has no log-on; use --uid; {form}")),
        };
        let (domain, user) = written::login(user)?;
        let (host, port) = written::host_and_port(host_and_port, usual)?;
        let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
        let share = parts.next().unwrap_or_default();
        let path: Vec<&str> = parts.collect();
        if share == ".." || path.contains(&"..") {
            return Err("a path with .. in it".to_owned());
        }
        if (scheme == Scheme::Smb && user.is_empty()) || host.is_empty() || share.is_empty() {
            return Err(format!("the user, the host or the share is empty; {form}"));
        }
        let [user, domain, share] = [user, domain, share].map(str::to_owned);
        Ok(Url { scheme, user, domain, host, port, share, path: path.join("/") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (String, u16, String, String) {
        let url: Url = text.parse().unwrap();
        (url.host, url.port, url.share, url.path)
    }

    #[test]
    fn port_and_path_may_be_left_out() {
        let owned = |host: &str, port, share: &str, path: &str| {
            (host.to_owned(), port, share.to_owned(), path.to_owned())
        };
        assert_eq!(parse("smb://a@files/x"), owned("files", 445, "x", ""));
        assert_eq!(parse("smb://a@10.0.0.1:4450/x/y/z/"), owned("10.0.0.1", 4450, "x", "y/z"));
        assert_eq!(parse("smb://a@[::1]:4450/x"), owned("::1", 4450, "x", ""));
        assert_eq!(parse("smb://a@[::1]/x"), owned("::1", 445, "x", ""));
        assert_eq!(parse("nfs://files/x"), owned("files", 2049, "x", ""));
        assert_eq!(parse("nfs://[::1]:20490/x/y"), owned("::1", 20490, "x", "y"));
        assert_eq!(parse("/mnt/x y"), owned("", 0, "", "/mnt/x y"));
        let with_domain: Url = "smb://CORP;bob@h/x".parse().unwrap();
        assert_eq!((with_domain.domain.as_str(), with_domain.user.as_str()), ("CORP", "bob"));
    }

    #[test]
    fn both_schemes_and_paths_are_read_and_written_the_same() {
        for (text, shown) in [
            ("smb://ann@files/x", "smb://ann@files:445/x"),
            ("smb://CORP;ann@files/x", "smb://CORP;ann@files:445/x"),
            ("smb://ann@[::1]:4450/x/y//z/", "smb://ann@[::1]:4450/x/y/z"),
            ("nfs://files/x/y", "nfs://files:2049/x/y"),
            ("a/b", "a/b"),
            ("./odd://name", "./odd://name"),
        ] {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_secret() {
        for (wrong, why) in [
            ("smb://h/x", "no user"),
            ("smb://a:secret@h/x", "--password-file"),
            ("smb://a@h", "no share"),
            ("smb://a@h/", "empty"),
            ("smb://a@::1/x", "brackets"),
            ("smb://a@h/x/../y", ".."),
            ("smb://a@h:0/x", "no port"),
            ("nfs://a@h/x", "--uid"),
            ("nfs://h/", "empty"),
            ("http://h/x", "not known"),
            ("cifs://ann:secret@h/x", "cifs:// is not known"),
            ("", "empty"),
        ] {
            let said = wrong.parse::<Url>().unwrap_err();
            assert!(said.contains(why) && !said.contains("secret"), "{wrong}: {said}");
        }
    }
}

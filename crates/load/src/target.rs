//! What is loaded: `smb://USER@HOST[:PORT]/SHARE[/DIR]`, `nfs://HOST[:PORT]/EXPORT[/DIR]`, or a path of this host,
//! where something may be mounted.

use std::str::FromStr;

use client::written;

/// A directory or file of a share, and who goes there; of this host it has a path alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The protocol.
    pub scheme: Scheme,
    /// The user, with a domain in front when there was `DOMAIN;USER`.
    pub user: String,
    /// The user's domain, or nothing.
    pub domain: String,
    /// Name or address of the server.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The share, or the first part of the path to an export.
    pub share: String,
    /// The directory or file in it, parts divided by `/`; nothing for its root. Of this host the whole path.
    pub directory: String,
}

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// SMB.
    Smb,
    /// NFSv4.1.
    Nfs,
    /// Files of this host.
    Local,
    /// The null server, for measuring the generator itself.
    Null,
}

impl Scheme {
    /// What a target must look like.
    fn form(self) -> &'static str {
        match self {
            Scheme::Smb => "write smb://USER@HOST[:PORT]/SHARE[/DIR]",
            Scheme::Nfs => "write nfs://HOST[:PORT]/EXPORT[/DIR]",
            Scheme::Local => "write the path of a directory or file",
            Scheme::Null => "write null://HOST:PORT",
        }
    }

    fn port(self) -> u16 {
        match self {
            Scheme::Smb => 445,
            Scheme::Nfs => 2049,
            Scheme::Local | Scheme::Null => 0,
        }
    }
}

impl Target {
    /// Whether whoever goes there must know a password.
    #[must_use]
    pub fn needs_password(&self) -> bool {
        self.scheme == Scheme::Smb
    }

    fn local(path: &str) -> Target {
        Target { directory: path.to_owned(), ..Target::bare(Scheme::Local, String::new(), 0) }
    }

    fn null(place: &str) -> Result<Target, String> {
        match written::place(place.trim_end_matches('/'), 0)? {
            (host, port) if port > 0 && !host.is_empty() => Ok(Target::bare(Scheme::Null, host, port)),
            _ => Err(format!("no host or no port; {}", Scheme::Null.form())),
        }
    }

    /// One without user and share.
    fn bare(scheme: Scheme, host: String, port: u16) -> Target {
        let none = String::new;
        Target { scheme, user: none(), domain: none(), host, port, share: none(), directory: none() }
    }

    /// Whether both are in the same share, reached in the same way.
    pub(crate) fn is_beside(&self, other: &Target) -> bool {
        *self == Target { directory: self.directory.clone(), ..other.clone() }
    }

    /// The same share, at its root.
    pub(crate) fn root(&self) -> Target {
        Target { directory: String::new(), ..self.clone() }
    }

    /// Where it is, for people.
    pub(crate) fn place(&self) -> String {
        match self.scheme {
            Scheme::Local if self.directory.is_empty() => "this host".to_owned(),
            Scheme::Local => self.directory.clone(),
            Scheme::Smb | Scheme::Nfs => format!("{}/{}", self.host, self.share),
            Scheme::Null => format!("{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let (scheme, rest) = match text.split_once("://") {
            Some(("smb", rest)) => (Scheme::Smb, rest),
            Some(("nfs", rest)) => (Scheme::Nfs, rest),
            Some(("null", place)) => return Target::null(place),
            None if !text.starts_with("//") && !text.starts_with(r"\\") && !text.is_empty() => {
                return Ok(Target::local(text));
            }
            _ => {
                let (smb, nfs) = (Scheme::Smb.form(), Scheme::Nfs.form());
                return Err(format!(
                    "{text:?} is no target; {smb}, {nfs}, or the path of a mounted directory"
                ));
            }
        };
        let form = scheme.form();
        let (authority, path) = rest.split_once('/').ok_or(format!("no share; {form}"))?;
        let (user, place) = match (scheme, authority.rsplit_once('@')) {
            (Scheme::Smb, Some(both)) => both,
            (Scheme::Smb, None) => return Err(format!("no user; {form}")),
            (_, None) => ("", authority),
            (_, Some(_)) => return Err(format!("NFS has no login; use --uid; {form}")),
        };
        let (domain, user) = written::login(user)?;
        let (host, port) = written::place(place, scheme.port())?;
        let (share, directory) = path.split_once('/').unwrap_or((path, ""));
        let directory = directory.trim_end_matches('/');
        if directory.split('/').any(|part| part == "..") {
            return Err("a directory with .. in it".to_owned());
        }
        if (scheme == Scheme::Smb && user.is_empty()) || host.is_empty() || share.is_empty() {
            return Err(format!("user, host or share is empty; {form}"));
        }
        let [user, domain, share, directory] = [user, domain, share, directory].map(str::to_owned);
        Ok(Target { scheme, user, domain, host, port, share, directory })
    }
}

/// Joins parts of a path, either of which may be empty.
pub(crate) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (String, u16, String, String) {
        let target: Target = text.parse().unwrap();
        (target.host, target.port, target.share, target.directory)
    }

    #[test]
    fn port_and_directory_may_be_left_out() {
        let owned = |host: &str, port, share: &str, directory: &str| {
            (host.to_owned(), port, share.to_owned(), directory.to_owned())
        };
        assert_eq!(parse("smb://a@files/x"), owned("files", 445, "x", ""));
        assert_eq!(parse("smb://a@10.0.0.1:4450/x/y/z/"), owned("10.0.0.1", 4450, "x", "y/z"));
        assert_eq!(parse("smb://a@[::1]:4450/x"), owned("::1", 4450, "x", ""));
        assert_eq!(parse("smb://a@[::1]/x"), owned("::1", 445, "x", ""));
        assert_eq!(parse("nfs://files/x"), owned("files", 2049, "x", ""));
        assert_eq!(parse("nfs://[::1]:20490/x/y"), owned("::1", 20490, "x", "y"));
        assert_eq!(parse("/mnt/x y"), owned("", 0, "", "/mnt/x y"));
        let with_domain: Target = "smb://CORP;bob@h/x".parse().unwrap();
        assert_eq!((with_domain.domain.as_str(), with_domain.user.as_str()), ("CORP", "bob"));
    }

    #[test]
    fn what_is_missing_or_does_not_belong_there_is_said() {
        for (wrong, why) in [
            ("//h/x", "smb://"),
            (r"\\h\x", "smb://"),
            ("ftp://h/x", "nfs://"),
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
            let said = wrong.parse::<Target>().unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
            assert!(!said.contains("secret"), "{said}");
        }
    }
}

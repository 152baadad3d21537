//! The target of a load: a URL of [`client`], or the null server.

use client::{Scheme, Url, written};

/// Parses a target: `smb://USER@HOST[:PORT]/SHARE[/DIR]`, `nfs://HOST[:PORT]/EXPORT[/DIR]`,
/// `null://HOST:PORT`, or a path of this host, which may be on a mounted file system.
///
/// # Errors
/// A message about the mistake, for the user.
pub fn target(text: &str) -> Result<Url, String> {
    match text.split_once("://") {
        Some(("null", place)) => null(place),
        Some(("smb" | "nfs", _)) => text.parse(),
        // Windows names a share with two slashes or backslashes.
        None if !text.starts_with("//") && !text.starts_with(r"\\") && !text.is_empty() => text.parse(),
        _ => {
            let (smb, nfs) = (Scheme::Smb.form(), Scheme::Nfs.form());
            // The text behind a scheme may contain a password.
            let shown = text
                .split_once("://")
                .map_or_else(|| format!("{text:?}"), |(scheme, _)| format!("{scheme}://"));
            Err(format!("{shown} is no target; {smb}, {nfs}, or the path of a mounted directory"))
        }
    }
}

fn null(place: &str) -> Result<Url, String> {
    match written::place(place.trim_end_matches('/'), 0)? {
        (host, port) if port > 0 && !host.is_empty() => Ok(Url::server(Scheme::Null, host, port)),
        _ => Err(format!("no host or no port; {}", Scheme::Null.form())),
    }
}

/// Whether two targets are in the same share and reached in the same way.
pub(crate) fn are_beside(one: &Url, other: &Url) -> bool {
    root(one) == root(other)
}

/// The root of the same share.
pub(crate) fn root(url: &Url) -> Url {
    Url { path: String::new(), ..url.clone() }
}

/// The target without the path, for people.
pub(crate) fn place(url: &Url) -> String {
    match url.scheme {
        Scheme::Local if url.path.is_empty() => "this host".to_owned(),
        Scheme::Local => url.path.clone(),
        Scheme::Smb | Scheme::Nfs => format!("{}/{}", url.host, url.share),
        Scheme::Null => format!("{}:{}", url.host, url.port),
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

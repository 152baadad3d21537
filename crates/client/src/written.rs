//! Parses text that users write: `[DOMAIN;]USER@HOST[:PORT]`, sizes, and files with a secret.
//!
//! Each command has further forms of its own. The common forms are parsed here, and refused with the same
//! words.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Parses a host and a port. The port is `usual` if none is written. An IPv6 address needs brackets.
///
/// # Errors
/// The reason, for the user.
pub fn host_and_port(text: &str, usual: u16) -> Result<(String, u16), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']').ok_or("an address without its closing bracket")?;
            let port = behind.strip_prefix(':').or(behind.is_empty().then_some(""));
            (host, port.ok_or("something other than a port behind the address")?)
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("an IPv6 address stands in brackets".to_owned());
            }
            both => both.unwrap_or((text, "")),
        },
    };
    if port.is_empty() {
        return Ok((host.to_owned(), usual));
    }
    let port = port.parse().ok().filter(|port| *port != 0).ok_or(format!("{port:?} is no port"))?;
    Ok((host.to_owned(), port))
}

/// Parses the domain and the user of `[DOMAIN;]USER`, or of `DOMAIN\USER`, which Windows and Azure's portal
/// write.
///
/// # Errors
/// When the text has a password, which the message does not repeat.
pub fn login(text: &str) -> Result<(&str, &str), String> {
    if text.contains(':') {
        let secret = "a password must not stand on the command line; use --password-file";
        return Err(format!("{secret}, or set TRUNKLINE_PASSWORD"));
    }
    Ok(text.split_once([';', '\\']).unwrap_or(("", text)))
}

/// The error of a [`size`] of zero.
pub const NOTHING: &str = "a size of nothing";

/// Parses a number of bytes: a number with an optional k, m, g or t (1024 each, as fio's default) in either
/// case, and an optional `b` or `ib` after it.
///
/// # Errors
/// The reason, for the user.
pub fn size(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.len() - lower.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = lower.split_at(digits);
    let shift = match unit {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(format!("{text:?} is no size; write for example 4096, 500k or 20m")),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text:?} does not begin with a number"))?;
    match number.checked_mul(1 << shift) {
        Some(0) => Err(NOTHING.to_owned()),
        Some(bytes) => Ok(bytes),
        None => Err(format!("{text} is too large")),
    }
}

/// The warning if others than its owner may read a file with a secret. The group counts only if the file
/// belongs to this process's user, because a service's file often belongs to root, and the service reads it
/// by its group.
#[must_use]
pub fn exposure(file: &Path) -> Option<String> {
    let meta = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file)?;
    let is_own = meta.uid() == rustix::process::geteuid().as_raw();
    let readers = meta.mode() & if is_own { 0o044 } else { 0o004 };
    let mode = meta.mode() & 0o777;
    (readers != 0).then(|| {
        format!("others may read the secret in it (mode {mode:o}); `chmod 600` keeps it to its owner")
    })
}

/// Reads the first line of a file with a secret, which may be empty. Prints a line on standard error if
/// others may read the file.
///
/// # Errors
/// The errors of the host.
pub fn secret(file: &Path) -> io::Result<String> {
    if let Some(why) = exposure(file) {
        eprintln!("trunkline: warning: {}: {why}", file.display());
    }
    let text = std::fs::read_to_string(file)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_others_may_read_is_told_from_one_that_they_may_not() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        std::fs::write(&file, "s3cret\n").unwrap();
        for (mode, is_exposed) in
            [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o620, false)]
        {
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(exposure(&file).is_some(), is_exposed, "{mode:o}");
        }
        assert_eq!(exposure(Path::new("/dev/null")), None, "no file with content");
        assert_eq!(secret(&file).unwrap(), "s3cret");
    }

    #[test]
    fn sizes_are_read_as_fio_reads_them() {
        assert_eq!(
            ["4096", "4k", "4KiB", "1m", "2G"].map(|it| size(it).unwrap()),
            [4096, 4096, 4096, 1 << 20, 2 << 30]
        );
        for wrong in ["", "k", "4x", "0", "99999999999t"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_domain_stands_in_front_in_either_form_and_a_principal_is_a_user() {
        assert_eq!(login("CORP;bob"), Ok(("CORP", "bob")));
        assert_eq!(login(r"AZURE\account"), Ok(("AZURE", "account")));
        assert_eq!(login("bob@corp.example"), Ok(("", "bob@corp.example")));
        assert!(
            login("bob:secret").is_err_and(|why| !why.contains("secret,") && why.contains("--password-file"))
        );
    }
}

//! What people write down of a server and of who goes there: `[DOMAIN;]USER@HOST[:PORT]`, and files with a secret.
//!
//! Each command has forms of its own around it; what is the same in all of them is read here, and refused in the
//! same words.

use std::io;
use std::path::Path;

/// Host and port, `usual` where none is written; an IPv6 address stands in brackets.
///
/// # Errors
/// What is wrong, for whoever wrote it.
pub fn place(text: &str, usual: u16) -> Result<(String, u16), String> {
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

/// Domain and user of `[DOMAIN;]USER`, or of `DOMAIN\USER`, as Windows and Azure's portal write it.
///
/// # Errors
/// When a password is written there, which is not repeated.
pub fn login(text: &str) -> Result<(&str, &str), String> {
    if text.contains(':') {
        let secret = "a password must not stand on the command line; use --password-file";
        return Err(format!("{secret}, or set TRUNKLINE_PASSWORD"));
    }
    Ok(text.split_once([';', '\\']).unwrap_or(("", text)))
}

/// The first line of a file with a secret, which may have none.
///
/// # Errors
/// As the host says.
pub fn secret(file: &Path) -> io::Result<String> {
    let text = std::fs::read_to_string(file)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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

//! The values of the configuration, how they are spelt, and the rules of names.

/// What a user may do in a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Read.
    Read,
    /// Read and change files.
    Write,
    /// Also change owners and permissions.
    Full,
}

/// Sealing on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// Not offered.
    Off,
    /// For clients that ask for it.
    Enabled,
    /// Clients that cannot are refused.
    Required,
}

/// Signing on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signing {
    /// As the client asks.
    Auto,
    /// Clients that cannot are refused.
    Required,
}

/// The dialects of MS-SMB2, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// 2.0.2
    Smb202,
    /// 2.1
    Smb21,
    /// 3.0
    Smb30,
    /// 3.0.2
    Smb302,
    /// 3.1.1
    Smb311,
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// One JSON object for each line.
    Json,
}

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// What failed.
    Error,
    /// Also what is suspicious.
    Warn,
    /// Also what an administrator wants to know.
    Info,
    /// Also why a request was refused.
    Debug,
    /// Everything.
    Trace,
}

/// A value that is chosen from a list of names.
pub trait Choice: Copy + PartialEq + 'static {
    /// Each value by its name.
    const NAMES: &'static [(&'static str, Self)];

    /// The name of the value.
    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, value)| *value == self).map_or("", |(name, _)| name)
    }
}

impl Choice for Access {
    const NAMES: &'static [(&'static str, Self)] =
        &[("read", Access::Read), ("write", Access::Write), ("full", Access::Full)];
}

impl Choice for Encryption {
    const NAMES: &'static [(&'static str, Self)] =
        &[("off", Encryption::Off), ("enabled", Encryption::Enabled), ("required", Encryption::Required)];
}

impl Choice for Signing {
    const NAMES: &'static [(&'static str, Self)] =
        &[("auto", Signing::Auto), ("required", Signing::Required)];
}

impl Choice for Dialect {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("2.0.2", Dialect::Smb202),
        ("2.1", Dialect::Smb21),
        ("3.0", Dialect::Smb30),
        ("3.0.2", Dialect::Smb302),
        ("3.1.1", Dialect::Smb311),
    ];
}

impl Choice for LogFormat {
    const NAMES: &'static [(&'static str, Self)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];
}

impl Choice for LogLevel {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];
}

/// Whether `name` can be the name of a share.
///
/// # Errors
/// Why it cannot.
pub fn share_name(name: &str) -> Result<(), String> {
    let length = name.encode_utf16().count();
    if !(1..=80).contains(&length) {
        return Err(format!("a share's name has 1 to 80 characters, `{name}` has {length}"));
    }
    if let Some(bad) = name.chars().find(|c| c.is_control() || "\\/[]:|<>+=;,*?\"".contains(*c)) {
        return Err(format!("a share's name cannot hold {bad:?}"));
    }
    if name.eq_ignore_ascii_case("ipc$") {
        return Err("`IPC$` is the server's own share".to_owned());
    }
    if name.trim() != name || name.ends_with('.') {
        return Err(format!("a share's name cannot begin or end with a blank, nor end with a dot: `{name}`"));
    }
    Ok(())
}

/// Whether `name` can be the name of a user.
///
/// # Errors
/// Why it cannot.
pub fn user_name(name: &str) -> Result<(), String> {
    let length = name.encode_utf16().count();
    if !(1..=104).contains(&length) {
        return Err(format!("a user's name has 1 to 104 characters, `{name}` has {length}"));
    }
    if let Some(bad) = name.chars().find(|c| c.is_control() || "\"/\\[]:;|=,+*?<>@".contains(*c)) {
        return Err(format!("a user's name cannot hold {bad:?}"));
    }
    if name.trim() != name || name.ends_with('.') {
        return Err(format!("a user's name cannot begin or end with a blank, nor end with a dot: `{name}`"));
    }
    if ["guest", "anonymous"].contains(&name.to_lowercase().as_str()) {
        return Err(format!("`{name}` is refused: guests and anonymous users are not served"));
    }
    Ok(())
}

/// Whether `sid` is written as `S-1-…`.
///
/// # Errors
/// What is wrong with it.
pub fn sid(sid: &str) -> Result<String, String> {
    // MS-DTYP 2.4.2.1
    let mut parts = sid.split('-');
    let head = parts.next() == Some("S") && parts.next() == Some("1");
    let authority = parts.next().is_some_and(|part| part.parse::<u64>().is_ok_and(|number| number < 1 << 48));
    let rest: Vec<_> = parts.collect();
    let subs = (1..=15).contains(&rest.len()) && rest.iter().all(|part| part.parse::<u32>().is_ok());
    if head && authority && subs {
        Ok(sid.to_owned())
    } else {
        Err(format!("`{sid}` is not a security identifier such as S-1-5-21-1-2-3-1000"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_clients_cannot_use_are_refused() {
        assert!(share_name("docs").is_ok() && share_name("Größe $x").is_ok());
        for bad in ["", "a/b", "ipc$", "a*", " a", "a.", &"x".repeat(81)] {
            assert!(share_name(bad).is_err(), "{bad:?}");
        }
        assert!(user_name("ann").is_ok());
        for bad in ["", "a\\b", "Guest", "anonymous", "a@b", "*"] {
            assert!(user_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sids_are_read_as_written() {
        assert!(sid("S-1-5-21-1-2-3-1000").is_ok() && sid("S-1-1-0").is_ok());
        for bad in ["S-1-5", "S-2-5-1", "s-1-5-1", "S-1-5-4294967296", "S-1-281474976710656-1", "S-1-5-"] {
            assert!(sid(bad).is_err(), "{bad}");
        }
    }
}

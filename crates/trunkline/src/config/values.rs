//! The values of the configuration, how they are spelt, and the rules of names.

use std::fmt;
use std::net::IpAddr;

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

/// Whether the name of the service that a client meant to log on to must be one of this server's (MS-NLMP MsvAvTargetName).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spn {
    /// Nobody looks at it.
    Off,
    /// Where it is given.
    Accepted,
    /// It must be given.
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

/// How somebody logs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    /// As a user, with their password.
    Password,
    /// As the account, with one of its keys.
    Key,
}

impl fmt::Display for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How messages are sealed (MS-SMB2 2.2.3.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// AES-128-CCM, the only one of 3.0 and 3.0.2
    Aes128Ccm,
    /// AES-128-GCM
    Aes128Gcm,
    /// AES-256-CCM
    Aes256Ccm,
    /// AES-256-GCM
    Aes256Gcm,
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
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

/// Whether clients are told that the network interfaces can spread their work over processors (RSS). Windows
/// and Linux open more than one connection to an address only then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rss {
    /// Of all, since this server spreads connections over processors by itself.
    Always,
    /// Of devices with more than one receive queue.
    Auto,
    /// Of none.
    Never,
}

/// An address at which clients find the server although no interface of the host has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised {
    /// The address.
    pub address: IpAddr,
    /// Speed of the way to it in bit/s.
    pub link_speed_bps: Option<u64>,
}

impl fmt::Display for Advertised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)?;
        match self.link_speed_bps {
            Some(bps) => write!(f, " speed={}", bits_per_second(bps)),
            None => Ok(()),
        }
    }
}

/// A speed with the largest unit that leaves a whole number: `10G`, `2500M`, `9600`.
pub fn bits_per_second(bps: u64) -> String {
    let unit = SPEEDS.iter().find(|(_, size)| bps != 0 && bps.is_multiple_of(*size));
    unit.map_or_else(|| bps.to_string(), |(unit, size)| format!("{}{unit}", bps / size))
}

const SPEEDS: [(char, u64); 3] = [('G', 1_000_000_000), ('M', 1_000_000), ('K', 1_000)];

/// Reads `ADDRESS` or `ADDRESS speed=10G`.
///
/// # Errors
/// What is wrong with it.
pub fn advertised(text: &str) -> Result<Advertised, String> {
    let (address, speed) = match text.split_once(' ') {
        Some((address, speed)) => (address, Some(speed.trim())),
        None => (text, None),
    };
    let address = super::section::address(address)?.to_canonical();
    let link_local = match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    };
    if address.is_loopback() || address.is_unspecified() || address.is_multicast() || link_local {
        return Err(format!("`{address}` cannot be reached from other hosts"));
    }
    let Some(speed) = speed else {
        return Ok(Advertised { address, link_speed_bps: None });
    };
    let wrong = || format!("`{speed}` is not a speed such as speed=10G or speed=100M (bit/s)");
    let given = speed.strip_prefix("speed=").ok_or_else(wrong)?;
    let unit = SPEEDS.iter().find_map(|(unit, size)| Some((given.strip_suffix(*unit)?, *size)));
    let (digits, size) = unit.unwrap_or((given, 1));
    let number: Option<u64> = digits.parse().ok().filter(|_| !digits.starts_with('+'));
    let bps = number.and_then(|number| number.checked_mul(size)).filter(|bps| *bps > 0);
    Ok(Advertised { address, link_speed_bps: Some(bps.ok_or_else(wrong)?) })
}

/// A name or an address by which clients find the server: as they write it, without a service before it or a port behind it.
pub fn spn_name(name: &str) -> Result<String, String> {
    let is_host = name.chars().all(|letter| letter.is_alphanumeric() || "-_.:".contains(letter));
    let has_port = name.matches(':').count() == 1;
    match name.is_empty() || !is_host || has_port {
        true => Err(format!("`{name}` must be a host name or an address, such as files.example.net")),
        false => Ok(name.to_lowercase()),
    }
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

impl Choice for share::engine::Symlinks {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("all", share::engine::Symlinks::All),
        ("inside", share::engine::Symlinks::Inside),
        ("none", share::engine::Symlinks::None),
    ];
}

impl Choice for wire::SendFile {
    const NAMES: &'static [(&'static str, Self)] =
        &[("auto", wire::SendFile::Auto), ("true", wire::SendFile::Always), ("false", wire::SendFile::Never)];
}

impl Choice for Signing {
    const NAMES: &'static [(&'static str, Self)] =
        &[("auto", Signing::Auto), ("required", Signing::Required)];
}

impl Choice for Spn {
    const NAMES: &'static [(&'static str, Self)] =
        &[("off", Spn::Off), ("accepted", Spn::Accepted), ("required", Spn::Required)];
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

impl Choice for Authentication {
    const NAMES: &'static [(&'static str, Self)] =
        &[("password", Authentication::Password), ("key", Authentication::Key)];
}

impl Choice for Cipher {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("AES-128-CCM", Cipher::Aes128Ccm),
        ("AES-128-GCM", Cipher::Aes128Gcm),
        ("AES-256-CCM", Cipher::Aes256Ccm),
        ("AES-256-GCM", Cipher::Aes256Gcm),
    ];
}

impl Choice for Rss {
    const NAMES: &'static [(&'static str, Self)] =
        &[("always", Rss::Always), ("auto", Rss::Auto), ("never", Rss::Never)];
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
    fn advertised_addresses_are_written_as_they_are_read() {
        for text in ["203.0.113.7", "2001:db8::7 speed=10G", "203.0.113.7 speed=2500M", "203.0.113.7 speed=1"]
        {
            assert_eq!(advertised(text).unwrap().to_string(), text);
        }
        assert_eq!(advertised("203.0.113.7 speed=1000M").unwrap().link_speed_bps, Some(1_000_000_000));
        let cases = [
            ("host", "`host` is not an IPv4 or IPv6 address"),
            ("127.0.0.1", "`127.0.0.1` cannot be reached from other hosts"),
            ("fe80::1", "`fe80::1` cannot be reached from other hosts"),
            ("169.254.0.1", "`169.254.0.1` cannot be reached from other hosts"),
            ("203.0.113.7 10G", "`10G` is not a speed such as speed=10G or speed=100M (bit/s)"),
            ("203.0.113.7 speed=0", "`speed=0` is not a speed such as speed=10G or speed=100M (bit/s)"),
            (
                "203.0.113.7 speed=99999999999G",
                "`speed=99999999999G` is not a speed such as speed=10G or speed=100M (bit/s)",
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(advertised(text).unwrap_err(), wanted, "{text}");
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

//! The types and spellings of configuration values, and the rules for names.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use identity::mapping::IdRange;

pub use auth::Cipher;
pub use kerberos::EncryptionType;
pub use nfs::Squash;
pub use share::engine::Symlinks;
pub use share::limits::Formula;
pub use smb::{Access, Encryption, Ntlm, Signing, Spn};
pub use smb_wire::negotiate::Dialect;
pub use wire::SendFile;

use super::setting::{Origin, Setting};

/// A value that has a name in a fixed list.
pub trait Choice: Copy + PartialEq + 'static {
    /// Each value with its name.
    const NAMES: &'static [(&'static str, Self)];

    /// The name of the value.
    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, value)| *value == self).map_or("", |(name, _)| name)
    }

    /// Every name.
    fn names() -> Vec<&'static str> {
        Self::NAMES.iter().map(|(name, _)| *name).collect()
    }
}

/// The choice with the name `text`.
///
/// # Errors
/// The name is unknown. The error lists the known names.
pub fn choose<T: Choice>(text: &str) -> Result<T, String> {
    let found = T::NAMES.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<String> = T::names().iter().map(|name| format!("\"{name}\"")).collect();
        format!("`{text}` is not one of {}", names.join(", "))
    })
}

macro_rules! choices {
    ($($type:ty { $($name:literal = $value:ident),+ $(,)? })+) => {$(
        impl Choice for $type {
            const NAMES: &'static [(&'static str, Self)] = &[$(($name, <$type>::$value)),+];
        }
    )+};
}

choices! {
    Access { "read" = Read, "write" = Write, "full" = Full }
    Authentication { "password" = Password, "key" = Key }
    Encryption { "off" = Off, "enabled" = Enabled, "required" = Required }
    Formula {
        "v1" = V1,
        "v1-2021" = V1Of2021,
        "v1-2020" = V1Of2020,
        "v2" = V2,
        "large" = Large,
        "small" = Small,
    }
    AccountKind { "unlimited" = Unlimited, "premium" = Premium, "standard" = Standard }
    LogFormat { "text" = Text, "json" = Json }
    LogLevel { "error" = Error, "warn" = Warn, "info" = Info, "debug" = Debug, "trace" = Trace }
    ShareProtocol { "smb" = Smb, "nfs" = Nfs }
    IdmapBackend { "rid" = Rid, "rfc2307" = Rfc2307, "table" = Table, "autorid" = Autorid }
    Ntlm { "on" = On, "local" = Local, "off" = Off }
    Rss { "always" = Always, "auto" = Auto, "never" = Never }
    SendFile { "auto" = Auto, "true" = Always, "false" = Never }
    Signing { "auto" = Offered, "required" = Required }
    Spn { "off" = Off, "accepted" = Accepted, "required" = Required }
    Squash { "none" = None, "root" = Root, "all" = All }
    Symlinks { "all" = All, "inside" = Inside, "none" = None }
}

impl Choice for EncryptionType {
    const NAMES: &'static [(&'static str, Self)] = EncryptionType::NAMED;
}

impl Choice for Cipher {
    const NAMES: &'static [(&'static str, Self)] = Cipher::NAMES;
}

impl Choice for Dialect {
    const NAMES: &'static [(&'static str, Self)] = Dialect::NAMES;
}

/// A way to log on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    /// As a user, with their password.
    Password,
    /// As the account, with one of its keys.
    Key,
}

/// The way from SIDs of the domain to uids and gids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdmapBackend {
    /// The formula of Samba's `idmap_rid`.
    Rid,
    /// The attributes `uidNumber` and `gidNumber` of the directory.
    Rfc2307,
    /// A file with a line for each account.
    Table,
    /// The ranges of Samba's `idmap_autorid`, from its database.
    Autorid,
}

/// The kind of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountKind {
    /// The shares have no limits.
    Unlimited,
    /// The shares are provisioned.
    Premium,
    /// The shares have fixed limits, or are provisioned with lower ones.
    Standard,
}

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// One JSON object for each line.
    Json,
}

/// The least severe messages that are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Failures.
    Error,
    /// Also suspicious events.
    Warn,
    /// Also events for administrators.
    Info,
    /// Also the reasons of refusals.
    Debug,
    /// Everything.
    Trace,
}

/// A protocol of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareProtocol {
    /// SMB.
    Smb,
    /// NFSv4.1 and 4.2.
    Nfs,
}

/// Whether clients are told that the network interfaces can spread their work over processors (RSS). Windows
/// and Linux open more than one connection to an address only then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rss {
    /// For all interfaces, since this server itself spreads connections over processors.
    Always,
    /// For interfaces with more than one receive queue.
    Auto,
    /// For no interface.
    Never,
}

/// The part of a path that stands for the name of a user. A share of this name is found under the name of
/// each user.
pub const USER: &str = "{user}";

/// The text about a path that is [`USER`] alone.
pub const NO_FOLDER: &str = "must have a folder above `{user}`: write /home/{user}, not {user} alone";

/// Client addresses: a network such as `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// An address of the network.
    pub address: IpAddr,
    /// The length of the prefix in bits.
    pub bits: u8,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// Parses a network such as `10.0.0.0/8`, or one address.
///
/// # Errors
/// The text is neither.
pub fn network(text: &str) -> Result<Network, String> {
    let wrong = || format!("`{text}` is not an address or a network like `10.0.0.0/8`");
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        Some(bits) => bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?,
        None => most,
    };
    Ok(Network { address, bits })
}

/// An address of the server that no interface of the host has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised {
    /// The address.
    pub address: IpAddr,
    /// The speed of the path to it, in bit/s.
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

/// Parses `ADDRESS` or `ADDRESS speed=10G`.
///
/// # Errors
/// The mistake in the text.
pub fn advertised(text: &str) -> Result<Advertised, String> {
    let (host, speed) = match text.split_once(' ') {
        Some((host, speed)) => (host, Some(speed.trim())),
        None => (text, None),
    };
    let address = address(host)?.to_canonical();
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

/// Parses an address. Names are refused, so that listening does not depend on a resolver.
///
/// # Errors
/// The mistake in the text.
pub fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an IPv4 or IPv6 address"))
}

/// Parses an address and a port.
///
/// # Errors
/// The mistake in the text.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an address with a port, such as 127.0.0.1:9445"))
}

/// Parses the DNS name of a certificate.
///
/// # Errors
/// The mistake in the text.
pub fn dns_name(name: &str) -> Result<String, String> {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    match name.split('.').all(is_label) {
        true => Ok(name.to_lowercase()),
        false => Err(format!("`{name}` must be a DNS name without wildcards, such as ops.example.net")),
    }
}

/// Parses a host name or an address as clients write it, without a service before it or a port after it.
///
/// # Errors
/// The mistake in the text.
pub fn spn_name(name: &str) -> Result<String, String> {
    let is_host = name.chars().all(|letter| letter.is_alphanumeric() || "-_.:".contains(letter));
    let has_port = name.matches(':').count() == 1;
    match name.is_empty() || !is_host || has_port {
        true => Err(format!("`{name}` must be a host name or an address, such as files.example.net")),
        false => Ok(name.to_lowercase()),
    }
}

/// Parses the name of a Kerberos realm. By convention it has upper case letters, which a domain of Active
/// Directory always has (RFC 4120 section 6.1).
///
/// # Errors
/// The mistake in the text.
pub fn realm(name: &str) -> Result<String, String> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    match name.is_empty() || !name.chars().all(is_letter) {
        true => Err(format!("`{name}` must be the name of a realm, such as EXAMPLE.NET")),
        false => Ok(name.to_owned()),
    }
}

/// Parses a text that must not be empty.
///
/// # Errors
/// The mistake in the text.
pub fn filled(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// Parses the comment of a share.
///
/// # Errors
/// The mistake in the text.
pub fn comment(text: &str) -> Result<String, String> {
    match text.chars().count() {
        0..=256 if !text.contains(char::is_control) => Ok(text.to_owned()),
        _ => Err("must be one line of at most 256 characters".to_owned()),
    }
}

/// Parses the name of a folder.
///
/// # Errors
/// The mistake in the text.
pub fn folder(text: &str) -> Result<String, String> {
    let is_plain =
        !text.contains(char::is_control) && !text.contains(['\\', '*', '?', ':', '"', '<', '>', '|']);
    match volume::Name::new(text.as_bytes()) {
        Ok(_) if is_plain => Ok(text.to_owned()),
        _ => Err(format!("`{text}` is not a name for a folder")),
    }
}

/// Parses a pattern for file names.
///
/// # Errors
/// The mistake in the text.
pub fn pattern(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(['/', '\\']) {
        return Err(format!("`{text}` is not a pattern for a file's name"));
    }
    Ok(text.to_owned())
}

/// Parses a NetBIOS name.
///
/// # Errors
/// The mistake in the text.
pub fn netbios(name: &str) -> Result<String, String> {
    let fits = (1..=15).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_graphic() && !"\\/:*?\"<>|.".contains(c));
    if fits {
        Ok(name.to_uppercase())
    } else {
        Err(format!("`{name}` must have 1 to 15 letters, digits or dashes"))
    }
}

/// The first label of `name` as a NetBIOS name.
pub fn netbios_of(name: &str) -> String {
    let label = name.split('.').next().unwrap_or_default();
    let kept: String = label.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(15).collect();
    if kept.is_empty() { "TRUNKLINE".to_owned() } else { kept.to_uppercase() }
}

/// The first label of the host's name.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let label = name.split('.').next().unwrap_or_default().to_owned();
    if label.is_empty() || label == "(none)" { "trunkline".to_owned() } else { label }
}

/// `/var/lib/trunkline` as root, else below the user's own state directory.
pub fn default_state_dir() -> Setting<PathBuf> {
    let set =
        |name: &'static str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if rustix::process::geteuid().is_root() {
        return Setting::default_of(PathBuf::from("/var/lib/trunkline"));
    }
    if let Some(dir) = set("XDG_STATE_HOME") {
        return Setting {
            value: dir.join("trunkline"),
            origin: Origin::Environment("XDG_STATE_HOME".to_owned()),
        };
    }
    match set("HOME") {
        Some(home) => Setting {
            value: home.join(".local/state/trunkline"),
            origin: Origin::Environment("HOME".to_owned()),
        },
        None => Setting::default_of(PathBuf::from("/var/lib/trunkline")),
    }
}

/// Checks that `name` is valid for a share.
///
/// # Errors
/// The reason why it is not.
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

/// Checks that `name` is valid for a user.
///
/// # Errors
/// The reason why it is not.
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

/// Checks that `name` is valid for a user or a group in a list of users: `ann`, `@staff`, `CORP\\bob`,
/// `bob@corp.example`, `@CORP\\staff` or `@staff@corp.example`.
///
/// # Errors
/// The reason why it is not.
pub fn grantee_name(name: &str) -> Result<(), String> {
    let (_, domain, account) = smb::config::grantee::parts(name);
    user_name(account)?;
    let Some(domain) = domain else { return Ok(()) };
    let is_fine = |c: char| c.is_alphanumeric() || c == '-' || c == '.' || c == '_';
    if (1..=255).contains(&domain.len()) && domain.chars().all(is_fine) {
        return Ok(());
    }
    Err(format!("`{domain}` in `{name}` is not the name of a domain; write DOMAIN\\\\user or user@realm"))
}

/// Parses the name of a user and keeps its spelling.
///
/// # Errors
/// The reason why it is not valid.
pub fn named_user(name: &str) -> Result<String, String> {
    user_name(name).map(|()| name.to_owned())
}

/// Parses a security identifier `S-1-…`.
///
/// # Errors
/// The mistake in the text.
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

/// Parses the security identifier of a domain `S-1-5-21-X-Y-Z`.
///
/// # Errors
/// The mistake in the text.
pub fn domain_sid(text: &str) -> Result<String, String> {
    // MS-DTYP 2.4.2.4
    match sid(text) {
        Ok(sid) if sid.starts_with("S-1-5-21-") && sid.split('-').count() == 7 => Ok(sid),
        _ => Err(format!("`{text}` is not the security identifier of a domain, such as S-1-5-21-1-2-3")),
    }
}

/// Parses a range of uids and gids.
///
/// # Errors
/// The mistake in the text.
pub fn id_range(text: &str) -> Result<IdRange, String> {
    text.parse().map_err(|why: identity::mapping::MappingError| why.to_string())
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
        assert!(grantee_name("ann").is_ok() && grantee_name("CORP\\ann").is_ok());
        for bad in ["\\ann", "CORP\\", "CORP\\a\\b", "a/b\\ann"] {
            assert!(grantee_name(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "a\\b", "Guest", "anonymous", "a@b", "*"] {
            assert!(user_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn groups_and_accounts_of_domains_can_be_named_in_lists() {
        for fine in
            ["ann", "@staff", "CORP\\bob", "bob@corp.example", "@CORP\\domain users", "@staff@corp.example"]
        {
            assert_eq!(grantee_name(fine), Ok(()), "{fine}");
        }
        for bad in ["", "@", "@@", "a\\b\\c", "\\bob", "CORP\\", "CO RP\\bob", "guest", "a@", "a*"] {
            assert!(grantee_name(bad).is_err(), "{bad:?}");
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
    fn networks() {
        assert_eq!(network("10.0.0.0/8").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(network("192.0.2.1").unwrap().bits, 32);
        assert_eq!(network("fd00::/8").unwrap().bits, 8);
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "host", "fd00::/129", "10.0.0.0/-1"] {
            assert!(network(wrong).is_err(), "{wrong}");
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

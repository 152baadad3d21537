//! `[node]`: this machine as one node of a virtual server.

use net::floating_address::{FloatingAddress, FloatingAddressError};

use super::setting::{ConfigError, Origin};
use super::tables::Config;
use super::values::Choice;

/// The store that gives a virtual server to one node at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenureKind {
    /// A lock on the storage of the state directory.
    Flock,
    /// etcd.
    Etcd,
    /// Another program decides, and tells.
    External,
}

impl Choice for TenureKind {
    const NAMES: &'static [(&'static str, Self)] =
        &[("flock", TenureKind::Flock), ("etcd", TenureKind::Etcd), ("external", TenureKind::External)];
}

/// The way to cut a former owner off from the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// Nothing is to be done.
    None,
    /// The former owner's clients of Ceph are put on the blocklist.
    Cephfs,
    /// A command of the administrator.
    Command,
}

impl Choice for Fence {
    const NAMES: &'static [(&'static str, Self)] =
        &[("none", Fence::None), ("cephfs", Fence::Cephfs), ("command", Fence::Command)];
}

/// Reads the name of a virtual server. It is a part of keys and of file names.
pub fn server_name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !text.is_empty() && text.len() <= 64 && text.chars().all(is_plain) && !text.starts_with('.') {
        true => Ok(text.to_owned()),
        false => Err(format!("`{text}` is not a name of letters, digits, `-`, `_` and `.`")),
    }
}

/// Reads an address that moves between nodes.
pub fn floating_address(text: &str) -> Result<FloatingAddress, String> {
    text.parse().map_err(|error: FloatingAddressError| error.to_string())
}

/// Reads an endpoint of etcd.
pub fn endpoint(text: &str) -> Result<String, String> {
    let at = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let host_and_port = at.map(|at| at.trim_end_matches('/')).and_then(|at| at.rsplit_once(':'));
    match host_and_port {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err(format!("`{text}` is not http://HOST:PORT or https://HOST:PORT")),
    }
}

/// Checks that the keys of the node fit together.
///
/// # Errors
/// The setting to change.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    let node = &config.node;
    let refused = |location: String, text: &str| Err(ConfigError(format!("{location}: {text}")));
    let Some(tenure) = &node.tenure else {
        return match (&node.addresses, node.etcd.value.is_empty()) {
            (addresses, true) if addresses.value.is_empty() => Ok(()),
            (addresses, _) => refused(config.location(&addresses.origin), "[node] needs the key `tenure`"),
        };
    };
    if tenure.value == TenureKind::Etcd && node.fence.origin == Origin::Default {
        let text = "`tenure = \"etcd\"` needs the key `fence`: \"cephfs\", \"command\", or \"none\" if the \
                    storage itself keeps a former owner out";
        return refused(config.location(&tenure.origin), text);
    }
    if tenure.value == TenureKind::Etcd && node.etcd.value.is_empty() {
        return refused(config.location(&tenure.origin), "`tenure = \"etcd\"` needs the key `etcd`");
    }
    pairs(config)?;
    if node.fence.value == Fence::Command && node.fence_command.value.is_empty() {
        let text = "`fence = \"command\"` needs the key `fence_command`";
        return refused(config.location(&node.fence.origin), text);
    }
    if node.addresses.value.len() > MOST_ADDRESSES {
        let text = "a virtual server has at most four addresses";
        return refused(config.location(&node.addresses.origin), text);
    }
    Ok(())
}

/// Checks that keys that need each other are there.
fn pairs(config: &Config) -> Result<(), ConfigError> {
    let node = &config.node;
    let certificate = node.etcd_certificate.as_ref().map(|it| &it.origin);
    let key = node.etcd_key.as_ref().map(|it| &it.origin);
    let user = node.etcd_user.as_ref().map(|it| &it.origin);
    let password = node.etcd_password_file.as_ref().map(|it| &it.origin);
    let both = [
        (certificate, key, "`etcd_certificate` and `etcd_key`"),
        (user, password, "`etcd_user` and `etcd_password_file`"),
    ];
    for (one, other, names) in both {
        if let (Some(origin), None) | (None, Some(origin)) = (one, other) {
            return Err(ConfigError(format!("{}: {names} need each other", config.location(origin))));
        }
    }
    match (certificate, &node.etcd_ca) {
        (Some(origin), None) => {
            let location = config.location(origin);
            Err(ConfigError(format!("{location}: `etcd_certificate` needs `etcd_ca`")))
        }
        _ => Ok(()),
    }
}

/// The most addresses of a virtual server.
const MOST_ADDRESSES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_endpoints_are_checked() {
        assert!(server_name("files-1").is_ok());
        assert!(["", "a/b", ".", "a b"].map(server_name).iter().all(Result::is_err));
        assert_eq!(endpoint("http://10.0.0.7:2379/").as_deref(), Ok("http://10.0.0.7:2379"));
        assert!(
            ["10.0.0.7:2379", "http://:1", "http://a", "http://a:0"].map(endpoint).iter().all(Result::is_err)
        );
    }
}

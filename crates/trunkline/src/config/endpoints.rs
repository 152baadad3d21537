//! Endpoints for NFS: each is an address and a port with its own server. Also the addresses for SMB that
//! belong to one account or share, where all share one port.
//!
//! A client treats all mounts of one server as one, and they use the connections of the first mount. An
//! account or a share with its own address or port is another server to the client, so its mounts have their
//! own connections.

use std::fmt;
use std::net::IpAddr;

use super::section::Section;
use super::setting::{ConfigError, Origin, Setting};
use super::tables::{Account, Config, Share};
use super::values::ShareProtocol;

/// The port that clients use by default (RFC 8881 2.9.3).
pub const STANDARD_PORT: u16 = 2049;

/// The settings of an account or a share for its own endpoint.
#[derive(Debug, Clone, Copy)]
pub struct OwnEndpoint<'a> {
    /// Addresses to listen on. None for those of the server.
    pub listen: Option<&'a Setting<Vec<IpAddr>>>,
    /// TCP port. None for that of the server.
    pub port: Option<&'a Setting<u16>>,
    /// Connections of one client at one time. None for the number of the server.
    pub max_connections: Option<&'a Setting<u64>>,
}

impl OwnEndpoint<'_> {
    /// Whether the settings define an endpoint.
    pub fn is_there(&self) -> bool {
        self.listen.is_some() || self.port.is_some()
    }
}

impl Account {
    /// The account's settings for its own endpoint.
    pub fn own_endpoint(&self) -> OwnEndpoint<'_> {
        OwnEndpoint {
            listen: self.nfs_listen.as_ref(),
            port: self.nfs_port.as_ref(),
            max_connections: self.nfs_max_connections.as_ref(),
        }
    }
}

/// Refuses settings of an endpoint without an endpoint.
///
/// # Errors
/// The table to change.
pub fn whole(table: &Section<'_>, own: OwnEndpoint<'_>) -> Result<(), ConfigError> {
    if own.max_connections.is_none() || own.is_there() {
        return Ok(());
    }
    Err(table.error(format!(
        "`nfs_max_connections` in {} applies only to an own endpoint: set `nfs_port` or `nfs_listen` there \
         too, or set it in [server]",
        table.title()
    )))
}

/// The owner of an endpoint. Names are in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointOwner {
    /// The server: all shares without an endpoint of their own.
    Server,
    /// An account: its shares.
    Account(String),
    /// A share.
    Share(String),
}

impl fmt::Display for EndpointOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndpointOwner::Server => f.write_str("server"),
            EndpointOwner::Account(name) => write!(f, "account {name}"),
            EndpointOwner::Share(name) => write!(f, "share {name}"),
        }
    }
}

/// An address and a port at which NFS clients find shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The server, the account or the share to which it belongs.
    pub owner: EndpointOwner,
    /// Addresses to listen on.
    pub listen: Vec<IpAddr>,
    /// Whether these addresses are the default. Then the server listens on those that the host has.
    pub is_anywhere: bool,
    /// The port. None for the standard one where it is allowed.
    pub port: Option<u16>,
    /// Connections of one client at one time.
    pub max_connections: u64,
}

impl Endpoint {
    /// The address and the port that two endpoints both use. None if they do not conflict.
    fn clashes_with(&self, other: &Endpoint) -> Option<String> {
        let port = |endpoint: &Endpoint| endpoint.port.unwrap_or(STANDARD_PORT);
        if port(self) != port(other) || port(self) == 0 {
            return None;
        }
        let both = self.listen.iter().find(|address| other.listen.contains(address))?;
        Some(format!("port {} of {both}", port(self)))
    }
}

impl Share {
    /// The share's settings for its own endpoint.
    pub fn own_endpoint(&self) -> OwnEndpoint<'_> {
        OwnEndpoint {
            listen: self.nfs_listen.as_ref(),
            port: self.nfs_port.as_ref(),
            max_connections: self.nfs_max_connections.as_ref(),
        }
    }

    /// The owner of the endpoint at which NFS clients find the share.
    pub fn endpoint(&self, config: &Config) -> EndpointOwner {
        if self.own_endpoint().is_there() {
            return EndpointOwner::Share(self.name.value.to_lowercase());
        }
        let account = self.account.as_ref().map(|account| account.value.to_lowercase());
        match account.filter(|name| config.accounts.get(name).is_some_and(|on| on.own_endpoint().is_there()))
        {
            Some(name) => EndpointOwner::Account(name),
            None => EndpointOwner::Server,
        }
    }
}

/// The setting that defines the addresses of an endpoint, for a message.
pub fn listen_setting(config: &Config, owner: &EndpointOwner) -> String {
    match own(config, owner).and_then(|own| own.listen) {
        Some(listen) => format!("`nfs_listen` ({})", config.location(&listen.origin)),
        None => format!("`listen` ({})", config.location(&config.server.listen.origin)),
    }
}

fn own<'c>(config: &'c Config, owner: &EndpointOwner) -> Option<OwnEndpoint<'c>> {
    match owner {
        EndpointOwner::Server => None,
        EndpointOwner::Account(name) => config.accounts.get(name).map(Account::own_endpoint),
        EndpointOwner::Share(name) => config.shares.get(name).map(Share::own_endpoint),
    }
}

/// The endpoints that have a share for NFS clients, with the server's first.
pub fn all(config: &Config) -> Vec<Endpoint> {
    let offered = config.shares.values().filter(|share| share.offers(ShareProtocol::Nfs));
    let mut owners: Vec<EndpointOwner> = offered.map(|share| share.endpoint(config)).collect();
    owners.sort();
    owners.dedup();
    owners.into_iter().map(|owner| one(config, owner)).collect()
}

fn one(config: &Config, owner: EndpointOwner) -> Endpoint {
    let server = &config.server;
    let own = own(config, &owner);
    let port = own.and_then(|own| own.port).or(server.nfs_port.as_ref());
    let listen = own.and_then(|own| own.listen).unwrap_or(&server.listen);
    let most = own.and_then(|own| own.max_connections);
    Endpoint {
        owner,
        listen: listen.value.clone(),
        is_anywhere: listen.origin == Origin::Default,
        port: port.map(|port| port.value),
        max_connections: most.unwrap_or(&server.nfs_max_connections).value,
    }
}

/// Checks that all endpoints differ.
///
/// # Errors
/// The two that do not.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    apart(config, &config.server.listen, "listen")?;
    let accounts = config.accounts.values().filter_map(|account| account.nfs_listen.as_ref());
    let shares = config.shares.values().filter_map(|share| share.nfs_listen.as_ref());
    accounts.chain(shares).try_for_each(|listen| apart(config, listen, "nfs_listen"))?;
    smb(config)?;
    for share in config.shares.values() {
        let own = share.own_endpoint();
        if own.is_there() && !share.offers(ShareProtocol::Nfs) {
            let origin = own.port.map(|port| &port.origin);
            let origin = origin.or(own.listen.map(|listen| &listen.origin));
            let location = origin.map_or_else(String::new, |origin| config.location(origin));
            return Err(ConfigError(format!(
                "{location}: share `{}` has an endpoint for NFS but is not offered over NFS; add \"nfs\" to \
                 its `protocols`",
                share.name.value
            )));
        }
    }
    let all = all(config);
    for (at, endpoint) in all.iter().enumerate() {
        for other in &all[..at] {
            if let Some(what) = endpoint.clashes_with(other) {
                let title = |owner: &EndpointOwner| match owner {
                    EndpointOwner::Server => "[server]".to_owned(),
                    EndpointOwner::Account(name) => format!("[account.{name}]"),
                    EndpointOwner::Share(name) => format!("[share.{name}]"),
                };
                return Err(ConfigError(format!(
                    "{} and {} both use {what} for NFS; give one of them another `nfs_port` or `nfs_listen`",
                    title(&other.owner),
                    title(&endpoint.owner)
                )));
            }
        }
    }
    Ok(())
}

/// Checks that no address of a list covers another one there. The host would say that the port is in use.
fn apart(config: &Config, listen: &Setting<Vec<IpAddr>>, key: &str) -> Result<(), ConfigError> {
    let all = &listen.value;
    let family = |address: &IpAddr| if address.is_ipv4() { "IPv4" } else { "IPv6" };
    for (at, address) in all.iter().enumerate() {
        let covers = |any: &&IpAddr| any.is_unspecified() && any.is_ipv4() == address.is_ipv4();
        let why = match all.iter().find(covers).filter(|any| *any != address) {
            Some(any) => {
                let family = family(any);
                format!("{any} is every {family} address of this host, also {address}; leave one of them out")
            }
            None if all[..at].contains(address) => format!("{address} is given twice; give it once"),
            None => continue,
        };
        return Err(ConfigError(format!("{}: `{key}`: {why}", config.location(&listen.origin))));
    }
    Ok(())
}

/// Checks that the addresses for SMB of an account or a share are among those of the server, and that each
/// belongs to one owner only.
fn smb(config: &Config) -> Result<(), ConfigError> {
    let mut taken: Vec<(IpAddr, String)> = Vec::new();
    let accounts = config.accounts.values();
    let accounts = accounts.map(|account| (format!("account `{}`", account.name.value), &account.smb_listen));
    let shares = config.shares.values();
    let shares = shares.map(|share| (format!("share `{}`", share.name.value), &share.smb_listen));
    for (whose, own) in accounts.chain(shares) {
        let Some(own) = own else { continue };
        for address in own.value.iter().map(IpAddr::to_canonical) {
            if let Some(why) = why_not(config, &taken, address) {
                let location = config.location(&own.origin);
                return Err(ConfigError(format!("{location}: `smb_listen` of {whose}: {why}")));
            }
            taken.push((address, whose.clone()));
        }
    }
    for share in config.shares.values().filter(|share| !share.offers(ShareProtocol::Smb)) {
        let Some(own) = &share.smb_listen else { continue };
        return Err(ConfigError(format!(
            "{}: share `{}` has an address for SMB but is not offered over SMB; add \"smb\" to its \
             `protocols`",
            config.location(&own.origin),
            share.name.value
        )));
    }
    Ok(())
}

/// The reason why an address cannot belong to one account or share for SMB.
fn why_not(config: &Config, taken: &[(IpAddr, String)], address: IpAddr) -> Option<String> {
    if address.is_unspecified() {
        return Some(format!("{address} stands for all addresses; name single ones"));
    }
    let listen = &config.server.listen;
    if !listen.value.iter().any(|listening| net::accepts(*listening, address)) {
        let location = config.location(&listen.origin);
        return Some(format!("the server does not listen on {address}; add it to `listen` ({location})"));
    }
    let (_, other) = taken.iter().find(|(at, _)| *at == address)?;
    Some(format!("{address} is also an address of {other}; give it to only one"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use std::path::Path;

    fn config(text: &str) -> Result<Config, ConfigError> {
        read::parse("t", text, Path::new("/"))
    }

    const NFS: &str = "path = \"/x\"\nprotocols = [\"nfs\"]\n";

    #[test]
    fn a_share_is_found_at_its_own_endpoint_else_its_accounts_else_the_servers() {
        let text = format!(
            "[server]\nnfs_port = 3000\n[account.Team]\nnfs_port = 3001\nnfs_max_connections = 5\n\
             [account.plain]\n\
             [share.A]\naccount = \"team\"\nnfs_listen = \"10.0.0.2\"\n{NFS}[share.b]\naccount = \"team\"\n\
             {NFS}\
             [share.c]\naccount = \"plain\"\n{NFS}[share.d]\n{NFS}[share.e]\npath = \"/e\"\n"
        );
        let config = config(&text).unwrap();
        let all = all(&config);
        let told: Vec<_> = all.iter().map(|it| (it.owner.to_string(), it.port, it.max_connections)).collect();
        let wanted = [
            ("server".to_owned(), Some(3000), 32),
            ("account team".to_owned(), Some(3001), 5),
            ("share a".to_owned(), Some(3000), 32),
        ];
        assert_eq!(told, wanted);
        assert_eq!(all[2].listen, ["10.0.0.2".parse::<IpAddr>().unwrap()]);
        assert_eq!(check(&config), Ok(()));
    }

    #[test]
    fn no_address_of_a_list_covers_another() {
        let of = |listen: &str| {
            let text = format!("[server]\nlisten = [{listen}]\n[share.s]\nnfs_listen = [{listen}]\n{NFS}");
            check(&config(&text).unwrap()).map_err(|why| why.0)
        };
        let covered = "line 2: `listen`: 0.0.0.0 is every IPv4 address of this host, also 127.0.0.1; leave \
                       one of them out";
        for listen in ["\"0.0.0.0\", \"127.0.0.1\"", "\"127.0.0.1\", \"0.0.0.0\", \"::\""] {
            assert_eq!(of(listen).unwrap_err(), covered, "{listen}");
        }
        let why = of("\"::\", \"::1\"").unwrap_err();
        assert!(why.contains(":: is every IPv6 address of this host, also ::1"), "{why}");
        assert!(of("\"::1\", \"::1\"").unwrap_err().ends_with("::1 is given twice; give it once"));
        let text = format!("[share.s]\nnfs_listen = [\"0.0.0.0\", \"127.0.0.1\"]\n{NFS}");
        let only_nfs = config(&text).unwrap();
        assert!(check(&only_nfs).unwrap_err().0.starts_with("line 2: `nfs_listen`: 0.0.0.0 is every"));
        let both = config("[server]\nlisten = [\"0.0.0.0\", \"::\", \"::\"]\n").unwrap();
        assert!(check(&both).is_err());
        let fine = config("[server]\nlisten = [\"0.0.0.0\", \"::\"]\n").unwrap();
        assert_eq!(check(&fine), Ok(()));
    }

    #[test]
    fn an_address_for_smb_is_one_of_the_servers_and_of_one_account_or_share() {
        let checked = |text: &str| check(&config(text).unwrap()).map_err(|e| e.to_string());
        let own = |name: &str, at: &str| format!("[account.{name}]\nsmb_listen = [\"{at}\"]\n");
        assert_eq!(checked(&format!("{}{}", own("a", "10.0.0.2"), own("b", "fd00::2"))), Ok(()));
        let server = "[server]\nlisten = [\"10.0.0.1\", \"10.0.0.2\"]\n";
        assert_eq!(checked(&format!("{server}{}", own("a", "10.0.0.2"))), Ok(()));
        let share =
            |name: &str, at: &str| format!("[share.{name}]\npath = \"/{name}\"\nsmb_listen = \"{at}\"\n");
        assert_eq!(checked(&format!("{server}{}{}", own("a", "10.0.0.2"), share("s", "10.0.0.1"))), Ok(()));
        let cases = [
            (
                format!("{server}{}", own("a", "10.0.0.3")),
                "line 4: `smb_listen` of account `a`: the server does not listen on 10.0.0.3; add it to \
                 `listen` (line 2)",
            ),
            (
                format!("{}{}", own("a", "10.0.0.2"), own("b", "::ffff:10.0.0.2")),
                "line 4: `smb_listen` of account `b`: 10.0.0.2 is also an address of account `a`; give it to \
                 only one",
            ),
            (
                format!("{server}{}{}", own("a", "10.0.0.2"), share("s", "10.0.0.2")),
                "line 7: `smb_listen` of share `s`: 10.0.0.2 is also an address of account `a`; give it to \
                 only one",
            ),
            (
                format!("{}{}", share("s", "10.0.0.2"), share("t", "10.0.0.2")),
                "line 6: `smb_listen` of share `t`: 10.0.0.2 is also an address of share `s`; give it to \
                 only one",
            ),
            (
                format!("{server}{}", share("s", "10.0.0.3")),
                "line 5: `smb_listen` of share `s`: the server does not listen on 10.0.0.3; add it to \
                 `listen` (line 2)",
            ),
            (
                format!("{}protocols = [\"nfs\"]\n", share("s", "10.0.0.2")),
                "line 3: share `s` has an address for SMB but is not offered over SMB; add \"smb\" to its \
                 `protocols`",
            ),
            (
                own("a", "0.0.0.0"),
                "line 2: `smb_listen` of account `a`: 0.0.0.0 stands for all addresses; name single ones",
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(checked(&text).unwrap_err(), wanted, "{text}");
        }
        let none = config("[account.a]\nsmb_listen = []\n").unwrap_err().to_string();
        assert_eq!(none, "t:1: `smb_listen` in [account.a] must have at least one item, or be left out");
        let none = config("[account.a]\nciphers = [\"AES-512\"]\n").unwrap_err().to_string();
        assert!(
            none.starts_with("t:2: `ciphers` in [account.a]: `AES-512` is not one of \"AES-128-CCM\""),
            "{none}"
        );
    }

    #[test]
    fn endpoints_that_cannot_be_told_apart_are_refused_by_name() {
        let text = format!("[share.a]\nnfs_port = 3000\n{NFS}[share.b]\nnfs_port = 3000\n{NFS}");
        let why = check(&config(&text).unwrap()).unwrap_err().to_string();
        assert_eq!(
            why,
            "[share.a] and [share.b] both use port 3000 of 0.0.0.0 for NFS; give one of them another \
             `nfs_port` or `nfs_listen`"
        );
        let text = format!("[share.a]\nnfs_port = 2049\n{NFS}[share.b]\n{NFS}");
        assert!(check(&config(&text).unwrap()).is_err(), "the server's port");
        let text = format!("[share.a]\nnfs_port = 0\n{NFS}[share.b]\nnfs_port = 0\n{NFS}");
        assert_eq!(check(&config(&text).unwrap()), Ok(()), "any port that is free");
        let text = "[share.a]\npath = \"/x\"\nnfs_port = 3000\n";
        assert!(check(&config(text).unwrap()).unwrap_err().to_string().starts_with("line 3: share `a`"));
        let text = format!("[share.a]\nnfs_max_connections = 3\n{NFS}");
        assert!(
            config(&text).unwrap_err().to_string().contains("in [share.a] applies only to an own endpoint")
        );
    }
}

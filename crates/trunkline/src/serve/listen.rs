//! Binds the ports, and says which setting to change if that fails.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

use net::floating_address::FloatingAddress;
use net::{BindError, InheritedListeners, Listeners};

use crate::config::endpoints::{self, Endpoint, EndpointOwner, STANDARD_PORT as STANDARD_NFS_PORT};
use crate::config::{Config, Origin, Setting, os_error};

/// The port that clients use by default (MS-SMB2 2.1).
const STANDARD_PORT: u16 = 445;
/// The port that is used if the standard one is not allowed.
const OTHER_PORT: u16 = 4450;
/// The NFS port that is used if the standard one is not allowed.
const OTHER_NFS_PORT: u16 = 24_490;
/// How often another free port is tried, if any port will do and the port of the first address is taken on
/// another.
const PORT_ATTEMPTS: usize = 16;

/// The listening sockets for SMB.
#[derive(Debug)]
pub struct BoundListeners {
    /// One socket for each address.
    pub listeners: Listeners,
    /// The addresses, with the port that was bound.
    pub addresses: Vec<SocketAddr>,
    /// The reason why the port is not the standard one.
    pub note: Option<String>,
}

/// A protocol's port.
struct Port {
    /// The port that clients use by default.
    standard: u16,
    /// The port if the standard one is not allowed.
    other: u16,
    /// The port of the configuration.
    asked: Option<u16>,
    /// The option that selects another port.
    option: &'static str,
}

impl BoundListeners {
    /// The port.
    pub fn port(&self) -> u16 {
        self.addresses.first().map_or(0, SocketAddr::port)
    }
}

/// Binds every address of the configuration for SMB, or takes over the inherited socket that listens there.
///
/// # Errors
/// One line with the setting to change.
pub fn bind(config: &Config, inherited: &mut InheritedListeners) -> anyhow::Result<BoundListeners> {
    let asked = config.server.smb_port.as_ref().map(|port| port.value);
    let port = Port { standard: STANDARD_PORT, other: OTHER_PORT, asked, option: "--smb-port" };
    let listen = &config.server.listen;
    let setting = format!("`listen` ({})", config.location(&listen.origin));
    bind_at(
        &ListenAddresses {
            listen: &listen.value,
            is_anywhere: listen.origin == Origin::Default,
            moving: &moving(config),
            setting,
        },
        &port,
        inherited,
    )
}

/// The addresses that come with the virtual server of a node.
fn moving(config: &Config) -> Vec<IpAddr> {
    config.node.addresses.value.iter().map(FloatingAddress::ip).collect()
}

/// The listening sockets for administrators.
#[derive(Debug)]
pub struct AdminBound {
    /// The metrics.
    pub metrics: Option<TcpListener>,
    /// The admin page and its API.
    pub page: Option<TcpListener>,
}

/// Binds the addresses of the metrics and the admin page, if they are set.
///
/// # Errors
/// One line with the setting to change.
pub fn bind_admin(config: &Config) -> anyhow::Result<AdminBound> {
    let bind = |setting: &Option<Setting<SocketAddr>>, what: &str, key: &str| {
        let Some(Setting { value: at, origin }) = setting else { return Ok(None) };
        let location = config.location(origin);
        let bound = TcpListener::bind(at);
        bound
            .map(Some)
            .map_err(|e| anyhow::anyhow!("{what} on {at}: {}; change `{key}` ({location})", os_error(&e)))
    };
    Ok(AdminBound {
        metrics: bind(&config.admin.metrics, "metrics", "metrics")?,
        page: bind(&config.admin.listen, "the admin page", "listen")?,
    })
}

/// The listening sockets for NFS.
#[derive(Debug)]
pub struct NfsBound {
    /// The sockets of all endpoints.
    pub listeners: Listeners,
    /// The endpoints, with the server's first.
    pub endpoints: Vec<BoundEndpoint>,
    /// The reason why the port is not the standard one.
    pub note: Option<String>,
}

/// An endpoint with its bound addresses.
#[derive(Debug, Clone)]
pub struct BoundEndpoint {
    /// The server, the account or the share to which it belongs.
    pub owner: EndpointOwner,
    /// The addresses at which clients find it.
    pub addresses: Vec<SocketAddr>,
    /// Connections of one client at one time.
    pub max_connections: u64,
}

impl BoundEndpoint {
    /// The port.
    pub fn port(&self) -> u16 {
        self.addresses.first().map_or(0, SocketAddr::port)
    }
}

/// Binds the endpoints for NFS, if some share is offered over it. Inherited sockets are taken over, as by
/// [`bind`].
///
/// # Errors
/// One line with the setting to change.
pub fn bind_nfs(config: &Config, inherited: &mut InheritedListeners) -> anyhow::Result<Option<NfsBound>> {
    let mut wanted = endpoints::all(config);
    // Endpoints on all addresses of the host come first. Other endpoints on their port need no socket of
    // their own.
    wanted.sort_by_key(|endpoint| !endpoint.listen.iter().any(IpAddr::is_unspecified));
    let moving = moving(config);
    let mut all: Option<NfsBound> = None;
    for endpoint in wanted {
        let Endpoint { owner, listen, is_anywhere, port: asked, max_connections } = endpoint;
        let taken: Vec<SocketAddr> =
            all.iter().flat_map(|all| &all.endpoints).flat_map(|one| one.addresses.clone()).collect();
        let requested = ListenAddresses {
            listen: &listen,
            is_anywhere,
            moving: &moving,
            setting: endpoints::listen_setting(config, &owner),
        };
        if let Some(addresses) = within(&taken, &requested, asked)? {
            if let Some(all) = &mut all {
                all.endpoints.push(BoundEndpoint { owner, addresses, max_connections });
            }
            continue;
        }
        let option = if owner == EndpointOwner::Server { "--nfs-port" } else { "`nfs_port`" };
        let port = Port { standard: STANDARD_NFS_PORT, other: OTHER_NFS_PORT, asked, option };
        let bound = bind_at(&requested, &port, inherited).map_err(|why| {
            if owner == EndpointOwner::Server { why } else { anyhow::anyhow!("NFS for {owner}: {why}") }
        })?;
        let one = BoundEndpoint { owner, addresses: bound.addresses, max_connections };
        all = Some(match all {
            None => NfsBound { listeners: bound.listeners, endpoints: vec![one], note: bound.note },
            Some(NfsBound { listeners, mut endpoints, note }) => {
                endpoints.push(one);
                NfsBound { listeners: listeners.join(bound.listeners), endpoints, note: note.or(bound.note) }
            }
        });
    }
    if let Some(all) = &mut all {
        all.endpoints.sort_by(|one, other| one.owner.cmp(&other.owner));
    }
    Ok(all)
}

/// The addresses of an endpoint, if sockets that listen on all addresses of the host already receive its
/// connections.
fn within(
    taken: &[SocketAddr],
    requested: &ListenAddresses<'_>,
    asked: Option<u16>,
) -> anyhow::Result<Option<Vec<SocketAddr>>> {
    let mut found = Vec::new();
    for address in requested.listen.iter().filter(|address| !address.is_unspecified()) {
        let same = |any: &&SocketAddr| {
            any.ip().is_unspecified()
                && any.is_ipv4() == address.is_ipv4()
                && asked.map_or_else(
                    || [STANDARD_NFS_PORT, OTHER_NFS_PORT].contains(&any.port()),
                    |port| port == any.port(),
                )
        };
        let Some(any) = taken.iter().find(same) else { return Ok(None) };
        // An address that the host does not have would never receive a connection.
        let own = Listeners::bind_moving(&[SocketAddr::new(*address, 0)], requested.moving);
        own.map_err(|error| told(requested, &error, "`nfs_port`"))?;
        found.push(SocketAddr::new(*address, any.port()));
    }
    Ok((found.len() == requested.listen.len()).then_some(found))
}

/// Addresses to bind.
struct ListenAddresses<'a> {
    listen: &'a [IpAddr],
    /// Whether these addresses are the default.
    is_anywhere: bool,
    /// The addresses that the host gets once it serves (`addresses` of the table `node`).
    moving: &'a [IpAddr],
    /// The setting that defines the addresses, for a message.
    setting: String,
}

fn bind_at(
    requested: &ListenAddresses<'_>,
    port: &Port,
    inherited: &mut InheritedListeners,
) -> anyhow::Result<BoundListeners> {
    let Port { standard, other, asked, option } = *port;
    let told = |error: BindError| told(requested, &error, option);
    let (listeners, note) = match asked {
        Some(port) => (bind_port(requested, port, inherited).map_err(told)?, None),
        None => match bind_port(requested, standard, inherited) {
            Err(error) if error.reason.kind() == io::ErrorKind::PermissionDenied => {
                let note = format!("port {standard} needs root, so port {other} is used; see {option}");
                (bind_port(requested, other, inherited).map_err(told)?, Some(note))
            }
            bound => (bound.map_err(told)?, None),
        },
    };
    Ok(BoundListeners { addresses: listeners.local_addresses(), listeners, note })
}

fn bind_port(
    requested: &ListenAddresses<'_>,
    port: u16,
    inherited: &mut InheritedListeners,
) -> Result<Listeners, BindError> {
    let ListenAddresses { listen, is_anywhere, moving, .. } = *requested;
    // By default, a host without IPv6 is served over IPv4 only.
    if is_anywhere {
        return Listeners::bind_any(port, inherited);
    }
    let mut all = |port| {
        let addresses: Vec<_> = listen.iter().map(|address| SocketAddr::new(*address, port)).collect();
        Listeners::bind_moving_or_take(&addresses, moving, inherited)
    };
    if port != 0 || listen.len() < 2 {
        return all(port);
    }
    let mut attempts = PORT_ATTEMPTS;
    loop {
        attempts -= 1;
        let first = Listeners::bind_moving(&[SocketAddr::new(listen[0], 0)], moving)?;
        let free = first.local_addresses().first().map_or(0, SocketAddr::port);
        drop(first);
        match all(free) {
            Err(error) if error.reason.kind() == io::ErrorKind::AddrInUse && attempts > 0 => {}
            other => return other,
        }
    }
}

/// An error that names the setting to change.
fn told(requested: &ListenAddresses<'_>, error: &BindError, option: &str) -> anyhow::Error {
    let BindError { address, reason } = error;
    match reason.kind() {
        io::ErrorKind::AddrInUse => {
            anyhow::anyhow!(
                "port {} on {} is in use; choose another with {option}",
                address.port(),
                address.ip()
            )
        }
        io::ErrorKind::PermissionDenied => {
            anyhow::anyhow!(
                "port {} is not allowed to this user; choose another with {option}",
                address.port()
            )
        }
        _ => {
            anyhow::anyhow!(
                "cannot listen on {}: {}; change {}",
                address.ip(),
                os_error(reason),
                requested.setting
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use std::path::Path;

    fn config(listen: &[&str], port: u16) -> Config {
        let mut config = read::parse("t", "", Path::new("/")).unwrap();
        let listen = listen.iter().map(|address| address.parse().unwrap()).collect();
        config.server.listen = Setting { value: listen, origin: Origin::CommandLine("--listen") };
        config.server.smb_port = Some(Setting { value: port, origin: Origin::CommandLine("--smb-port") });
        config
    }

    fn bind_new(config: &Config) -> anyhow::Result<BoundListeners> {
        bind(config, &mut InheritedListeners::default())
    }

    #[test]
    fn every_address_has_the_same_port() {
        let bound = bind_new(&config(&["127.0.0.1", "127.0.0.2"], 0)).unwrap();
        assert_ne!(bound.port(), 0);
        assert!(bound.addresses.iter().all(|address| address.port() == bound.port()));
        let taken = bind_new(&config(&["127.0.0.2"], bound.port())).unwrap_err().to_string();
        assert_eq!(
            taken,
            format!("port {} on 127.0.0.2 is in use; choose another with --smb-port", bound.port())
        );
    }

    fn nfs(text: &str) -> Config {
        read::parse("t", text, Path::new("/")).unwrap()
    }

    #[test]
    fn endpoints_of_their_own_have_ports_and_addresses_of_their_own() {
        let offered = "path = \"/x\"\nprotocols = [\"nfs\"]\n";
        let text = format!(
            "[server]\nlisten = [\"127.0.0.1\"]\nnfs_port = 0\n[share.a]\n{offered}[share.b]\nnfs_port = 0\n\
             {offered}\
             [share.c]\nnfs_listen = [\"127.0.0.2\", \"127.0.0.3\"]\n{offered}"
        );
        let bound = bind_nfs(&nfs(&text), &mut InheritedListeners::default()).unwrap().unwrap();
        let ports: Vec<u16> = bound.endpoints.iter().map(BoundEndpoint::port).collect();
        assert!(ports.len() == 3 && !ports.contains(&0) && ports[0] != ports[1], "{ports:?}");
        let ips: Vec<_> = bound.endpoints[2].addresses.iter().map(|at| at.ip().to_string()).collect();
        assert_eq!(ips, ["127.0.0.2", "127.0.0.3"]);
        assert_eq!(bound.listeners.local_addresses().len(), 4);
    }

    #[test]
    fn an_address_needs_no_socket_where_one_takes_what_comes_to_all() {
        let taken =
            [SocketAddr::from(([0, 0, 0, 0], 4000)), SocketAddr::from(([0, 0, 0, 0], STANDARD_NFS_PORT))];
        let at = |address: &str, asked| {
            let listen = [address.parse().unwrap()];
            let requested = ListenAddresses {
                listen: &listen,
                is_anywhere: false,
                moving: &[],
                setting: "`nfs_listen` (t:6)".to_owned(),
            };
            within(&taken, &requested, asked)
        };
        let own = |port| Some(vec![SocketAddr::from(([127, 0, 0, 2], port))]);
        assert_eq!(at("127.0.0.2", Some(4000)).unwrap(), own(4000));
        assert_eq!(at("127.0.0.2", None).unwrap(), own(STANDARD_NFS_PORT), "not somebody's own port");
        assert_eq!(at("127.0.0.2", Some(4001)).unwrap(), None);
        assert_eq!(at("0.0.0.0", Some(4000)).unwrap(), None, "that would be the same");
        let error = at("203.0.113.9", Some(4000)).unwrap_err().to_string();
        assert!(error.contains("203.0.113.9") && error.contains("`nfs_listen` (t:6)"), "{error}");
    }

    #[test]
    fn metrics_have_a_port_of_their_own() {
        let none = bind_admin(&nfs("")).unwrap();
        assert!(none.metrics.is_none() && none.page.is_none());
        let taken = bind_admin(&nfs("[admin]\nmetrics = \"127.0.0.1:0\"\n")).unwrap().metrics.unwrap();
        let at = taken.local_addr().unwrap();
        let again = bind_admin(&nfs(&format!("[admin]\nmetrics = \"{at}\"\n"))).unwrap_err().to_string();
        assert_eq!(again, format!("metrics on {at}: address already in use; change `metrics` (line 2)"));
    }

    #[test]
    fn an_address_of_another_host_is_named() {
        let error = bind_new(&config(&["203.0.113.9"], 0)).unwrap_err().to_string();
        assert!(
            error.contains("cannot listen on 203.0.113.9") && error.contains("`listen` (--listen)"),
            "{error}"
        );
    }
}

//! Finds the KDCs of a realm, which in Active Directory are its domain controllers, and asks which of them
//! answer. All are asked at once, so that a dead one costs nothing beside one that answers.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use super::dns::{self, ServiceHost, ServiceLookup};
use super::kdc::{self, KdcSign};

/// The port of a KDC (RFC 4120 7.2.3).
const KDC_PORT: u16 = 88;

/// The origin of a list of KDCs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KdcSource {
    /// SRV records of the realm's name.
    Dns,
    /// A `kdc =` line of krb5.conf.
    File(PathBuf),
    /// An administrator.
    Named,
    /// None: no name server answered.
    SilentDns,
    /// None: there is no such record.
    NoRecord,
}

/// A KDC and what it said.
#[derive(Debug, Clone)]
pub struct Kdc {
    /// Its host name.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The address that answered, or the first one.
    pub address: Option<SocketAddr>,
    /// Its answer. None if it is silent.
    pub sign: Option<KdcSign>,
}

/// The KDCs of a realm.
#[derive(Debug, Clone)]
pub struct Kdcs {
    /// The origin of the list.
    pub source: KdcSource,
    /// All of them, in the order in which clients try them.
    pub all: Vec<Kdc>,
}

impl Kdcs {
    /// Finds the KDCs of a realm and asks each about `principal`. krb5.conf goes before the DNS, as in MIT's
    /// library.
    pub fn find(realm: &str, principal: &str) -> Kdcs {
        let (source, hosts) = hosts(realm);
        Kdcs::ask(realm, principal, source, &hosts)
    }

    /// Asks one host about `principal`.
    pub fn of_host(realm: &str, principal: &str, host: &str) -> Kdcs {
        Kdcs::ask(realm, principal, KdcSource::Named, host_of(host).as_slice())
    }

    fn ask(realm: &str, principal: &str, source: KdcSource, hosts: &[ServiceHost]) -> Kdcs {
        let ask = |host: &ServiceHost| {
            let addresses: Vec<SocketAddr> =
                (host.host.as_str(), host.port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
            let answer = addresses.iter().find_map(|at| Some((*at, kdc::ask(*at, realm, principal)?)));
            Kdc {
                host: host.host.clone(),
                port: host.port,
                address: answer.map(|(at, _)| at).or(addresses.first().copied()),
                sign: answer.map(|(_, sign)| sign),
            }
        };
        let ask = &ask;
        let all = std::thread::scope(|scope| {
            let asked: Vec<_> = hosts.iter().map(|host| scope.spawn(move || ask(host))).collect();
            asked.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        Kdcs { source, all }
    }

    /// The first one that answers.
    pub fn answering(&self) -> Option<(&Kdc, KdcSign)> {
        self.all.iter().find_map(|kdc| Some((kdc, kdc.sign?)))
    }

    /// The ports of the KDCs, such as `port 88`.
    pub fn ports(&self) -> String {
        let mut ports: Vec<u16> = self.all.iter().map(|kdc| kdc.port).collect();
        ports.sort_unstable();
        ports.dedup();
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        format!("port {}", if ports.is_empty() { KDC_PORT.to_string() } else { ports.join(" or ") })
    }

    /// The hosts that do not answer.
    pub fn silent(&self) -> Vec<&str> {
        self.all.iter().filter(|kdc| kdc.sign.is_none()).map(|kdc| kdc.host.as_str()).collect()
    }
}

/// The host's krb5.conf.
pub fn krb5_conf() -> OsString {
    std::env::var_os("KRB5_CONFIG").filter(|set| !set.is_empty()).unwrap_or_else(|| "/etc/krb5.conf".into())
}

fn hosts(realm: &str) -> (KdcSource, Vec<ServiceHost>) {
    for path in std::env::split_paths(&krb5_conf()) {
        let hosts = kdcs_of(&std::fs::read_to_string(&path).unwrap_or_default(), realm);
        if !hosts.is_empty() {
            return (KdcSource::File(path), hosts);
        }
    }
    let servers = dns::name_servers();
    let name = |transport: &str| format!("_kerberos.{transport}.{}", realm.to_lowercase());
    match dns::services(&name("_udp"), &servers) {
        ServiceLookup::Silent => (KdcSource::SilentDns, Vec::new()),
        ServiceLookup::Answered(hosts) if !hosts.is_empty() => (KdcSource::Dns, hosts),
        ServiceLookup::Answered(_) => match dns::services(&name("_tcp"), &servers) {
            ServiceLookup::Answered(hosts) if !hosts.is_empty() => (KdcSource::Dns, hosts),
            _ => (KdcSource::NoRecord, Vec::new()),
        },
    }
}

/// The record that the domain controllers of a realm register (MS-ADTS 6.3.2.3).
fn controllers_of(realm: &str) -> ServiceLookup {
    let name = format!("_ldap._tcp.dc._msdcs.{}", realm.to_lowercase());
    dns::services(&name, &dns::name_servers())
}

/// The host name of the domain controller with this address.
pub fn name_of(realm: &str, address: IpAddr) -> Option<String> {
    let ServiceLookup::Answered(hosts) = controllers_of(realm) else { return None };
    let has = |host: &&ServiceHost| {
        let found = (host.host.as_str(), host.port).to_socket_addrs();
        found.is_ok_and(|mut found| found.any(|at| at.ip() == address))
    };
    hosts.iter().find(has).map(|host| host.host.clone())
}

/// Whether the realm is an Active Directory, by the record of its domain controllers.
pub fn is_active_directory(realm: &str) -> bool {
    matches!(controllers_of(realm), ServiceLookup::Answered(hosts) if !hosts.is_empty())
}

/// The `kdc` values of a realm in a krb5.conf.
fn kdcs_of(text: &str, realm: &str) -> Vec<ServiceHost> {
    let (mut is_realms, mut is_realm) = (false, false);
    let mut found = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if line.starts_with('[') {
            (is_realms, is_realm) = (line.starts_with("[realms]"), false);
        } else if line.starts_with('}') {
            is_realm = false;
        } else if let Some((key, value)) = line.split_once('=').map(|(key, value)| (key.trim(), value.trim()))
        {
            if is_realms && value.starts_with('{') {
                is_realm = key == realm;
            } else if is_realm && key == "kdc" {
                found.extend(host_of(value));
            }
        }
    }
    found
}

/// `HOST`, `HOST:PORT`, `[ADDRESS]:PORT` or an address.
fn host_of(value: &str) -> Option<ServiceHost> {
    let value = value.split_whitespace().next()?;
    let value = value.strip_prefix("tcp/").or(value.strip_prefix("udp/")).unwrap_or(value);
    let (host, port) = match value.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port.parse().ok()?),
        _ => (value, KDC_PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_owned();
    Some(ServiceHost { priority: 0, weight: 0, port, host })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kdc_at_another_port_is_asked_there_and_told_so() {
        let listener = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = std::thread::spawn(move || {
            let (_, from) = listener.recv_from(&mut [0; 1024]).unwrap();
            // It is no KDC.
            listener.send_to(b"x", from).unwrap();
        });
        let kdcs = Kdcs::of_host("R.EXAMPLE", "host", &format!("127.0.0.1:{port}"));
        asked.join().unwrap();
        assert_eq!((kdcs.silent(), kdcs.ports()), (vec!["127.0.0.1"], format!("port {port}")));
    }

    #[test]
    fn the_kdcs_of_one_realm_are_read() {
        let text = "[libdefaults]\n kdc = no\n[realms]\n A.EXAMPLE = {\n  kdc = a\n }\n # kdc = c\n \
                    B.EXAMPLE = {\n  \
                    kdc = kdc1.b.example.:750\n  admin_server = x\n  kdc = [2001:db8::1]:88\n  \
                    kdc = 2001:db8::2\n }\n\
                    [domain_realm]\n kdc = no\n";
        let found = kdcs_of(text, "B.EXAMPLE");
        let found: Vec<_> = found.iter().map(|host| (host.host.as_str(), host.port)).collect();
        assert_eq!(found, [("kdc1.b.example", 750), ("2001:db8::1", 88), ("2001:db8::2", 88)]);
        assert!(kdcs_of(text, "C.EXAMPLE").is_empty());
    }
}

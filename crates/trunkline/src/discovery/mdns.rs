//! mDNS and DNS-SD (RFC 6762, 6763): `_smb._tcp` with the port, so that Finder and avahi list the server, and
//! `_device-info._tcp`, from which Finder takes the picture. The crate `mdns-sd` implements probing,
//! announcing, answering and the goodbye.

use std::time::Duration;

use mdns_sd::{IfKind, ServiceDaemon, ServiceInfo};

use super::Announcement;

const SMB: &str = "_smb._tcp.local.";
const DEVICE_INFO: &str = "_device-info._tcp.local.";
/// A model that Finder shows as a server.
const MODEL: &str = "Xserve";
/// The time that a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);
/// Longest label of a DNS name (RFC 1035 2.3.4).
const MAX_LABEL: usize = 63;

/// The registered services.
pub struct Mdns {
    daemon: ServiceDaemon,
    names: Vec<String>,
}

impl Mdns {
    /// Starts to probe for the name, and announces it afterwards.
    pub fn start(announcement: &Announcement) -> Result<Mdns, mdns_sd::Error> {
        let daemon = ServiceDaemon::new()?;
        let any = announcement.addresses.iter().any(|address| address.ip().is_unspecified());
        if any {
            daemon.disable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6])?;
        } else {
            daemon.disable_interface(IfKind::All)?;
            let own = announcement.addresses.iter().map(|address| IfKind::Addr(address.ip()));
            daemon.enable_interface(own.collect::<Vec<_>>())?;
        }
        let mut names = Vec::new();
        for info in services(announcement)? {
            names.push(info.get_fullname().to_owned());
            daemon.register(info)?;
        }
        Ok(Mdns { daemon, names })
    }

    /// Says goodbye and stops.
    pub fn end(self) {
        for name in &self.names {
            let told = self.daemon.unregister(name).map(|done| done.recv_timeout(GOODBYE));
            if !matches!(told, Ok(Ok(_))) {
                tracing::debug!(%name, "no mDNS goodbye");
            }
        }
        if let Ok(ended) = self.daemon.shutdown() {
            // The process does not wait longer for it.
            let _ = ended.recv_timeout(GOODBYE);
        }
    }
}

fn services(announcement: &Announcement) -> Result<[ServiceInfo; 2], mdns_sd::Error> {
    let name = label(&announcement.name);
    let host = format!("{}.local.", host_label(&announcement.netbios_name));
    let service = |kind: &str, port: u16, txt: &[(&str, &str)]| {
        let any = announcement.addresses.iter().any(|address| address.ip().is_unspecified());
        let own: Vec<_> = announcement.addresses.iter().map(|address| address.ip()).collect();
        if any {
            ServiceInfo::new(kind, name, &host, (), port, txt).map(ServiceInfo::enable_addr_auto)
        } else {
            ServiceInfo::new(kind, name, &host, &own[..], port, txt)
        }
    };
    Ok([service(SMB, announcement.port(), &[])?, service(DEVICE_INFO, 0, &[("model", MODEL)])?])
}

/// The longest prefix of `name` that fits into a label.
fn label(name: &str) -> &str {
    let mut end = name.len().min(MAX_LABEL);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// A host name's label: letters, digits and dashes.
fn host_label(netbios_name: &str) -> String {
    let label: String = netbios_name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let label = label.trim_matches('-');
    if label.is_empty() { "trunkline".to_owned() } else { label.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_services_carry_the_name_and_the_port() {
        let announcement = Announcement {
            name: "Files of Ann".to_owned(),
            netbios_name: "FILES_1".to_owned(),
            workgroup: "W".to_owned(),
            guid: [0; 16],
            addresses: vec!["192.0.2.7:4450".parse().unwrap()],
        };
        let [smb, device] = services(&announcement).unwrap();
        assert_eq!(smb.get_fullname(), "Files of Ann._smb._tcp.local.");
        assert_eq!((smb.get_port(), smb.get_hostname()), (4450, "files-1.local."));
        assert_eq!(device.get_property_val_str("model"), Some(MODEL));
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let name = "ü".repeat(40);
        assert_eq!(label(&name).len(), 62);
        assert_eq!(host_label("___"), "trunkline");
    }
}

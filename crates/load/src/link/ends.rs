//! The two ends of the path. One is a device on the side of the servers. The other is in a network
//! namespace, in which the command runs and which has no other connection.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;

use net::tun::Tun;

use crate::Error;

/// The most links at once on one machine. Each has a network of its own out of 198.18.0.0/16, which is
/// reserved for network measurements (RFC 2544 C.2.2).
const MAX_LINKS: u8 = 255;

/// The devices at both ends.
#[derive(Debug)]
pub(super) struct LinkDevices {
    namespace: Namespace,
    number: u8,
    /// The device on the side of the servers.
    pub(super) far: Tun,
    /// The device on the side of the command.
    pub(super) near: Tun,
}

/// A network namespace. It is removed when it is dropped.
#[derive(Debug)]
struct Namespace(String);

impl Namespace {
    fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.0)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(why) = ip(&["netns", "del", &self.0]) {
            eprintln!("trunkline link: {why}; remove it with: ip netns del {}", self.0);
        }
    }
}

impl LinkDevices {
    /// Creates both devices, with packets of at most `mtu` bytes. If a congestion control is given, TCP
    /// uses it on both ends.
    pub(super) fn make(mtu: u16, congestion_control: Option<&str>) -> Result<LinkDevices, Error> {
        let (number, namespace) = LinkDevices::namespace()?;
        let [far_name, near_name] = [format!("tl{number}-far"), format!("tl{number}-near")];
        let make = |name: &str| {
            Tun::make(name).map_err(|why| Error::host(format!("make the network device {name}"), why))
        };
        let ends = LinkDevices { far: make(&far_name)?, near: make(&near_name)?, number, namespace };
        let (name, mtu) = (ends.namespace.0.as_str(), mtu.to_string());
        // No packet is lost here, even if one waits for every other packet on the line.
        let size = ["mtu", &mtu, "txqueuelen", "10000", "up"];
        ip(&["link", "set", &near_name, "netns", name])?;
        ip(&["address", "add", &format!("{}/30", ends.host()), "dev", &far_name])?;
        ip(&[&["link", "set", &far_name], &size[..]].concat())?;
        ip(&["-n", name, "address", "add", &format!("{}/30", ends.address(2)), "dev", &near_name])?;
        ip(&[&["-n", name, "link", "set", &near_name], &size[..]].concat())?;
        ip(&["-n", name, "link", "set", "lo", "up"])?;
        // The other addresses of this machine are behind the path too.
        ip(&["-n", name, "route", "add", "default", "dev", &near_name])?;
        if let Some(control) = congestion_control {
            let net = format!("{}/30", ends.address(0));
            let [here, there] = [ends.address(1), ends.address(2)].map(|address| address.to_string());
            let routed = ["scope", "link", "congctl", control, "src"];
            ip(&[&["route", "replace", &net, "dev", &far_name], &routed[..], &[&here]].concat())?;
            let near = ["-n", name, "route", "replace"];
            ip(&[&near[..], &[&net, "dev", &near_name], &routed, &[&there]].concat())?;
            ip(&[&near[..], &["default", "dev", &near_name, "congctl", control]].concat())?;
        }
        Ok(ends)
    }

    /// The first number without an existing link.
    fn namespace() -> Result<(u8, Namespace), Error> {
        for number in 0..MAX_LINKS {
            let namespace = format!("trunkline-link-{number}");
            if PathBuf::from("/run/netns").join(&namespace).exists() {
                continue;
            }
            match ip(&["netns", "add", &namespace]) {
                Ok(()) => return Ok((number, Namespace(namespace))),
                // Another process was faster.
                Err(Error::Host { why, .. }) if why.contains("File exists") => {}
                Err(why) => return Err(why),
            }
        }
        Err(Error::Usage(format!(
            "{MAX_LINKS} links exist already; remove unused ones with: ip netns del trunkline-link-N"
        )))
    }

    fn address(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.number, host)
    }

    /// The address at which the command reaches this machine.
    pub(super) fn host(&self) -> IpAddr {
        self.address(1).into()
    }

    /// Moves the calling thread, and the processes that it starts, into the namespace of the command.
    pub(super) fn enter(&self) -> Result<(), Error> {
        let failed = |why: std::io::Error| {
            Error::host(format!("enter the network namespace {}", self.namespace.0), why)
        };
        let namespace = File::open(self.namespace.path()).map_err(failed)?;
        let kind = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), kind)
            .map_err(|why| failed(why.into()))
    }

    /// Packets that the host itself dropped because the forwarder was too slow.
    pub(super) fn missed(&self) -> u64 {
        let number = self.number;
        let far = ip_output(&["-s", "-j", "link", "show", "dev", &format!("tl{number}-far")]);
        let near = ip_output(&[
            "-n",
            &self.namespace.0,
            "-s",
            "-j",
            "link",
            "show",
            "dev",
            &format!("tl{number}-near"),
        ]);
        [far, near].into_iter().flatten().filter_map(|text| dropped(&text)).sum()
    }
}

/// `tx.dropped` of the only device.
fn dropped(text: &str) -> Option<u64> {
    let devices: serde_json::Value = serde_json::from_str(text).ok()?;
    devices.pointer("/0/stats64/tx/dropped")?.as_u64()
}

fn ip(arguments: &[&str]) -> Result<(), Error> {
    ip_output(arguments).map(drop)
}

/// Runs iproute2.
fn ip_output(arguments: &[&str]) -> Result<String, Error> {
    let doing = || format!("ip {}", arguments.join(" "));
    let done = Command::new("ip")
        .args(arguments)
        .output()
        .map_err(|why| Error::host(doing(), format!("{why} (trunkline link needs the package iproute2)")))?;
    if !done.status.success() {
        return Err(Error::host(doing(), String::from_utf8_lossy(&done.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::dropped;

    #[test]
    fn what_a_device_dropped_is_found() {
        let text = r#"[{"ifname":"tl0-far","stats64":{"rx":{"dropped":1},"tx":{"bytes":9,"dropped":7}}}]"#;
        assert_eq!(dropped(text), Some(7));
        assert_eq!(dropped("[]"), None);
    }
}

//! An address that moves between machines with the virtual server that is reached at it.
//!
//! [`FloatingAddress`] has an address and its prefix. A machine that takes the virtual server over calls
//! [`is_taken`](FloatingAddress::is_taken) or [`first_taken`], [`add`](FloatingAddress::add) and
//! [`announce`](FloatingAddress::announce). Once it serves, it calls [`tickle`](tickle()) with the
//! connections that the last owner has recorded ([`read_record`]). Their clients then connect again at once,
//! not after their retransmissions. A machine that gives the virtual server up calls
//! [`remove`](FloatingAddress::remove) before it closes its connections. No client hears of that end, so each
//! waits for the new owner.
//!
//! - `frames` builds and parses the frames of ARP and neighbour discovery, and `segments` the packets of TCP.
//!   `checksum` is common to both. They are pure functions.
//! - `rtnetlink` has the requests to the kernel about addresses, and `stale_connections` those about
//!   connections that an earlier stay of the address has left.
//! - `packet_socket` sends and receives frames on one interface.
//! - `detect`, `announce` and `tickle` use them. `choose` finds the interface.
//! - `record` is the file with the connections, and `recorder` keeps it up to date.
//!
//! Each call blocks, and belongs to the network namespace of its thread.

mod announce;
mod checksum;
mod choose;
mod detect;
mod error;
mod frames;
mod packet_socket;
mod record;
mod recorder;
mod rtnetlink;
mod segments;
mod stale_connections;
mod tickle;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::{Duration, Instant};

pub use detect::first_taken;
pub use error::FloatingAddressError;
pub use record::{MOST_RECORDED, RECORD_NAME, read_record, write_record};
pub use recorder::ConnectionRecorder;
pub use tickle::tickle;

use crate::interfaces::messages::{Address, Link};
use error::Result;

/// The most time for which an address may be there before the kernel delivers what comes to it.
const DELIVERED_WITHIN: Duration = Duration::from_millis(250);

/// The hardware address of an Ethernet interface (its MAC address).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HardwareAddress(pub [u8; 6]);

impl fmt::Display for HardwareAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for HardwareAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An address that moves between machines, with its prefix and the interface that gets it.
///
/// It is written as `10.77.0.50/24%eth0` or `fd00::50/64`. Without an interface it goes to the one that has
/// another address of the same network.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FloatingAddress {
    address: IpAddr,
    prefix: u8,
    interface: Option<String>,
}

impl fmt::Display for FloatingAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)?;
        self.interface.as_ref().map_or(Ok(()), |interface| write!(f, "%{interface}"))
    }
}

impl FromStr for FloatingAddress {
    type Err = FloatingAddressError;

    fn from_str(text: &str) -> Result<FloatingAddress> {
        parse(text).map_err(|reason| FloatingAddressError::Unreadable { text: text.to_owned(), reason })
    }
}

/// Reads an address, or says why it is none.
fn parse(text: &str) -> std::result::Result<FloatingAddress, &'static str> {
    let (network, interface) = match text.split_once('%') {
        Some((network, interface)) => (network, Some(interface)),
        None => (text, None),
    };
    let (address, prefix) = network.split_once('/').ok_or("the length of the prefix is missing")?;
    let address: IpAddr = address.parse().map_err(|_| "the address cannot be read")?;
    let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
    let prefix: u8 = prefix.parse().ok().filter(|_| is_number).ok_or("the prefix is no number of bits")?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    if prefix == 0 || prefix > bits {
        return Err(if bits == 32 {
            "the prefix of an IPv4 address has 1 to 32 bits"
        } else {
            "the prefix of an IPv6 address has 1 to 128 bits"
        });
    }
    if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
        return Err("it is no address of one host on a network");
    }
    if address.to_canonical() != address {
        return Err("it is an IPv4 address in the form of IPv6");
    }
    if let IpAddr::V4(four) = address {
        let host = four.to_bits() & u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
        let all = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
        if four.is_broadcast() || (prefix < 31 && (host == 0 || host == all)) {
            return Err("it is the address of the network itself, or of all its hosts");
        }
    }
    // The kernel's names have at most 15 bytes.
    let is_name = |name: &str| {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b':' && byte != b'%';
        (1..=15).contains(&name.len()) && name.bytes().all(is_plain) && name != "." && name != ".."
    };
    if interface.is_some_and(|name| !is_name(name)) {
        return Err("what follows % is no name of an interface");
    }
    Ok(FloatingAddress { address, prefix, interface: interface.map(str::to_owned) })
}

impl FloatingAddress {
    /// The address without its prefix.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.address
    }

    /// Looks for another host that has the address, for at most `within`; 200 ms suit a local network.
    /// Returns the hardware address of that host. The call sends three ARP probes (RFC 5227 2.1.1) or
    /// solicitations of duplicate address detection (RFC 4862 5.4.2), and ends with the first reply. A host
    /// that probes for the same address at the same time counts as well. The RFCs wait for seconds, which a
    /// take-over cannot, so a host that replies later is not found.
    ///
    /// None for an interface without address resolution, where no host can be asked.
    ///
    /// # Errors
    /// There is no such interface, it is down, or this process may not send frames (CAP_NET_RAW).
    pub fn is_taken(&self, within: Duration) -> Result<Option<HardwareAddress>> {
        detect::claimant(self, &self.link()?, within)
    }

    /// Refuses an address that this host has for itself. `was_added` says that an earlier process of this
    /// virtual server may have left it here. Such an address has a lifetime ([`add`](FloatingAddress::add)),
    /// so a permanent one is never taken for it.
    ///
    /// # Errors
    /// [`FloatingAddressError::OfThisHost`], or the host's error.
    pub fn check_host(&self, was_added: bool) -> Result<()> {
        let failed = |reason| FloatingAddressError::host("read the addresses of this host", "", reason);
        let having = self.having().map_err(failed)?;
        match having.iter().find(|have| have.permanent || !was_added) {
            None => Ok(()),
            Some(own) => Err(self.of_this_host(own).map_err(failed)?),
        }
    }

    fn of_this_host(&self, own: &Address) -> std::io::Result<FloatingAddressError> {
        let interface = rtnetlink::name_of(own.if_index)?;
        Ok(FloatingAddressError::OfThisHost { address: self.address, prefix: own.prefix, interface })
    }

    /// Gives the address to the interface, for `lifetime` from now. Returns false if the interface has it
    /// already; it then gets this lifetime. The kernel does not look for duplicates itself (IFA_F_NODAD), so
    /// the address can be used when this returns. An IPv6 address is deprecated (RFC 4862 5.5.4) from the
    /// start, so this host does not use it for connections of its own.
    ///
    /// The lifetime is that of [`keep_for`](FloatingAddress::keep_for). It tells the address from one that
    /// the host has for itself.
    ///
    /// Connections that an earlier stay of the address has left behind are ended, since they would reply to
    /// clients in place of a reset.
    ///
    /// # Errors
    /// There is no such interface, this host has the address for itself or on another interface, or this
    /// process may not administer the network (CAP_NET_ADMIN).
    pub fn add(&self, lifetime: Duration) -> Result<bool> {
        let doing = || format!("add the address {self}");
        let failed = |reason| FloatingAddressError::host(doing(), "CAP_NET_ADMIN", reason);
        let link = self.link()?;
        let having = self.having().map_err(failed)?;
        if let Some(own) = having.iter().find(|have| have.permanent) {
            return Err(self.of_this_host(own).map_err(failed)?);
        }
        if having.iter().any(|have| have.if_index == link.if_index) {
            rtnetlink::lift_silence(self.address).map_err(failed)?;
            self.keep_for(lifetime)?;
            return Ok(false);
        }
        if let Some(other) = having.first() {
            let interface = rtnetlink::name_of(other.if_index).map_err(failed)?;
            return Err(FloatingAddressError::Elsewhere { address: self.address, interface });
        }
        stale_connections::end(self.address).map_err(failed)?;
        rtnetlink::lift_silence(self.address).map_err(failed)?;
        match rtnetlink::add_address(link.if_index, self.address, self.prefix, whole_seconds(lifetime)) {
            Ok(()) => {
                self.wait_until_delivered(link.if_index);
                Ok(true)
            }
            Err(reason) if reason.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(reason) if rtnetlink::is_ipv6_off(&reason, self.address) => {
                Err(FloatingAddressError::WithoutIpv6 { interface: link.name })
            }
            Err(reason) => Err(failed(reason)),
        }
    }

    /// Lets the kernel remove the address after `lifetime` from now, in whole seconds. An owner that is
    /// killed then leaves no address behind. The owner calls this again as long as it lives. Returns false if
    /// the address is not here any more.
    ///
    /// # Errors
    /// This process may not administer the network (CAP_NET_ADMIN).
    pub fn keep_for(&self, lifetime: Duration) -> Result<bool> {
        let doing = || format!("prolong the address {self}");
        let failed = |reason| FloatingAddressError::host(doing(), "CAP_NET_ADMIN", reason);
        let having = self.having().map_err(failed)?;
        let Some(have) = having.first() else { return Ok(false) };
        let seconds = whole_seconds(lifetime);
        rtnetlink::limit_address(have.if_index, self.address, have.prefix, seconds).map_err(failed)?;
        Ok(true)
    }

    /// Takes the address away from this host. Returns false if the host does not have it, or has it for
    /// itself: a permanent one stays. Without an interface in its text it is taken from whichever interface
    /// has it.
    ///
    /// From then on this host sends nothing from the address, so connections may be closed without their
    /// clients hearing of it. The kernel sees to that for IPv4. It goes on sending from an IPv6 address that
    /// is gone, including data, FIN and RST. A routing rule (ip-rule(8)) therefore drops what this host sends
    /// from there. It stays until [`add`](FloatingAddress::add) or the next start of the host.
    ///
    /// # Errors
    /// This process may not administer the network (CAP_NET_ADMIN), or the kernel refuses for another reason.
    pub fn remove(&self) -> Result<bool> {
        let doing = || format!("remove the address {self}");
        let failed = |reason| FloatingAddressError::host(doing(), "CAP_NET_ADMIN", reason);
        let mut having = self.having().map_err(failed)?;
        having.retain(|have| !have.permanent);
        if let Some(name) = &self.interface {
            let links = rtnetlink::links().map_err(failed)?;
            let named = links.iter().find(|link| link.name == *name).map(|link| link.if_index);
            having.retain(|have| Some(have.if_index) == named);
        }
        if having.is_empty() {
            return Ok(false);
        }
        match self.address {
            IpAddr::V6(_) => rtnetlink::silence(self.address).map_err(failed)?,
            IpAddr::V4(_) => {
                for have in &having {
                    rtnetlink::keep_secondaries(have.if_index).map_err(failed)?;
                }
            }
        }
        let mut is_removed = false;
        for have in having {
            is_removed |= rtnetlink::remove_address(have.if_index, have.address, have.prefix)
                .inspect_err(|_| self.unsilence())
                .map_err(failed)?;
        }
        Ok(is_removed)
    }

    /// Tells all hosts of the network that the address is here now. It sends ARP announcements as requests
    /// and replies (RFC 5227 2.3), or unsolicited neighbour advertisements with the override flag (RFC 4861
    /// 7.2.6): at once, and by a thread after 0.1, 1 and 2 s, while the interface still has the address. RFC
    /// 4861 allows three, a second apart. The one after 0.1 s comes on top of them: clients wait for it if
    /// the first was lost.
    ///
    /// # Errors
    /// There is no such interface, it is down, or this process may not send frames (CAP_NET_RAW).
    pub fn announce(&self) -> Result<()> {
        announce::announce(self, &self.link()?)
    }

    /// The interface for the address.
    fn link(&self) -> Result<Link> {
        let failed = |reason| FloatingAddressError::host("read the interfaces of this host", "", reason);
        let links = rtnetlink::links().map_err(failed)?;
        choose::choose(self, links, &rtnetlink::addresses().map_err(failed)?)
    }

    /// The interfaces of this host that have the address.
    fn having(&self) -> std::io::Result<Vec<Address>> {
        let mut addresses = rtnetlink::addresses()?;
        addresses.retain(|have| have.address == self.address);
        Ok(addresses)
    }

    /// Waits until what comes to the address reaches this host. A thread of the kernel makes the route for an
    /// IPv6 address, which took up to 30 ms on a busy host. Packets until then are lost, and a client that
    /// heard an announcement tries its connection again only after a second.
    fn wait_until_delivered(&self, if_index: u32) {
        let until = Instant::now() + DELIVERED_WITHIN;
        while !rtnetlink::is_delivered(if_index, self.address).unwrap_or(false) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets the address be sent from again, after it could not be removed.
    fn unsilence(&self) {
        if let Err(error) = rtnetlink::lift_silence(self.address) {
            tracing::warn!(address = %self, %error, "nothing is sent from the address, which is still here");
        }
    }
}

/// A lifetime in whole seconds, as the kernel counts them: at least one, and never without an end.
fn whole_seconds(lifetime: Duration) -> u32 {
    u32::try_from(lifetime.as_millis().div_ceil(1000)).unwrap_or(u32::MAX).clamp(1, u32::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_always_has_an_end() {
        let seconds = [Duration::ZERO, Duration::from_millis(4001), Duration::MAX].map(whole_seconds);
        assert_eq!(seconds, [1, 5, u32::MAX - 1]);
    }

    #[test]
    fn an_address_is_written_with_its_prefix_and_may_name_its_interface() {
        for text in
            ["10.77.0.50/24%eth0", "10.77.0.50/32", "fd00::50/64", "fe80::50/64%br-lan.7", "10.0.0.0/31"]
        {
            assert_eq!(text.parse::<FloatingAddress>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn what_cannot_move_is_refused_and_the_message_shows_what_can() {
        let nothing = [
            "",
            "/",
            "%",
            "10.77.0.50",
            "10.77.0.50/",
            "10.77.0.50/+24",
            "10.77.0.50/0",
            "10.77.0.50/33",
            "10.77.0.50/256",
            "fd00::50/129",
            "fd00::50",
            "10.77.0.50/24%",
            "10.77.0.50/24%eth0/1",
            "10.77.0.50/24%sixteen-letters-",
            "10.77.0.50/24%..",
            "10.77.0.50%eth0/24",
            "127.0.0.1/8",
            "::1/128",
            "0.0.0.0/8",
            "::/64",
            "224.0.0.1/4",
            "ff02::1/64",
            "255.255.255.255/32",
            "::ffff:10.0.0.1/120",
            "10.77.0.0/24",
            "10.77.0.255/24",
            "nas/24",
        ];
        for text in nothing {
            let refused = text.parse::<FloatingAddress>().expect_err(text);
            assert!(refused.to_string().contains("10.77.0.50/24%eth0"), "{refused}");
        }
    }

    #[test]
    fn a_hardware_address_is_written_as_the_tools_of_the_host_write_it() {
        assert_eq!(HardwareAddress([2, 0xab, 0, 1, 0xff, 9]).to_string(), "02:ab:00:01:ff:09");
    }
}

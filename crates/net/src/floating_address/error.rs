//! The reasons for which an address cannot be moved.

use std::io;
use std::net::IpAddr;

pub(super) type Result<T> = std::result::Result<T, FloatingAddressError>;

/// An address could not be moved, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum FloatingAddressError {
    /// The text names no address that can move.
    #[error(
        "{text:?} is no address that can move: {reason}; write it as 10.77.0.50/24%eth0, or as \
         fd00::50/64 for the interface with an address in that network"
    )]
    Unreadable {
        /// The text.
        text: String,
        /// The fault in it.
        reason: &'static str,
    },
    /// No interface has an address in the same network.
    #[error(
        "no interface of this host has an address in the network of {address}; write {address}%INTERFACE"
    )]
    NoInterface {
        /// The address with its prefix.
        address: String,
    },
    /// Several interfaces have addresses in the same network.
    #[error(
        "{first} and {second} both have an address in the network of {address}; write {address}%{first} or \
         {address}%{second}"
    )]
    Ambiguous {
        /// The address with its prefix.
        address: String,
        /// The first of the interfaces.
        first: String,
        /// The second of the interfaces.
        second: String,
    },
    /// The named interface does not exist.
    #[error("this host has no interface {name}, which {address} names; see: ip link")]
    NoSuchInterface {
        /// The address as it is written.
        address: String,
        /// The interface.
        name: String,
    },
    /// The interface is switched off or has no carrier.
    #[error(
        "the interface {interface} is down, so {address} cannot be reached there; check the cable, or \
         switch it on: ip link set {interface} up"
    )]
    Down {
        /// The address.
        address: IpAddr,
        /// The interface.
        interface: String,
    },
    /// IPv6 is switched off on the interface.
    #[error(
        "IPv6 is switched off on {interface}; switch it on: sysctl net.ipv6.conf.{interface}.disable_ipv6=0"
    )]
    WithoutIpv6 {
        /// The interface.
        interface: String,
    },
    /// Another interface of this host has the address.
    #[error(
        "{interface} of this host has {address} already; name that interface, or remove the address from it: \
         ip address show to {address}"
    )]
    Elsewhere {
        /// The address.
        address: IpAddr,
        /// The interface that has it.
        interface: String,
    },
    /// This host has the address for itself.
    #[error(
        "{interface} of this host has {address} already, and no earlier process of this node has brought it \
         up; take it out of `addresses` in [node] if it is the machine's own address, or remove it from the \
         machine (its network settings, and ip address delete {address}/{prefix} dev {interface})"
    )]
    OfThisHost {
        /// The address.
        address: IpAddr,
        /// The length of its prefix.
        prefix: u8,
        /// The interface that has it.
        interface: String,
    },
    /// The process lacks a privilege.
    #[error(
        "cannot {doing}: this needs {capability}; run as root, or add {capability} to AmbientCapabilities= \
         and CapabilityBoundingSet= of the systemd unit"
    )]
    NotPermitted {
        /// The action that failed.
        doing: String,
        /// The capability (capabilities(7)).
        capability: &'static str,
    },
    /// The host refuses for another reason.
    #[error("cannot {doing}: {reason}")]
    Host {
        /// The action that failed.
        doing: String,
        /// The host's error.
        #[source]
        reason: io::Error,
    },
}

impl FloatingAddressError {
    /// The host's error while `doing` something that takes a capability.
    pub(super) fn host(
        doing: impl Into<String>,
        capability: &'static str,
        reason: io::Error,
    ) -> FloatingAddressError {
        let doing = doing.into();
        let eperm = Some(rustix::io::Errno::PERM.raw_os_error());
        if reason.raw_os_error() == eperm && !capability.is_empty() {
            return FloatingAddressError::NotPermitted { doing, capability };
        }
        FloatingAddressError::Host { doing, reason }
    }
}

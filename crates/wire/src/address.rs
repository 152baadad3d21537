//! The host that an address stands for, where clients are counted.

use std::net::IpAddr;

/// The host of an address. One host may have all addresses of an IPv6 network of 64 bits.
#[must_use]
pub fn host(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        v4 => v4,
    }
}

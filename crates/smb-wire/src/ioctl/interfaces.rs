//! NETWORK_INTERFACE_INFO: the addresses for further channels of a client (MS-SMB2 2.2.32.5).

use crate::macros::wire_flags;
use crate::malformed::Malformed;
use crate::reader::FieldReader;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::Writer;

/// The size of one entry in bytes. It is also the distance between entries, since it is a multiple of eight.
pub const SIZE: usize = 152;

const STRUCTURE: &str = "NETWORK_INTERFACE_INFO";
const FAMILY_INTERNETWORK: u16 = 0x0002;
const FAMILY_INTERNETWORK_V6: u16 = 0x0017;

wire_flags! {
    /// The capabilities of an interface (MS-SMB2 2.2.32.5).
    pub struct InterfaceCapability: u32 {
        RSS_CAPABLE = 0x0000_0001,
        RDMA_CAPABLE = 0x0000_0002,
    }
}

/// One address of one interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkInterfaceInfo {
    /// The index of the interface on its host.
    pub if_index: u32,
    /// Its capabilities.
    pub capability: InterfaceCapability,
    /// Its speed, in bits per second.
    pub link_speed: u64,
    /// The address. There is no port: channels use the port of the connection that sent the query.
    pub address: IpAddr,
}

impl NetworkInterfaceInfo {
    fn write(&self, w: &mut Writer<'_>, last: bool) {
        w.u32_le(if last { 0 } else { SIZE as u32 });
        w.u32_le(self.if_index);
        w.u32_le(self.capability.bits());
        w.u32_le(0);
        w.u64_le(self.link_speed);
        let start = w.position();
        match self.address {
            IpAddr::V4(address) => {
                w.u16_le(FAMILY_INTERNETWORK);
                w.zeros(2);
                w.bytes(&address.octets());
            }
            IpAddr::V6(address) => {
                w.u16_le(FAMILY_INTERNETWORK_V6);
                w.zeros(6);
                w.bytes(&address.octets());
            }
        }
        w.zeros(128 - (w.position() - start));
    }
}

/// Appends a list. It may be empty.
pub fn write(list: &[NetworkInterfaceInfo], out: &mut Vec<u8>) {
    let mut w = Writer::new(out);
    for (index, entry) in list.iter().enumerate() {
        entry.write(&mut w, index + 1 == list.len());
    }
}

/// The entries of a list in order. Entries of unknown address families are left out. The iterator ends after
/// an error.
#[must_use]
pub fn parse(output: &[u8]) -> Iter<'_> {
    Iter { rest: output }
}

/// Reads the entries of a list.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    rest: &'a [u8],
}

impl<'a> Iter<'a> {
    /// Reads the first entry of `list`. Also returns the rest.
    fn read(list: &'a [u8]) -> Result<(Option<NetworkInterfaceInfo>, &'a [u8]), Malformed> {
        let mut r = FieldReader::new(list, STRUCTURE);
        let next = r.u32("Next")? as usize;
        let if_index = r.u32("IfIndex")?;
        let capability = InterfaceCapability::from_bits_retain(r.u32("Capability")?);
        r.skip(4, "Reserved")?;
        let link_speed = r.u64("LinkSpeed")?;
        let socket: [u8; 128] = r.array("SockAddr_Storage")?;
        let address = match u16::from_le_bytes([socket[0], socket[1]]) {
            FAMILY_INTERNETWORK => {
                Some(IpAddr::V4(Ipv4Addr::new(socket[4], socket[5], socket[6], socket[7])))
            }
            FAMILY_INTERNETWORK_V6 => {
                let mut octets = [0; 16];
                octets.copy_from_slice(&socket[8..24]);
                Some(IpAddr::V6(Ipv6Addr::from(octets)))
            }
            _ => None,
        };
        let rest = match next {
            0 => &[],
            _ if next >= SIZE && next.is_multiple_of(8) && next < list.len() => &list[next..],
            _ => return Err(Malformed::new(STRUCTURE, "Next")),
        };
        let entry = address.map(|address| NetworkInterfaceInfo { if_index, capability, link_speed, address });
        Ok((entry, rest))
    }
}

impl Iterator for Iter<'_> {
    type Item = Result<NetworkInterfaceInfo, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let list = std::mem::take(&mut self.rest);
            match Self::read(list) {
                Ok((entry, rest)) => {
                    self.rest = rest;
                    if let Some(entry) = entry {
                        return Some(Ok(entry));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stand_behind_a_port_and_a_flow_label() {
        let list = [
            NetworkInterfaceInfo {
                if_index: 2,
                capability: InterfaceCapability::RSS_CAPABLE,
                link_speed: 1_000_000_000,
                address: "192.0.2.7".parse().unwrap(),
            },
            NetworkInterfaceInfo {
                if_index: 3,
                capability: InterfaceCapability::empty(),
                link_speed: 10_000_000_000,
                address: "2001:db8::1".parse().unwrap(),
            },
        ];
        let mut out = Vec::new();
        write(&list, &mut out);
        assert_eq!(out.len(), 2 * SIZE);
        assert_eq!(out[24..32], [2, 0, 0, 0, 192, 0, 2, 7]);
        assert_eq!(out[SIZE + 24..SIZE + 34], [0x17, 0, 0, 0, 0, 0, 0, 0, 0x20, 0x01]);
        assert!(parse(&out).eq(list.map(Ok)));
        out[0] = 8;
        assert_eq!(parse(&out).next().unwrap().unwrap_err().field, "Next");
    }
}

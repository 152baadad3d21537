//! A socket for the frames of one type on one interface (packet(7)).

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use socket2::{SockFilter, SockRef};

use super::frames;

/// A packet socket that is bound to one interface.
#[derive(Debug)]
pub(super) struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Opens a socket that sends any frames, and receives those of an EtherType from now on. Of IPv6 it
    /// receives neighbour solicitations and advertisements alone.
    pub(super) fn open(if_index: u32, ether_type: u16) -> io::Result<PacketSocket> {
        let family = AddressFamily::from_raw(libc::AF_PACKET as u16);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Without a protocol it receives nothing until it is bound.
        let socket = rustix::net::socket_with(family, SocketType::RAW, flags, None)?;
        if ether_type == frames::IPV6 {
            SockRef::from(&socket).attach_filter(&neighbour_discovery())?;
        }
        rustix::net::bind(&socket, &LinkLayerAddress::of(if_index, ether_type))?;
        Ok(PacketSocket(socket))
    }

    /// Sends one frame with its header.
    pub(super) fn send(&self, frame: &[u8]) -> io::Result<()> {
        rustix::net::send(&self.0, frame, SendFlags::empty())?;
        Ok(())
    }

    /// Receives the next frame, cut to the size of `frame`, or None if none comes before `until`.
    pub(super) fn receive(&self, frame: &mut [u8], until: Instant) -> io::Result<Option<usize>> {
        loop {
            match rustix::net::recv(&self.0, &mut *frame, RecvFlags::empty()) {
                Ok((received, _)) => return Ok(Some(received)),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.wait(left)?;
        }
    }

    fn wait(&self, left: Duration) -> io::Result<()> {
        let mut waited = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut waited, Timespec::try_from(left).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A filter of the kernel (Linux, Documentation/networking/filter.rst): frames of IPv6 whose next header is
/// ICMPv6, of type 135 or 136. Without it all traffic of the interface would be copied.
fn neighbour_discovery() -> [SockFilter; 7] {
    const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    [
        // The next header, 6 bytes into IPv6, which follows the 14 bytes of Ethernet.
        SockFilter::new(LOAD_BYTE, 0, 0, 14 + 6),
        SockFilter::new(JUMP_IF_EQUAL, 0, 3, 58),
        // The type of the message, behind the 40 bytes of IPv6.
        SockFilter::new(LOAD_BYTE, 0, 0, 14 + 40),
        SockFilter::new(JUMP_IF_EQUAL, 2, 0, 135),
        SockFilter::new(JUMP_IF_EQUAL, 1, 0, 136),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, frames::LONGEST as u32),
    ]
}

/// The interface and the EtherType of a packet socket.
struct LinkLayerAddress(libc::sockaddr_ll);

impl LinkLayerAddress {
    fn of(if_index: u32, ether_type: u16) -> LinkLayerAddress {
        LinkLayerAddress(libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: ether_type.to_be(),
            // The kernel's numbers are positive.
            sll_ifindex: i32::try_from(if_index).unwrap_or(0),
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        })
    }
}

// SAFETY: the pointer leads to a whole `sockaddr_ll` with its family, which lives as long as `self`, and the
// length is its size.
#[allow(unsafe_code)]
unsafe impl SocketAddrArg for LinkLayerAddress {
    // SAFETY: the caller reads no more than the given length, as the trait demands.
    unsafe fn with_sockaddr<R>(&self, f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R) -> R {
        f((&raw const self.0).cast(), size_of::<libc::sockaddr_ll>() as SocketAddrLen)
    }
}

//! A network device whose other end is this process. It reads, packet by packet, what the host sends through
//! the device, and the host receives what it writes (Linux, Documentation/networking/tuntap.rst).

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// The longest name of a device, without the final zero.
const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// A device of type TUN: packets begin with their IP header. The device exists as long as this value.
#[derive(Debug)]
pub struct Tun(OwnedFd);

impl Tun {
    /// Creates the device `name` in the network namespace of the calling thread.
    ///
    /// # Errors
    /// The host's error: EPERM without the right to administer networks, EBUSY if there is a device of that
    /// name. `InvalidInput` for a name that no device can have.
    pub fn make(name: &str) -> io::Result<Tun> {
        if name.is_empty() || name.len() > NAME_MAX || name.contains(['/', '\0', '%']) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("no device can be named {name:?}"),
            ));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")?;
        // SAFETY: `ifreq` is plain data for which all zeroes are a value.
        #[allow(unsafe_code)]
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            // It is signed on x86-64 and not on ARM.
            *to = libc::c_char::from_ne_bytes([from]);
        }
        // Packets as they are, without a header of the device's own.
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
        // SAFETY: TUNSETIFF reads and writes one `ifreq`, which lives until the call is over.
        #[allow(unsafe_code)]
        let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as libc::Ioctl, &raw mut request) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Tun(file.into()))
    }

    /// Reads the next packet, cut to the size of `packet`. Returns its length.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; otherwise the host's error.
    pub fn read(&self, packet: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, packet)?)
    }

    /// Sends a packet to the host.
    ///
    /// # Errors
    /// EIO while the device is down, EINVAL for bytes that are no IP packet.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        rustix::io::write(&self.0, packet)?;
        Ok(())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_name_is_refused_before_anything_is_made() {
        for name in ["", "a/b", "tun%d", "sixteen-letters-", "a\0b"] {
            assert_eq!(Tun::make(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
    }
}

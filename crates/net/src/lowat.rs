//! The number of bytes that must arrive before a socket wakes its reader (SO_RCVLOWAT).

use std::os::fd::{AsFd, AsRawFd};

/// The present value of a socket. A new socket wakes its reader for every byte.
#[derive(Debug, Default)]
pub struct LowWatermark(Option<usize>);

impl LowWatermark {
    /// Lets `socket` wake its reader once `bytes` have arrived, or the end. If the host refuses, the socket
    /// wakes its reader too early, which does no harm.
    pub fn set(&mut self, socket: &impl AsFd, bytes: usize) {
        if self.0.unwrap_or(1) != bytes {
            self.0 = Some(bytes);
            tell(socket, bytes);
        }
    }
}

#[allow(unsafe_code)]
fn tell(socket: &impl AsFd, bytes: usize) {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the option takes one `int`, which outlives the call, and its size is given.
    unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        );
    }
}

//! Netlink: requests to the kernel about this host's network, and notice of changes there (netlink(7)).
//!
//! [`Socket::dump`] requests all objects of a kind, [`Socket::find`] requests one, and [`Socket::change`]
//! changes one. Messages are read with the bounded [`Cursor`]. Unknown parts are skipped.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use wire::{Cursor, Truncated};

/// The part of the kernel that a socket talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetlinkFamily {
    /// Interfaces, addresses and routes (rtnetlink(7)).
    Route,
    /// Sockets of this host (sock_diag(7)).
    SockDiag,
}

/// A request for objects of a kind.
#[derive(Debug, Clone, Copy)]
pub struct DumpRequest<'a> {
    /// The type of the request.
    pub ask: u16,
    /// The type of the replies. Others are skipped.
    pub answer: u16,
    /// The body of the request, after its header.
    pub body: &'a [u8],
}

/// A request to make, change or remove one object.
#[derive(Debug, Clone, Copy)]
pub struct ChangeRequest<'a> {
    /// The type of the request.
    pub ask: u16,
    /// The bits NLM_F_ for an object that exists or does not, such as [`ONLY_NEW`], or zero.
    pub flags: u16,
    /// The body of the request, after its header.
    pub body: &'a [u8],
}

/// NLM_F_CREATE and NLM_F_EXCL: the object is made, and EEXIST if there is one.
pub const ONLY_NEW: u16 = 0x400 | 0x200;

/// NLM_F_REPLACE: the object is changed.
pub const REPLACE: u16 = 0x100;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// NLM_F_REQUEST.
const ASK_FOR_ONE: u16 = 0x1;
/// NLM_F_REQUEST and NLM_F_DUMP.
const ASK_FOR_ALL: u16 = 0x1 | 0x300;
/// NLM_F_REQUEST and NLM_F_ACK.
const ASK_AND_CONFIRM: u16 = 0x1 | 0x4;
/// The sizes of a message's header and of an attribute's.
const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;
/// Half of this is enough for an interface with many virtual functions.
const BUFFER: usize = 64 * 1024;
/// The kernel replies at once. This only bounds the time of a fault.
const PATIENCE: Duration = Duration::from_secs(5);

/// A netlink socket.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl Socket {
    /// Opens a socket that is notified of changes in `groups`, a set of bits. Zero means none.
    ///
    /// # Errors
    /// The kernel refuses such sockets.
    pub fn open(protocol: NetlinkFamily, groups: u32) -> io::Result<Socket> {
        let kind = (AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC);
        let number = match protocol {
            // NETLINK_ROUTE has the number 0, which means no protocol here.
            NetlinkFamily::Route => None,
            NetlinkFamily::SockDiag => Some(SOCK_DIAG),
        };
        let socket = rustix::net::socket_with(kind.0, kind.1, kind.2, number)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        Ok(Socket(socket))
    }

    /// Discards the messages that have arrived so far.
    pub fn drain(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        // ENOBUFS means that changes were lost. A later read includes them.
        while matches!(
            rustix::net::recv(&self.0, &mut buffer, RecvFlags::DONTWAIT),
            Ok(_) | Err(Errno::NOBUFS | Errno::INTR)
        ) {}
    }

    /// Requests all objects of a kind. `parse` reads the body of one reply.
    ///
    /// # Errors
    /// The kernel refuses the request, does not reply, or its reply makes no sense.
    pub fn dump<T>(
        &self,
        request: DumpRequest<'_>,
        parse: impl Fn(&mut Cursor<'_>) -> Result<Option<T>, Truncated>,
    ) -> io::Result<Vec<T>> {
        self.send(request.ask, ASK_FOR_ALL, request.body)?;
        let mut found = Vec::new();
        let mut buffer = vec![0; BUFFER];
        loop {
            let received = self.receive(&mut buffer)?;
            if read(&buffer[..received], request.answer, &parse, &mut found)? {
                return Ok(found);
            }
        }
    }

    /// Requests the object that the body describes. `parse` reads the body of the reply. The socket must not
    /// be notified of changes.
    ///
    /// # Errors
    /// The kernel has no such object, does not reply, or its reply makes no sense.
    pub fn find<T>(
        &self,
        request: DumpRequest<'_>,
        parse: impl Fn(&mut Cursor<'_>) -> Result<Option<T>, Truncated>,
    ) -> io::Result<Option<T>> {
        self.send(request.ask, ASK_FOR_ONE, request.body)?;
        let mut buffer = vec![0; BUFFER];
        let received = self.receive(&mut buffer)?;
        let mut found = Vec::new();
        read(&buffer[..received], request.answer, &parse, &mut found)?;
        Ok(found.pop())
    }

    /// Changes one object, and waits until that is done. The socket must not be notified of changes.
    ///
    /// # Errors
    /// The kernel's reason for refusing, such as EPERM, EEXIST or ENODEV, as the operating system's error.
    pub fn change(&self, request: ChangeRequest<'_>) -> io::Result<()> {
        self.send(request.ask, ASK_AND_CONFIRM | request.flags, request.body)?;
        let mut buffer = vec![0; BUFFER];
        loop {
            let received = self.receive(&mut buffer)?;
            if is_confirmed(&buffer[..received])? {
                return Ok(());
            }
        }
    }

    fn send(&self, ask: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        rustix::net::send(&self.0, &message(ask, flags, body), SendFlags::empty())?;
        Ok(())
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (received, whole) =
            retry_on_intr(|| rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::TRUNC))?;
        if whole > received { Err(senseless()) } else { Ok(received) }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn senseless() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer of the kernel about its network makes no sense")
}

/// A request with its header.
fn message(ask: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut message = vec![0; HEADER];
    message.extend_from_slice(body);
    let len = message.len() as u32;
    message[..4].copy_from_slice(&len.to_ne_bytes());
    message[4..6].copy_from_slice(&ask.to_ne_bytes());
    message[6..8].copy_from_slice(&flags.to_ne_bytes());
    message
}

/// Takes the next message out of a datagram: its type and its body.
fn next_message<'a>(rest: &mut Cursor<'a>) -> io::Result<(u16, Cursor<'a>)> {
    let mut one = || -> Result<(u16, Cursor<'a>), Truncated> {
        let len = u32::from_ne_bytes(rest.array()?) as usize;
        let kind = u16::from_ne_bytes(rest.array()?);
        rest.skip(HEADER - 6)?;
        let body = len.checked_sub(HEADER).ok_or(Truncated { at: 0 })?;
        let message = rest.sub(body)?;
        rest.skip(padding(len).min(rest.remaining()))?;
        Ok((kind, message))
    };
    one().map_err(|_| senseless())
}

/// The result in a message of type NLMSG_ERROR, where the code 0 confirms a request.
fn outcome(message: &mut Cursor<'_>) -> io::Result<()> {
    match message.array().map(i32::from_ne_bytes).map_err(|_| senseless())? {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code.saturating_neg())),
    }
}

/// Whether the kernel's confirmation is among the messages of one datagram.
fn is_confirmed(datagram: &[u8]) -> io::Result<bool> {
    let mut rest = Cursor::new(datagram);
    while rest.remaining() >= HEADER {
        let (kind, mut message) = next_message(&mut rest)?;
        if kind == NLMSG_ERROR {
            return outcome(&mut message).map(|()| true);
        }
    }
    Ok(false)
}

/// Reads the messages of one datagram. Returns true if the last message of a reply is among them.
fn read<T>(
    datagram: &[u8],
    answer: u16,
    parse: impl Fn(&mut Cursor<'_>) -> Result<Option<T>, Truncated>,
    found: &mut Vec<T>,
) -> io::Result<bool> {
    let mut rest = Cursor::new(datagram);
    while rest.remaining() >= HEADER {
        let (kind, mut message) = next_message(&mut rest)?;
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => outcome(&mut message)?,
            kind if kind == answer => found.extend(parse(&mut message).map_err(|_| senseless())?),
            _ => {}
        }
    }
    Ok(false)
}

/// Bytes of padding after `len` bytes, up to the next multiple of four.
fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// Calls `take` with the type and the value of each attribute in the rest of a message.
///
/// # Errors
/// An attribute is cut off, or claims to be shorter than its header.
pub fn attributes<'a>(body: &mut Cursor<'a>, mut take: impl FnMut(u16, &'a [u8])) -> Result<(), Truncated> {
    // NLA_F_NESTED and NLA_F_NET_BYTEORDER are not part of the type.
    const KIND: u16 = 0x3fff;
    while body.remaining() >= ATTRIBUTE {
        let len = usize::from(u16::from_ne_bytes(body.array()?));
        let kind = u16::from_ne_bytes(body.array()?) & KIND;
        let value = body.bytes(len.checked_sub(ATTRIBUTE).ok_or(Truncated { at: body.position() })?)?;
        body.skip(padding(len).min(body.remaining()))?;
        take(kind, value);
    }
    Ok(())
}

/// Appends an attribute to the body of a request. A value of 64 KiB or more does not fit, and is left out.
pub fn put_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    if let Ok(len) = u16::try_from(ATTRIBUTE + value.len()) {
        body.extend(len.to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(value);
        body.resize(body.len() + padding(value.len()), 0);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A message as the kernel sends it, in this host's byte order.
    pub(crate) fn answer(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend((HEADER as u32 + body.len() as u32).to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend([0; 10]);
        out.extend(body);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    /// An attribute as the kernel sends it.
    pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend((ATTRIBUTE as u16 + value.len() as u16).to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend(value);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    /// The objects in one datagram, and whether the reply ends with it.
    pub(crate) fn parsed<T>(
        datagram: &[u8],
        kind: u16,
        parse: impl Fn(&mut Cursor<'_>) -> Result<Option<T>, Truncated>,
    ) -> io::Result<(Vec<T>, bool)> {
        let mut found = Vec::new();
        let is_last = read(datagram, kind, parse, &mut found)?;
        Ok((found, is_last))
    }

    type Pairs = Vec<(u16, Vec<u8>)>;

    /// The attributes of one reply.
    fn pairs(body: &mut Cursor<'_>) -> Result<Option<Pairs>, Truncated> {
        let mut pairs = Vec::new();
        attributes(body, |kind, value| pairs.push((kind, value.to_vec())))?;
        Ok(Some(pairs))
    }

    #[test]
    fn answers_of_other_kinds_are_passed_over_and_the_last_one_ends_it() {
        let body = [attribute(0x8003, b"abc"), attribute(4, &[7])].concat();
        let more = [answer(9, b"x"), answer(5, &body)].concat();
        let (found, is_last) = parsed(&more, 5, pairs).unwrap();
        assert_eq!((found, is_last), (vec![vec![(3, b"abc".to_vec()), (4, vec![7])]], false));
        let last = [more, answer(NLMSG_DONE, &[0; 4]), answer(5, &body)].concat();
        let (found, is_last) = parsed(&last, 5, pairs).unwrap();
        assert_eq!((found.len(), is_last), (1, true));
        let refused = answer(NLMSG_ERROR, &(-13i32).to_ne_bytes());
        assert_eq!(parsed(&refused, 5, pairs).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn no_bytes_make_it_panic_and_broken_ones_are_an_error() {
        let whole = answer(5, &[attribute(1, &[1, 2, 3, 4, 5]), attribute(2, &[6])].concat());
        for end in 0..whole.len() {
            assert_eq!(parsed(&whole[..end], 5, pairs).is_err(), end >= HEADER, "{end}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 3, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                let _answer_or_error = parsed(&changed, 5, pairs);
            }
        }
    }

    #[test]
    fn a_change_is_confirmed_by_an_error_of_zero_and_refused_by_any_other() {
        let confirmed = answer(NLMSG_ERROR, &[0; 20]);
        assert!(is_confirmed(&[answer(9, b"x"), confirmed.clone()].concat()).unwrap());
        assert!(!is_confirmed(&answer(9, b"x")).unwrap());
        let refused = is_confirmed(&answer(NLMSG_ERROR, &(-17i32).to_ne_bytes())).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        for end in HEADER..HEADER + 4 {
            assert!(is_confirmed(&confirmed[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn an_attribute_that_is_put_is_the_one_that_is_read() {
        let mut body = Vec::new();
        put_attribute(&mut body, 3, b"lo\0");
        put_attribute(&mut body, 6, &[1; 4]);
        put_attribute(&mut body, 7, &vec![0; 0x1_0000]);
        assert_eq!(body, [attribute(3, b"lo\0"), attribute(6, &[1; 4])].concat());
    }

    #[test]
    fn a_question_has_its_length_and_asks_for_all() {
        let sent = message(18, ASK_FOR_ALL, &[9; 20]);
        assert_eq!((sent.len(), &sent[16..]), (36, &[9; 20][..]));
        assert_eq!(sent[..4], 36u32.to_ne_bytes());
        assert_eq!((&sent[4..6], &sent[6..8]), (&18u16.to_ne_bytes()[..], &0x301u16.to_ne_bytes()[..]));
    }
}

//! The values that many operations share: identifiers, times, handles and who is meant (RFC 8881 3.3).

use crate::Malformed;
use crate::limits::{MAX_FILE_HANDLE, MAX_NETADDR, MAX_OPAQUE};
use crate::macros::{xdr_enum, xdr_struct, xdr_union};
use crate::xdr::{Decode, Encode, List, opaque, put_opaque};
use wire::Cursor;

/// clientid4: what EXCHANGE_ID hands out.
pub type ClientId = u64;
/// verifier4: eight bytes that change when something began anew.
pub type Verifier = [u8; 8];
/// sessionid4.
pub type SessionId = [u8; 16];
/// deviceid4.
pub type DeviceId = [u8; 16];

macro_rules! bounded {
    ($($(#[$meta:meta])* $name:ident, $max:expr;)*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name<'a>(pub &'a [u8]);

        impl Encode for $name<'_> {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                put_opaque(self.0, out);
            }
        }

        impl<'d> Decode<'d> for $name<'d> {
            #[inline]
            fn decode(r: &mut Cursor<'d>) -> Result<Self, Malformed> {
                opaque(r, $max).map($name)
            }
        }
    )*};
}

bounded! {
    /// nfs_fh4: a filehandle of at most [`MAX_FILE_HANDLE`] bytes.
    FileHandle, MAX_FILE_HANDLE;
    /// An identifying opaque of at most [`MAX_OPAQUE`] bytes: an owner, a server scope.
    Identity, MAX_OPAQUE;
    /// A network identifier or universal address of at most [`MAX_NETADDR`] bytes.
    NetName, MAX_NETADDR;
}

xdr_struct! {
    /// A state and which change of it is meant (RFC 8881 8.2.2).
    #[derive(Hash, Default)]
    pub struct StateId of "stateid4" {
        /// Counts the changes; zero means the latest.
        seqid: u32,
        /// Which state; all zeros and all ones are special.
        other: [u8; 12],
    }
}

impl StateId {
    // RFC 8881 8.2.3
    /// No state: reads and writes outside any open.
    pub const ANONYMOUS: StateId = StateId { seqid: 0, other: [0; 12] };
    /// Reads that go round share reservations.
    pub const READ_BYPASS: StateId = StateId { seqid: u32::MAX, other: [0xff; 12] };
    /// The stateid that an operation before in the COMPOUND left.
    pub const CURRENT: StateId = StateId { seqid: 1, other: [0; 12] };
    /// Never valid.
    pub const INVALID: StateId = StateId { seqid: u32::MAX, other: [0; 12] };

    /// Whether the server defines no state of this kind: `other` is all zeros or all ones.
    #[inline]
    #[must_use]
    pub fn is_special(&self) -> bool {
        self.other == [0; 12] || self.other == [0xff; 12]
    }
}

xdr_struct! {
    /// A time since 1970.
    #[derive(Hash, PartialOrd, Ord, Default)]
    pub struct NfsTime of "nfstime4" {
        /// Whole seconds; negative before 1970.
        seconds: i64,
        /// Nanoseconds after `seconds`; below 1,000,000,000 in what is valid.
        nseconds: u32,
    }
}

xdr_union! {
    /// A time to set.
    pub enum SetTime of "settime4" {
        void {
            /// The server's own present time.
            Server = 0,
        }
        data {
            /// This time.
            Client(NfsTime) = 1,
        }
    }
}

xdr_struct! {
    /// Which file system.
    #[derive(Hash, Default)]
    pub struct FsId of "fsid4" {
        /// First half.
        major: u64,
        /// Second half.
        minor: u64,
    }
}

xdr_struct! {
    /// Numbers of a device.
    #[derive(Default)]
    pub struct SpecData of "specdata4" {
        /// Major number.
        specdata1: u32,
        /// Minor number.
        specdata2: u32,
    }
}

xdr_struct! {
    /// The change attribute of a directory around a change to it.
    #[derive(Default)]
    pub struct ChangeInfo of "change_info4" {
        /// Whether nothing else happened between the two values.
        atomic: bool,
        /// Before the change.
        before: u64,
        /// After the change.
        after: u64,
    }
}

xdr_struct! {
    /// An open-owner or lock-owner. In 4.1 the client ID is that of the session, and what stands here is not
    /// looked at.
    pub struct Owner<'a> of "state_owner4" {
        /// Zero from a 4.1 client.
        clientid: ClientId,
        /// What the client calls the owner.
        owner: Identity<'a>,
    }
}

xdr_struct! {
    /// Where a peer listens, as universal address (RFC 5665).
    pub struct NetAddr<'a> of "netaddr4" {
        /// `tcp`, `tcp6` or another.
        netid: NetName<'a>,
        /// `192.0.2.1.8.1`: the last two numbers are the port.
        addr: NetName<'a>,
    }
}

xdr_struct! {
    /// Who made a client or a server.
    pub struct ImplId<'a> of "nfs_impl_id4" {
        /// DNS name of the maker.
        domain: &'a [u8],
        /// Name of the product and its version.
        name: &'a [u8],
        /// When it was made.
        date: NfsTime,
    }
}

xdr_union! {
    /// Another server, for a copy between servers (RFC 7862 4.11.1).
    pub enum NetLoc<'a> of "netloc4" {
        void {}
        data {
            /// A host name.
            Name(&'a [u8]) = 1,
            /// A URL.
            Url(&'a [u8]) = 2,
            /// An address.
            Addr(NetAddr<'a>) = 3,
        }
    }
}

xdr_enum! {
    /// Kind of a file (nfs_ftype4).
    pub enum FileType {
        Reg = 1,
        Dir = 2,
        Blk = 3,
        Chr = 4,
        Lnk = 5,
        Sock = 6,
        Fifo = 7,
        AttrDir = 8,
        NamedAttr = 9,
    }
}

xdr_enum! {
    /// How safe written data has to be, or is (stable_how4).
    pub enum StableHow {
        Unstable = 0,
        DataSync = 1,
        FileSync = 2,
    }
}

xdr_enum! {
    /// Kind of a byte-range lock (nfs_lock_type4); the last two say that the client waits.
    pub enum LockType {
        Read = 1,
        Write = 2,
        ReadW = 3,
        WriteW = 4,
    }
}

xdr_enum! {
    /// Kind of a pNFS layout (layouttype4).
    pub enum LayoutType {
        NfsV41Files = 1,
        Osd2Objects = 2,
        BlockVolume = 3,
    }
}

xdr_enum! {
    /// What a layout is for (layoutiomode4).
    pub enum LayoutIoMode {
        Read = 1,
        Rw = 2,
        Any = 3,
    }
}

/// component4 of a path, or any other UTF-8 string; the bytes are not yet known to be UTF-8.
pub type Component<'a> = &'a [u8];

/// pathname4.
pub type PathName<'a> = List<'a, Component<'a>>;

//! The common types of many operations: identifiers, times, filehandles and owners (RFC 8881 3.3).

use crate::Malformed;
use crate::limits::{MAX_FILE_HANDLE, MAX_NETADDR, MAX_OPAQUE};
use crate::macros::{xdr_enum, xdr_struct, xdr_union};
use crate::xdr::{Decode, Encode, List, opaque, put_opaque};
use wire::Cursor;

/// clientid4: the client ID that EXCHANGE_ID returns.
pub type ClientId = u64;
/// verifier4: eight bytes that change when their author restarts.
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
    /// An identifying opaque value of at most [`MAX_OPAQUE`] bytes: an owner, a server scope.
    Identity, MAX_OPAQUE;
    /// A network identifier or universal address of at most [`MAX_NETADDR`] bytes.
    NetName, MAX_NETADDR;
}

xdr_struct! {
    /// A stateid: a state and a version of it (RFC 8881 8.2.2).
    #[derive(Hash, Default)]
    pub struct StateId of "stateid4" {
        /// The version. Zero means the latest.
        seqid: u32,
        /// Identifies the state. All zeros and all ones are special.
        other: [u8; 12],
    }
}

impl StateId {
    // RFC 8881 8.2.3
    /// No state: for reads and writes outside any open.
    pub const ANONYMOUS: StateId = StateId { seqid: 0, other: [0; 12] };
    /// For reads that bypass share reservations.
    pub const READ_BYPASS: StateId = StateId { seqid: u32::MAX, other: [0xff; 12] };
    /// The current stateid, set by an earlier operation of the COMPOUND.
    pub const CURRENT: StateId = StateId { seqid: 1, other: [0; 12] };
    /// Never valid.
    pub const INVALID: StateId = StateId { seqid: u32::MAX, other: [0; 12] };

    /// Whether the stateid is special: `other` is all zeros or all ones.
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
        /// Nanoseconds after `seconds`. Valid values are below 1,000,000,000.
        nseconds: u32,
    }
}

xdr_union! {
    /// A time to set.
    pub enum SetTime of "settime4" {
        void {
            /// The server's present time.
            Server = 0,
        }
        data {
            /// This time.
            Client(NfsTime) = 1,
        }
    }
}

xdr_struct! {
    /// Identifies a file system.
    #[derive(Hash, Default)]
    pub struct FsId of "fsid4" {
        /// First half.
        major: u64,
        /// Second half.
        minor: u64,
    }
}

xdr_struct! {
    /// The numbers of a device.
    #[derive(Default)]
    pub struct SpecData of "specdata4" {
        /// Major number.
        specdata1: u32,
        /// Minor number.
        specdata2: u32,
    }
}

xdr_struct! {
    /// The change attribute of a directory before and after a change.
    #[derive(Default)]
    pub struct ChangeInfo of "change_info4" {
        /// Whether nothing else happened between the two values.
        atomic: bool,
        /// The value before the change.
        before: u64,
        /// The value after the change.
        after: u64,
    }
}

xdr_struct! {
    /// An open-owner or lock-owner. In 4.1 the client ID is that of the session, and the field here is
    /// ignored.
    pub struct StateOwner<'a> of "state_owner4" {
        /// Zero from a 4.1 client.
        clientid: ClientId,
        /// The client's name of the owner.
        owner: Identity<'a>,
    }
}

xdr_struct! {
    /// The address of a listening peer, as a universal address (RFC 5665).
    pub struct NetAddr<'a> of "netaddr4" {
        /// `tcp`, `tcp6` or another network identifier.
        netid: NetName<'a>,
        /// Such as `192.0.2.1.8.1`: the last two numbers are the port.
        addr: NetName<'a>,
    }
}

xdr_struct! {
    /// The implementation of a client or a server.
    pub struct ImplId<'a> of "nfs_impl_id4" {
        /// DNS name of the vendor.
        domain: &'a [u8],
        /// Name and version of the product.
        name: &'a [u8],
        /// The build date.
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
    /// The type of a file (nfs_ftype4).
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
    /// The stability of written data (stable_how4).
    pub enum StableHow {
        Unstable = 0,
        DataSync = 1,
        FileSync = 2,
    }
}

xdr_enum! {
    /// The type of a byte-range lock (nfs_lock_type4). With the last two the client waits for the lock.
    pub enum LockType {
        Read = 1,
        Write = 2,
        ReadW = 3,
        WriteW = 4,
    }
}

xdr_enum! {
    /// A pNFS layout type (layouttype4).
    pub enum LayoutType {
        NfsV41Files = 1,
        Osd2Objects = 2,
        BlockVolume = 3,
    }
}

xdr_enum! {
    /// The I/O mode of a layout (layoutiomode4).
    pub enum LayoutIoMode {
        Read = 1,
        Rw = 2,
        Any = 3,
    }
}

/// component4 of a path, or any other UTF-8 string. The bytes are not checked to be UTF-8.
pub type Component<'a> = &'a [u8];

/// pathname4.
pub type PathName<'a> = List<'a, Component<'a>>;

//! Parallel NFS: layouts and devices (RFC 8881 18.40 to 18.44, RFC 7862 15.6 and 15.7). Requests are parsed
//! completely, so that a server without layouts can refuse them and continue.

use crate::Malformed;
use crate::attr::Bitmap;
use crate::macros::{xdr_struct, xdr_union};
use crate::op::outcome::Outcome;
use crate::status::NfsStat;
use crate::types::{DeviceId, LayoutIoMode, LayoutType, NfsTime, StateId, Verifier};
use crate::xdr::{Decode, Encode, List};
use wire::Cursor;

xdr_struct! {
    /// GETDEVICEINFO4args.
    pub struct DeviceInfoArgs of "GETDEVICEINFO4args" {
        /// The device.
        device_id: DeviceId,
        /// The layout type.
        layout_type: LayoutType,
        /// Longest reply in bytes.
        maxcount: u32,
        /// The requested notifications.
        notify_types: Bitmap,
    }
}

xdr_struct! {
    /// The description of a device for its layout type (device_addr4).
    pub struct DeviceAddr<'a> of "device_addr4" {
        /// The layout type.
        layout_type: LayoutType,
        /// The description.
        addr_body: &'a [u8],
    }
}

xdr_struct! {
    /// GETDEVICEINFO4resok.
    pub struct DeviceInfoResOk<'a> of "GETDEVICEINFO4resok" {
        /// The device.
        device_addr: DeviceAddr<'a>,
        /// The granted notifications.
        notification: Bitmap,
    }
}

xdr_struct! {
    /// GETDEVICELIST4args.
    pub struct DeviceListArgs of "GETDEVICELIST4args" {
        /// The layout type.
        layout_type: LayoutType,
        /// The most devices to return.
        maxdevices: u32,
        /// The cookie to continue at.
        cookie: u64,
        /// The cookie verifier, as in READDIR.
        cookieverf: Verifier,
    }
}

xdr_struct! {
    /// GETDEVICELIST4resok.
    pub struct DeviceListResOk<'a> of "GETDEVICELIST4resok" {
        /// The cookie to continue at.
        cookie: u64,
        /// The cookie verifier, as in READDIR.
        cookieverf: Verifier,
        /// The devices.
        deviceid_list: List<'a, DeviceId>,
        /// Whether the list is complete.
        eof: bool,
    }
}

xdr_struct! {
    /// The changes of a client under a layout (layoutupdate4).
    pub struct LayoutUpdate<'a> of "layoutupdate4" {
        /// The layout type.
        update_type: LayoutType,
        /// The changes.
        body: &'a [u8],
    }
}

xdr_struct! {
    /// LAYOUTCOMMIT4args.
    pub struct CommitArgs<'a> of "LAYOUTCOMMIT4args" {
        /// Offset of the range.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// Whether it is a reclaim.
        reclaim: bool,
        /// The layout.
        stateid: StateId,
        /// Offset of the last byte written.
        last_write_offset: Option<u64>,
        /// The time of that write.
        time_modify: Option<NfsTime>,
        /// The changes.
        layoutupdate: LayoutUpdate<'a>,
    }
}

xdr_struct! {
    /// LAYOUTCOMMIT4resok.
    pub struct CommitResOk of "LAYOUTCOMMIT4resok" {
        /// The new size, if it has changed.
        newsize: Option<u64>,
    }
}

xdr_struct! {
    /// LAYOUTGET4args.
    pub struct GetArgs of "LAYOUTGET4args" {
        /// Whether the server should call when a layout is available.
        signal_layout_avail: bool,
        /// The layout type.
        layout_type: LayoutType,
        /// The I/O mode.
        iomode: LayoutIoMode,
        /// Offset of the range.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// The least bytes of the range.
        minlength: u64,
        /// The open or layout.
        stateid: StateId,
        /// Longest reply in bytes.
        maxcount: u32,
    }
}

xdr_struct! {
    /// One layout (layout4).
    pub struct Layout<'a> of "layout4" {
        /// Offset of the range.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// The I/O mode.
        iomode: LayoutIoMode,
        /// The layout type.
        content_type: LayoutType,
        /// The layout itself.
        content_body: &'a [u8],
    }
}

xdr_struct! {
    /// LAYOUTGET4resok.
    pub struct GetResOk<'a> of "LAYOUTGET4resok" {
        /// Whether CLOSE returns the layout.
        return_on_close: bool,
        /// The stateid of the layout.
        stateid: StateId,
        /// The layouts.
        layout: List<'a, Layout<'a>>,
    }
}

xdr_struct! {
    /// The layouts of a file that are returned (layoutreturn_file4).
    pub struct ReturnFile<'a> of "layoutreturn_file4" {
        /// Offset of the range.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// The layout.
        stateid: StateId,
        /// The part that depends on the layout type.
        body: &'a [u8],
    }
}

xdr_union! {
    /// The layouts that are returned (layoutreturn4).
    pub enum Return<'a> of "layoutreturn4" {
        void {
            /// All layouts of a file system.
            Fsid = 2,
            /// All layouts.
            All = 3,
        }
        data {
            /// The layouts of one file.
            File(ReturnFile<'a>) = 1,
        }
    }
}

xdr_struct! {
    /// LAYOUTRETURN4args.
    pub struct ReturnArgs<'a> of "LAYOUTRETURN4args" {
        /// Whether it is a reclaim.
        reclaim: bool,
        /// The layout type.
        layout_type: LayoutType,
        /// The I/O mode.
        iomode: LayoutIoMode,
        /// The layouts that are returned.
        layoutreturn: Return<'a>,
    }
}

xdr_struct! {
    /// The rest of the layout.
    pub struct ReturnResOk of "LAYOUTRETURN4res" {
        /// The stateid of the layout. None if nothing is left of it.
        stateid: Option<StateId>,
    }
}

xdr_struct! {
    /// An error of a device (device_error4).
    pub struct DeviceError of "device_error4" {
        /// The device.
        deviceid: DeviceId,
        /// The error.
        status: NfsStat,
        /// The operation that failed.
        opnum: u32,
    }
}

xdr_struct! {
    /// LAYOUTERROR4args.
    pub struct ErrorArgs<'a> of "LAYOUTERROR4args" {
        /// Offset of the range.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// The layout.
        stateid: StateId,
        /// The errors.
        errors: List<'a, DeviceError>,
    }
}

xdr_struct! {
    /// An amount of I/O (io_info4).
    pub struct IoInfo of "io_info4" {
        /// Number of operations.
        count: u64,
        /// Number of bytes.
        bytes: u64,
    }
}

xdr_struct! {
    /// LAYOUTSTATS4args.
    pub struct StatsArgs<'a> of "LAYOUTSTATS4args" {
        /// Offset of the range.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// The layout.
        stateid: StateId,
        /// The reads.
        read: IoInfo,
        /// The writes.
        write: IoInfo,
        /// The device.
        deviceid: DeviceId,
        /// The part that depends on the layout type.
        layoutupdate: LayoutUpdate<'a>,
    }
}

macro_rules! with_one_more {
    ($($(#[$meta:meta])* $name:ident($ok:ty), $other:ident($ty:ty) = $status:ident;)*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name<'a> {
            /// The request is granted.
            Ok($ok),
            #[doc = concat!("NFS4ERR_ with the name `", stringify!($status), "`, and what comes with it.")]
            $other($ty),
            /// Any other status.
            Failed(NfsStat),
        }

        impl<'d> Outcome<'d> for $name<'d> {
            fn status(&self) -> NfsStat {
                match self {
                    $name::Ok(_) => NfsStat::Ok,
                    $name::$other(_) => NfsStat::$status,
                    $name::Failed(status) => *status,
                }
            }

            fn encode_rest(&self, out: &mut Vec<u8>) {
                match self {
                    $name::Ok(ok) => ok.encode(out),
                    $name::$other(value) => value.encode(out),
                    $name::Failed(_) => {}
                }
            }

            fn decode_rest(status: NfsStat, r: &mut Cursor<'d>) -> Result<Self, Malformed> {
                match status {
                    NfsStat::Ok => Decode::decode(r).map($name::Ok),
                    NfsStat::$status => Decode::decode(r).map($name::$other),
                    status => Ok($name::Failed(status)),
                }
            }
        }
    )*};
}

with_one_more! {
    /// GETDEVICEINFO4res.
    DeviceInfoRes(DeviceInfoResOk<'a>), TooSmall(u32) = TooSmall;
    /// LAYOUTGET4res.
    GetRes(GetResOk<'a>), TryLater(bool) = LayoutTryLater;
}

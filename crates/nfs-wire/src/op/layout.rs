//! Parallel NFS: layouts and devices (RFC 8881 18.40 to 18.44, RFC 7862 15.6 and 15.7). Read whole, so that a server
//! without layouts can say so and carry on.

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
        /// Kind of layout.
        layout_type: LayoutType,
        /// Longest answer in bytes.
        maxcount: u32,
        /// What to notify about.
        notify_types: Bitmap,
    }
}

xdr_struct! {
    /// A device as its kind of layout describes it (device_addr4).
    pub struct DeviceAddr<'a> of "device_addr4" {
        /// Kind of layout.
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
        /// What is notified about.
        notification: Bitmap,
    }
}

xdr_struct! {
    /// GETDEVICELIST4args.
    pub struct DeviceListArgs of "GETDEVICELIST4args" {
        /// Kind of layout.
        layout_type: LayoutType,
        /// Most devices wanted.
        maxdevices: u32,
        /// Where to go on.
        cookie: u64,
        /// As in READDIR.
        cookieverf: Verifier,
    }
}

xdr_struct! {
    /// GETDEVICELIST4resok.
    pub struct DeviceListResOk<'a> of "GETDEVICELIST4resok" {
        /// Where to go on.
        cookie: u64,
        /// As in READDIR.
        cookieverf: Verifier,
        /// The devices.
        deviceid_list: List<'a, DeviceId>,
        /// Whether these were the last.
        eof: bool,
    }
}

xdr_struct! {
    /// What a client changed behind a layout (layoutupdate4).
    pub struct LayoutUpdate<'a> of "layoutupdate4" {
        /// Kind of layout.
        update_type: LayoutType,
        /// The change.
        body: &'a [u8],
    }
}

xdr_struct! {
    /// LAYOUTCOMMIT4args.
    pub struct CommitArgs<'a> of "LAYOUTCOMMIT4args" {
        /// Where the range begins.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// Whether it is a reclaim.
        reclaim: bool,
        /// The layout.
        stateid: StateId,
        /// Offset of the last byte written.
        last_write_offset: Option<u64>,
        /// When it was written.
        time_modify: Option<NfsTime>,
        /// What changed.
        layoutupdate: LayoutUpdate<'a>,
    }
}

xdr_struct! {
    /// LAYOUTCOMMIT4resok.
    pub struct CommitResOk of "LAYOUTCOMMIT4resok" {
        /// The size, when it changed.
        newsize: Option<u64>,
    }
}

xdr_struct! {
    /// LAYOUTGET4args.
    pub struct GetArgs of "LAYOUTGET4args" {
        /// Whether to call when one can be had.
        signal_layout_avail: bool,
        /// Kind of layout.
        layout_type: LayoutType,
        /// What for.
        iomode: LayoutIoMode,
        /// Where the range begins.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// Bytes that it must have at least.
        minlength: u64,
        /// The open or layout.
        stateid: StateId,
        /// Longest answer in bytes.
        maxcount: u32,
    }
}

xdr_struct! {
    /// One layout (layout4).
    pub struct Layout<'a> of "layout4" {
        /// Where the range begins.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// What for.
        iomode: LayoutIoMode,
        /// Kind of layout.
        content_type: LayoutType,
        /// The layout itself.
        content_body: &'a [u8],
    }
}

xdr_struct! {
    /// LAYOUTGET4resok.
    pub struct GetResOk<'a> of "LAYOUTGET4resok" {
        /// Whether CLOSE gives it back.
        return_on_close: bool,
        /// The layout's state.
        stateid: StateId,
        /// The layouts.
        layout: List<'a, Layout<'a>>,
    }
}

xdr_struct! {
    /// A layout of a file that is given back (layoutreturn_file4).
    pub struct ReturnFile<'a> of "layoutreturn_file4" {
        /// Where the range begins.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// The layout.
        stateid: StateId,
        /// What its kind says about it.
        body: &'a [u8],
    }
}

xdr_union! {
    /// Which layouts are given back (layoutreturn4).
    pub enum Return<'a> of "layoutreturn4" {
        void {
            /// All of a file system.
            Fsid = 2,
            /// All.
            All = 3,
        }
        data {
            /// One file's.
            File(ReturnFile<'a>) = 1,
        }
    }
}

xdr_struct! {
    /// LAYOUTRETURN4args.
    pub struct ReturnArgs<'a> of "LAYOUTRETURN4args" {
        /// Whether it is a reclaim.
        reclaim: bool,
        /// Kind of layout.
        layout_type: LayoutType,
        /// What for.
        iomode: LayoutIoMode,
        /// Which.
        layoutreturn: Return<'a>,
    }
}

xdr_struct! {
    /// What is left.
    pub struct ReturnResOk of "LAYOUTRETURN4res" {
        /// The layout's state; none when nothing is left of it.
        stateid: Option<StateId>,
    }
}

xdr_struct! {
    /// What went wrong with a device (device_error4).
    pub struct DeviceError of "device_error4" {
        /// The device.
        deviceid: DeviceId,
        /// What went wrong.
        status: NfsStat,
        /// In which operation.
        opnum: u32,
    }
}

xdr_struct! {
    /// LAYOUTERROR4args.
    pub struct ErrorArgs<'a> of "LAYOUTERROR4args" {
        /// Where the range begins.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// The layout.
        stateid: StateId,
        /// What went wrong.
        errors: List<'a, DeviceError>,
    }
}

xdr_struct! {
    /// How much was read or written (io_info4).
    pub struct IoInfo of "io_info4" {
        /// Operations.
        count: u64,
        /// Bytes.
        bytes: u64,
    }
}

xdr_struct! {
    /// LAYOUTSTATS4args.
    pub struct StatsArgs<'a> of "LAYOUTSTATS4args" {
        /// Where the range begins.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// The layout.
        stateid: StateId,
        /// What was read.
        read: IoInfo,
        /// What was written.
        write: IoInfo,
        /// The device.
        deviceid: DeviceId,
        /// What its kind says about it.
        layoutupdate: LayoutUpdate<'a>,
    }
}

macro_rules! with_one_more {
    ($($(#[$meta:meta])* $name:ident($ok:ty), $other:ident($ty:ty) = $status:ident;)*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name<'a> {
            /// It is granted.
            Ok($ok),
            #[doc = concat!("NFS4ERR_ with the name `", stringify!($status), "`, and what comes with it.")]
            $other($ty),
            /// Anything else.
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

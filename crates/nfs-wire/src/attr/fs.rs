//! Attributes about file systems, where they lie, and other seldom ones (RFC 8881 5.8 to 5.13 and 11).

use crate::attr::Bitmap;
use crate::macros::{xdr_enum, xdr_struct};
use crate::types::{Component, LayoutType, NfsTime, PathName};
use crate::xdr::List;

xdr_struct! {
    /// Servers that have a file system.
    pub struct FsLocation<'a> of "fs_location4" {
        /// Their names or addresses.
        server: List<'a, &'a [u8]>,
        /// Where it is there.
        rootpath: PathName<'a>,
    }
}

xdr_struct! {
    /// Where a file system lies.
    pub struct FsLocations<'a> of "fs_locations4" {
        /// Where it is here.
        fs_root: PathName<'a>,
        /// Where else.
        locations: List<'a, FsLocation<'a>>,
    }
}

xdr_struct! {
    /// One server of fs_locations_info.
    pub struct FsLocationsServer<'a> of "fs_locations_server4" {
        /// How many seconds the data may lag behind; -1 unknown.
        currency: i32,
        /// Bytes at the places FSLI4BX_*.
        info: &'a [u8],
        /// Name or address.
        server: &'a [u8],
    }
}

xdr_struct! {
    /// Servers that share a path.
    pub struct FsLocationsItem<'a> of "fs_locations_item4" {
        /// The servers.
        entries: List<'a, FsLocationsServer<'a>>,
        /// Where it is there.
        rootpath: PathName<'a>,
    }
}

xdr_struct! {
    /// Where a file system lies, in more words.
    pub struct FsLocationsInfo<'a> of "fs_locations_info4" {
        /// FSLI4IF_*.
        flags: u32,
        /// Seconds.
        valid_for: i32,
        /// Where it is here.
        fs_root: PathName<'a>,
        /// Where else.
        items: List<'a, FsLocationsItem<'a>>,
    }
}

xdr_enum! {
    /// What becomes of a file system's data (fs4_status_type).
    pub enum FsStatusType {
        Fixed = 1,
        Updated = 2,
        Versioned = 3,
        Writable = 4,
        Referral = 5,
    }
}

xdr_struct! {
    /// Where a file system's data comes from.
    pub struct FsStatus<'a> of "fs4_status" {
        /// Whether it is not here.
        absent: bool,
        /// What becomes of the data.
        status_type: FsStatusType,
        /// Where it was copied from.
        source: &'a [u8],
        /// Which state of it this is.
        current: &'a [u8],
        /// Seconds since it was current.
        age: i32,
        /// Its version.
        version: NfsTime,
    }
}

xdr_struct! {
    /// How a client would like a file to be laid out.
    pub struct LayoutHint<'a> of "layouthint4" {
        /// Kind of the hint.
        layout_type: LayoutType,
        /// The hint.
        body: &'a [u8],
    }
}

xdr_struct! {
    /// Sizes from which on I/O should go to data servers.
    pub struct ThresholdItem<'a> of "threshold_item4" {
        /// Kind of layout.
        layout_type: LayoutType,
        /// Which hints there are.
        hintset: Bitmap,
        /// The hints.
        hintlist: &'a [u8],
    }
}

xdr_struct! {
    /// How long a file is retained.
    pub struct RetentionGet of "retention_get4" {
        /// Seconds.
        duration: u64,
        /// From when on; none when it has not begun.
        begin_time: Option<NfsTime>,
    }
}

xdr_struct! {
    /// Sets how long a file is retained.
    pub struct RetentionSet of "retention_set4" {
        /// Whether it begins now.
        enable: bool,
        /// Seconds.
        duration: Option<u64>,
    }
}

xdr_struct! {
    /// Sets some permission bits.
    pub struct ModeMasked of "mode_masked4" {
        /// Their new values.
        value_to_set: u32,
        /// Which bits.
        mask_bits: u32,
    }
}

xdr_struct! {
    /// Permission bits of something new, before the maker's mask.
    pub struct ModeUmask of "mode_umask4" {
        /// The bits that the program asked for.
        mode: u32,
        /// The bits that are taken away unless a list is inherited.
        umask: u32,
    }
}

xdr_enum! {
    /// How the change attribute grows (change_attr_type4, RFC 7862 12.2.3).
    pub enum ChangeAttrType {
        MonotonicIncr = 0,
        VersionCounter = 1,
        VersionCounterNoPnfs = 2,
        TimeMetadata = 3,
        Undefined = 4,
    }
}

xdr_struct! {
    /// A security label (RFC 7862 12.2.4).
    pub struct SecLabel<'a> of "sec_label4" {
        /// Format of the label.
        lfs: u32,
        /// Policy it belongs to.
        pi: u32,
        /// The label.
        data: Component<'a>,
    }
}

//! Attributes about file systems, their locations, and other rare ones (RFC 8881 5.8 to 5.13 and 11).

use crate::attr::Bitmap;
use crate::macros::{xdr_enum, xdr_struct};
use crate::types::{Component, LayoutType, NfsTime, PathName};
use crate::xdr::List;

xdr_struct! {
    /// Servers that have a file system, and its path there.
    pub struct FsLocation<'a> of "fs_location4" {
        /// The names or addresses of the servers.
        server: List<'a, &'a [u8]>,
        /// The path of the file system on them.
        rootpath: PathName<'a>,
    }
}

xdr_struct! {
    /// The locations of a file system.
    pub struct FsLocations<'a> of "fs_locations4" {
        /// Its path on this server.
        fs_root: PathName<'a>,
        /// Its other locations.
        locations: List<'a, FsLocation<'a>>,
    }
}

xdr_struct! {
    /// One server of fs_locations_info.
    pub struct FsLocationsServer<'a> of "fs_locations_server4" {
        /// The most seconds by which the data may be out of date. -1 means unknown.
        currency: i32,
        /// Bytes at the indexes FSLI4BX_*.
        info: &'a [u8],
        /// Name or address of the server.
        server: &'a [u8],
    }
}

xdr_struct! {
    /// Servers that share a path.
    pub struct FsLocationsItem<'a> of "fs_locations_item4" {
        /// The servers.
        entries: List<'a, FsLocationsServer<'a>>,
        /// The path of the file system on them.
        rootpath: PathName<'a>,
    }
}

xdr_struct! {
    /// The locations of a file system in detail.
    pub struct FsLocationsInfo<'a> of "fs_locations_info4" {
        /// FSLI4IF_*.
        flags: u32,
        /// Seconds.
        valid_for: i32,
        /// Its path on this server.
        fs_root: PathName<'a>,
        /// Its other locations.
        items: List<'a, FsLocationsItem<'a>>,
    }
}

xdr_enum! {
    /// The kind of updates to a file system's data (fs4_status_type).
    pub enum FsStatusType {
        Fixed = 1,
        Updated = 2,
        Versioned = 3,
        Writable = 4,
        Referral = 5,
    }
}

xdr_struct! {
    /// The status of a file system and its data.
    pub struct FsStatus<'a> of "fs4_status" {
        /// Whether the file system is not on this server.
        absent: bool,
        /// The kind of updates to the data.
        status_type: FsStatusType,
        /// The source of the data.
        source: &'a [u8],
        /// The current version of the source.
        current: &'a [u8],
        /// Seconds since it was current.
        age: i32,
        /// Its version.
        version: NfsTime,
    }
}

xdr_struct! {
    /// A client's preference for the layout of a file.
    pub struct LayoutHint<'a> of "layouthint4" {
        /// The layout type of the hint.
        layout_type: LayoutType,
        /// The hint.
        body: &'a [u8],
    }
}

xdr_struct! {
    /// Sizes from which I/O should go to data servers.
    pub struct ThresholdItem<'a> of "threshold_item4" {
        /// The layout type.
        layout_type: LayoutType,
        /// The hints that are present.
        hintset: Bitmap,
        /// The hints.
        hintlist: &'a [u8],
    }
}

xdr_struct! {
    /// The retention of a file.
    pub struct RetentionGet of "retention_get4" {
        /// Seconds.
        duration: u64,
        /// Start of the retention. None if it has not begun.
        begin_time: Option<NfsTime>,
    }
}

xdr_struct! {
    /// Sets the retention of a file.
    pub struct RetentionSet of "retention_set4" {
        /// Whether it begins now.
        enable: bool,
        /// Seconds.
        duration: Option<u64>,
    }
}

xdr_struct! {
    /// Sets some of the permission bits.
    pub struct ModeMasked of "mode_masked4" {
        /// The new values of the bits.
        value_to_set: u32,
        /// The bits to set.
        mask_bits: u32,
    }
}

xdr_struct! {
    /// The permission bits of a new object, and the creator's mask.
    pub struct ModeUmask of "mode_umask4" {
        /// The bits that the program asked for.
        mode: u32,
        /// The bits to remove, unless an access list is inherited.
        umask: u32,
    }
}

xdr_enum! {
    /// The behavior of the change attribute (change_attr_type4, RFC 7862 12.2.3).
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
        /// The format of the label.
        lfs: u32,
        /// The policy that it belongs to.
        pi: u32,
        /// The label.
        data: Component<'a>,
    }
}

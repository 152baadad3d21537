//! Arguments and results of every operation, and the table from their numbers to them.
//!
//! There is one module for each operation or family. [`Args`] are the arguments of an operation, [`Res`] its
//! result, and [`OpNum`] its number. Most results are `Result<ResOk, NfsStat>`. Results with more cases are
//! enums of their own, and [`Outcome`] is their common interface.

pub mod access;
pub mod allocate;
pub mod backchannel_ctl;
pub mod bind_conn_to_session;
pub mod clone;
pub mod close;
pub mod commit;
pub mod copy;
pub mod create;
pub mod create_session;
pub mod delegation;
pub mod destroy;
pub mod exchange_id;
pub mod filehandle;
pub mod getattr;
pub mod io_advise;
pub mod layout;
pub mod lock;
pub mod names;
pub mod open;
mod outcome;
pub mod read;
pub mod read_plus;
pub mod readdir;
pub mod secinfo;
pub mod seek;
pub mod sequence;
pub mod set_ssv;
pub mod setattr;
pub mod stateid;
pub mod v40;
pub mod write;
pub mod xattr;

use crate::Malformed;
use crate::status::NfsStat;
use crate::xdr::{Decode, Encode};
pub use outcome::{Outcome, Plain};
use wire::Cursor;

macro_rules! operations {
    (
        $(#[$nmeta:meta])* $nums:ident; $(#[$ameta:meta])* $args:ident; $(#[$rmeta:meta])* $results:ident;
        $($variant:ident = $number:literal, $rfc:literal: ($($arg:ty)?) -> $res:ty;)*
    ) => {
        wire::wire_enum! {
            $(#[$nmeta])*
            pub enum $nums: u32 {
                $(#[doc = concat!($rfc, ".")] $variant = $number,)*
            }
        }

        impl $nums {
            /// The name of the operation in its RFC. None if it is unknown.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $($nums::$variant => Some($rfc),)*
                    $nums::Unknown(_) => None,
                }
            }
        }

        impl $crate::xdr::Encode for $nums {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                self.get().encode(out);
            }
        }

        $(#[$ameta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $args<'a> {
            $(#[doc = concat!($rfc, ".")] $variant $(($arg))?,)*
            /// A number that no operation has. The end of its arguments is unknown.
            Illegal(u32),
        }

        impl<'a> $args<'a> {
            /// The number of the operation.
            #[inline]
            #[must_use]
            pub const fn number(&self) -> $nums {
                match self {
                    $(operations!(@pattern $args $variant $(, $arg)?) => $nums::$variant,)*
                    $args::Illegal(number) => $nums::Unknown(*number),
                }
            }
        }

        impl $crate::xdr::Encode for $args<'_> {
            /// Appends the number and the arguments.
            fn encode(&self, out: &mut Vec<u8>) {
                self.number().encode(out);
                match self {
                    $(operations!(@bind args, $args $variant $(, $arg)?) => {
                        operations!(@encode args, out $(, $arg)?)
                    })*
                    $args::Illegal(_) => {}
                }
            }
        }

        impl<'a> $crate::xdr::Decode<'a> for $args<'a> {
            /// Reads the number and the arguments.
            #[inline]
            fn decode(r: &mut Cursor<'a>) -> Result<Self, Malformed> {
                Ok(match u32::decode(r)? {
                    $($number => operations!(@decode r, $rfc, $args $variant $(, $arg)?),)*
                    number => $args::Illegal(number),
                })
            }
        }

        $(#[$rmeta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $results<'a> {
            $(#[doc = concat!("Of ", $rfc, ".")] $variant($res),)*
            /// The result for a number that no operation has.
            Illegal(NfsStat),
        }

        impl<'a> $results<'a> {
            /// The number of its operation.
            #[must_use]
            pub const fn number(&self) -> $nums {
                match self {
                    $($results::$variant(_) => $nums::$variant,)*
                    $results::Illegal(_) => $nums::Unknown(ILLEGAL),
                }
            }

            /// The status of the operation.
            #[must_use]
            pub fn status(&self) -> NfsStat {
                match self {
                    $($results::$variant(result) => result.status(),)*
                    $results::Illegal(status) => *status,
                }
            }
        }

        impl $crate::xdr::Encode for $results<'_> {
            /// Appends the number, the status and the rest of the result.
            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $($results::$variant(result) => {
                        [$number, result.status().get()].iter().for_each(|word: &u32| word.encode(out));
                        result.encode_rest(out);
                    })*
                    $results::Illegal(status) => {
                        [ILLEGAL, status.get()].iter().for_each(|word| word.encode(out));
                    }
                }
            }
        }

        impl<'a> $crate::xdr::Decode<'a> for $results<'a> {
            /// Reads the number, the status and the rest of the result. A number that no operation has is
            /// malformed.
            fn decode(r: &mut Cursor<'a>) -> Result<Self, Malformed> {
                let number = u32::decode(r).map_err(|e| e.within("resop", "number"))?;
                let status = NfsStat::decode(r).map_err(|e| e.within("resop", "status"))?;
                match number {
                    $($number => Outcome::decode_rest(status, r)
                        .map($results::$variant)
                        .map_err(|e| e.within($rfc, "result")),)*
                    ILLEGAL => Ok($results::Illegal(status)),
                    _ => Err(Malformed::new("resop", "number")),
                }
            }
        }
    };
    (@pattern $args:ident $variant:ident) => { $args::$variant };
    (@pattern $args:ident $variant:ident, $arg:ty) => { $args::$variant(_) };
    (@bind $args_:ident, $args:ident $variant:ident) => { $args::$variant };
    (@bind $args_:ident, $args:ident $variant:ident, $arg:ty) => { $args::$variant($args_) };
    (@decode $r:ident, $rfc:literal, $args:ident $variant:ident) => { $args::$variant };
    (@decode $r:ident, $rfc:literal, $args:ident $variant:ident, $arg:ty) => {
        $args::$variant(<$arg as Decode<'a>>::decode($r).map_err(|e| e.within($rfc, "arguments"))?)
    };
    (@encode $args_:ident, $out:ident) => { {} };
    (@encode $args_:ident, $out:ident, $arg:ty) => { Encode::encode($args_, $out) };
}

pub(crate) use operations;

/// An operation of one of the two programs, for [`crate::compound::Operations`].
pub trait Operation<'a>: Decode<'a> {
    /// An operation that the program does not have.
    fn illegal(number: u32) -> Self;

    /// Whether the program has operation `number` in `minor_version`.
    fn is_known(number: u32, minor_version: u32) -> bool;
}

/// OP_ILLEGAL and OP_CB_ILLEGAL: the number in the reply to an operation that does not exist.
pub(crate) const ILLEGAL: u32 = 10044;

operations! {
    /// Numbers of operations (nfs_opnum4).
    OpNum;
    /// The arguments of an operation (nfs_argop4).
    Args;
    /// The result of an operation (nfs_resop4).
    Res;
    Access = 3, "ACCESS": (access::Args) -> Result<access::ResOk, NfsStat>;
    Close = 4, "CLOSE": (close::Args) -> Result<close::ResOk, NfsStat>;
    Commit = 5, "COMMIT": (commit::Args) -> Result<commit::ResOk, NfsStat>;
    Create = 6, "CREATE": (create::Args<'a>) -> Result<create::ResOk, NfsStat>;
    DelegPurge = 7, "DELEGPURGE": (delegation::PurgeArgs) -> Plain;
    DelegReturn = 8, "DELEGRETURN": (delegation::ReturnArgs) -> Plain;
    GetAttr = 9, "GETATTR": (getattr::Args) -> Result<getattr::ResOk<'a>, NfsStat>;
    GetFh = 10, "GETFH": () -> Result<filehandle::GetResOk<'a>, NfsStat>;
    Link = 11, "LINK": (names::LinkArgs<'a>) -> Result<names::Changed, NfsStat>;
    Lock = 12, "LOCK": (lock::Args<'a>) -> lock::Res<'a, lock::ResOk>;
    LockT = 13, "LOCKT": (lock::TestArgs<'a>) -> lock::Res<'a, ()>;
    LockU = 14, "LOCKU": (lock::UnlockArgs) -> Result<lock::ResOk, NfsStat>;
    Lookup = 15, "LOOKUP": (names::LookupArgs<'a>) -> Plain;
    LookupP = 16, "LOOKUPP": () -> Plain;
    NVerify = 17, "NVERIFY": (getattr::VerifyArgs<'a>) -> Plain;
    Open = 18, "OPEN": (open::Args<'a>) -> Result<open::ResOk<'a>, NfsStat>;
    OpenAttr = 19, "OPENATTR": (names::OpenattrArgs) -> Plain;
    OpenConfirm = 20, "OPEN_CONFIRM": (v40::OpenConfirmArgs) -> Result<v40::OpenConfirmResOk, NfsStat>;
    OpenDowngrade = 21, "OPEN_DOWNGRADE": (open::DowngradeArgs) -> Result<open::DowngradeResOk, NfsStat>;
    PutFh = 22, "PUTFH": (filehandle::PutArgs<'a>) -> Plain;
    PutPubFh = 23, "PUTPUBFH": () -> Plain;
    PutRootFh = 24, "PUTROOTFH": () -> Plain;
    Read = 25, "READ": (read::Args) -> Result<read::ResOk<'a>, NfsStat>;
    ReadDir = 26, "READDIR": (readdir::Args) -> Result<readdir::ResOk<'a>, NfsStat>;
    ReadLink = 27, "READLINK": () -> Result<names::ReadlinkResOk<'a>, NfsStat>;
    Remove = 28, "REMOVE": (names::RemoveArgs<'a>) -> Result<names::Changed, NfsStat>;
    Rename = 29, "RENAME": (names::RenameArgs<'a>) -> Result<names::RenameResOk, NfsStat>;
    Renew = 30, "RENEW": (v40::RenewArgs) -> Plain;
    RestoreFh = 31, "RESTOREFH": () -> Plain;
    SaveFh = 32, "SAVEFH": () -> Plain;
    SecInfo = 33, "SECINFO": (secinfo::Args<'a>) -> Result<secinfo::ResOk<'a>, NfsStat>;
    SetAttr = 34, "SETATTR": (setattr::Args<'a>) -> setattr::Res;
    SetClientId = 35, "SETCLIENTID": (v40::SetClientIdArgs<'a>) -> v40::SetClientIdRes<'a>;
    SetClientIdConfirm = 36, "SETCLIENTID_CONFIRM": (v40::SetClientIdConfirm) -> Plain;
    Verify = 37, "VERIFY": (getattr::VerifyArgs<'a>) -> Plain;
    Write = 38, "WRITE": (write::Args<'a>) -> Result<write::ResOk, NfsStat>;
    ReleaseLockOwner = 39, "RELEASE_LOCKOWNER": (v40::ReleaseLockOwnerArgs<'a>) -> Plain;
    BackchannelCtl = 40, "BACKCHANNEL_CTL": (backchannel_ctl::Args<'a>) -> Plain;
    BindConnToSession = 41, "BIND_CONN_TO_SESSION": (bind_conn_to_session::Args)
        -> Result<bind_conn_to_session::ResOk, NfsStat>;
    ExchangeId = 42, "EXCHANGE_ID": (exchange_id::Args<'a>) -> Result<exchange_id::ResOk<'a>, NfsStat>;
    CreateSession = 43, "CREATE_SESSION": (create_session::Args<'a>)
        -> Result<create_session::ResOk, NfsStat>;
    DestroySession = 44, "DESTROY_SESSION": (destroy::SessionArgs) -> Plain;
    FreeStateId = 45, "FREE_STATEID": (stateid::FreeArgs) -> Plain;
    GetDirDelegation = 46, "GET_DIR_DELEGATION": (delegation::DirArgs)
        -> Result<delegation::DirResOk, NfsStat>;
    GetDeviceInfo = 47, "GETDEVICEINFO": (layout::DeviceInfoArgs) -> layout::DeviceInfoRes<'a>;
    GetDeviceList = 48, "GETDEVICELIST": (layout::DeviceListArgs)
        -> Result<layout::DeviceListResOk<'a>, NfsStat>;
    LayoutCommit = 49, "LAYOUTCOMMIT": (layout::CommitArgs<'a>) -> Result<layout::CommitResOk, NfsStat>;
    LayoutGet = 50, "LAYOUTGET": (layout::GetArgs) -> layout::GetRes<'a>;
    LayoutReturn = 51, "LAYOUTRETURN": (layout::ReturnArgs<'a>) -> Result<layout::ReturnResOk, NfsStat>;
    SecInfoNoName = 52, "SECINFO_NO_NAME": (secinfo::NoNameArgs) -> Result<secinfo::ResOk<'a>, NfsStat>;
    Sequence = 53, "SEQUENCE": (sequence::Args) -> Result<sequence::ResOk, NfsStat>;
    SetSsv = 54, "SET_SSV": (set_ssv::Args<'a>) -> Result<set_ssv::ResOk<'a>, NfsStat>;
    TestStateId = 55, "TEST_STATEID": (stateid::TestArgs<'a>) -> Result<stateid::TestResOk<'a>, NfsStat>;
    WantDelegation = 56, "WANT_DELEGATION": (delegation::WantArgs) -> Result<open::Delegation<'a>, NfsStat>;
    DestroyClientId = 57, "DESTROY_CLIENTID": (destroy::ClientIdArgs) -> Plain;
    ReclaimComplete = 58, "RECLAIM_COMPLETE": (destroy::ReclaimCompleteArgs) -> Plain;
    Allocate = 59, "ALLOCATE": (allocate::Args) -> Plain;
    Copy = 60, "COPY": (copy::Args<'a>) -> copy::Res;
    CopyNotify = 61, "COPY_NOTIFY": (copy::NotifyArgs<'a>) -> Result<copy::NotifyResOk<'a>, NfsStat>;
    Deallocate = 62, "DEALLOCATE": (allocate::Args) -> Plain;
    IoAdvise = 63, "IO_ADVISE": (io_advise::Args) -> Result<io_advise::ResOk, NfsStat>;
    LayoutError = 64, "LAYOUTERROR": (layout::ErrorArgs<'a>) -> Plain;
    LayoutStats = 65, "LAYOUTSTATS": (layout::StatsArgs<'a>) -> Plain;
    OffloadCancel = 66, "OFFLOAD_CANCEL": (copy::OffloadArgs) -> Plain;
    OffloadStatus = 67, "OFFLOAD_STATUS": (copy::OffloadArgs) -> Result<copy::OffloadStatusResOk, NfsStat>;
    ReadPlus = 68, "READ_PLUS": (read_plus::Args) -> Result<read_plus::ResOk<'a>, NfsStat>;
    Seek = 69, "SEEK": (seek::Args) -> Result<seek::ResOk, NfsStat>;
    WriteSame = 70, "WRITE_SAME": (write::SameArgs<'a>) -> Result<copy::WriteResponse, NfsStat>;
    Clone = 71, "CLONE": (clone::Args) -> Plain;
    GetXattr = 72, "GETXATTR": (xattr::NameArgs<'a>) -> Result<xattr::GetResOk<'a>, NfsStat>;
    SetXattr = 73, "SETXATTR": (xattr::SetArgs<'a>) -> Result<xattr::Changed, NfsStat>;
    ListXattrs = 74, "LISTXATTRS": (xattr::ListArgs) -> Result<xattr::ListResOk<'a>, NfsStat>;
    RemoveXattr = 75, "REMOVEXATTR": (xattr::NameArgs<'a>) -> Result<xattr::Changed, NfsStat>;
}

impl OpNum {
    /// Whether the operation is known in `minor_version`. Operations of 4.0 only are known in 4.1 too, where
    /// the reply to them is NFS4ERR_NOTSUPP.
    #[must_use]
    pub const fn is_known_in(self, minor_version: u32) -> bool {
        let number = self.get();
        match minor_version {
            0 => number >= 3 && number <= 39,
            1 => number >= 3 && number <= 58,
            _ => number >= 3 && number <= 75,
        }
    }
}

impl<'a> Operation<'a> for Args<'a> {
    fn illegal(number: u32) -> Self {
        Args::Illegal(number)
    }

    #[inline]
    fn is_known(number: u32, minor_version: u32) -> bool {
        OpNum::new(number).is_known_in(minor_version)
    }
}

//! OPEN and OPEN_DOWNGRADE (RFC 8881 18.16 and 18.18; RFC 9754).

use crate::attr::{Ace, Bitmap, Fattr};
use crate::macros::{xdr_enum, xdr_flags, xdr_struct, xdr_union};
use crate::types::{ChangeInfo, Component, StateId, StateOwner, Verifier};

/// The bits of `share_access` for the wanted delegation. They hold one of `WANT_*`.
pub const WANT_DELEG_MASK: u32 = 0xff00;

xdr_flags! {
    /// `share_access`: the access of the open, and in the upper bits the wanted delegation.
    pub struct ShareAccess {
        READ = 0x0000_0001,
        WRITE = 0x0000_0002,
        BOTH = 0x0000_0003,
        WANT_READ_DELEG = 0x0000_0100,
        WANT_WRITE_DELEG = 0x0000_0200,
        WANT_ANY_DELEG = 0x0000_0300,
        WANT_NO_DELEG = 0x0000_0400,
        WANT_CANCEL = 0x0000_0500,
        WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL = 0x0001_0000,
        WANT_PUSH_DELEG_WHEN_UNCONTENDED = 0x0002_0000,
        /// The holder of a write delegation keeps the times (RFC 9754).
        WANT_DELEG_TIMESTAMPS = 0x0010_0000,
        /// Either an open or a delegation is enough (RFC 9754).
        WANT_OPEN_XOR_DELEGATION = 0x0020_0000,
    }
}

xdr_flags! {
    /// `share_deny`: the access that is denied to others.
    pub struct ShareDeny {
        READ = 0x0000_0001,
        WRITE = 0x0000_0002,
        BOTH = 0x0000_0003,
    }
}

xdr_struct! {
    /// A verifier for retries, and attributes (creatverfattr).
    pub struct CreateVerfAttr<'a> of "creatverfattr" {
        /// The verifier.
        verf: Verifier,
        /// The attributes.
        attrs: Fattr<'a>,
    }
}

xdr_union! {
    /// The method for creating a file (createhow4).
    pub enum CreateHow<'a> of "createhow4" {
        void {}
        data {
            /// An existing file is opened.
            Unchecked(Fattr<'a>) = 0,
            /// The file must not exist.
            Guarded(Fattr<'a>) = 1,
            /// The file must not exist, unless the request is a retry.
            Exclusive(Verifier) = 2,
            /// The same, with attributes.
            Exclusive41(CreateVerfAttr<'a>) = 3,
        }
    }
}

xdr_union! {
    /// Whether to create a file (openflag4).
    pub enum OpenHow<'a> of "openflag4" {
        void {
            /// The file must exist.
            NoCreate = 0,
        }
        data {
            /// The file is created if it does not exist.
            Create(CreateHow<'a>) = 1,
        }
    }
}

xdr_enum! {
    /// The type of a delegation (open_delegation_type4).
    pub enum DelegationType {
        None = 0,
        Read = 1,
        Write = 2,
        NoneExt = 3,
        ReadAttrs = 4,
        WriteAttrs = 5,
    }
}

xdr_struct! {
    /// A file that was opened under a delegation (open_claim_delegate_cur4).
    pub struct DelegateCur<'a> of "open_claim_delegate_cur4" {
        /// The delegation.
        delegate_stateid: StateId,
        /// The name in the current directory.
        file: Component<'a>,
    }
}

xdr_union! {
    /// The file to open, and the claim to it (open_claim4).
    pub enum Claim<'a> of "open_claim4" {
        void {
            /// The current filehandle.
            Fh = 4,
            /// The current filehandle, under a delegation from before a restart of the client.
            DelegPrevFh = 6,
        }
        data {
            /// A name in the current directory.
            Null(Component<'a>) = 0,
            /// The current filehandle, open before a restart of the server; with the delegation that was
            /// held.
            Previous(DelegationType) = 1,
            /// A name, under a delegation.
            DelegateCur(DelegateCur<'a>) = 2,
            /// A name, under a delegation from before a restart of the client.
            DelegatePrev(Component<'a>) = 3,
            /// The current filehandle, under this delegation.
            DelegCurFh(StateId) = 5,
        }
    }
}

xdr_struct! {
    /// OPEN4args.
    pub struct Args<'a> of "OPEN4args" {
        /// Ignored in 4.1.
        seqid: u32,
        /// The access of the open.
        share_access: ShareAccess,
        /// The access that is denied to others.
        share_deny: ShareDeny,
        /// The open-owner.
        owner: StateOwner<'a>,
        /// Whether to create the file.
        openhow: OpenHow<'a>,
        /// The file to open.
        claim: Claim<'a>,
    }
}

xdr_struct! {
    /// A limit in blocks (nfs_modified_limit4).
    pub struct ModifiedLimit of "nfs_modified_limit4" {
        /// Number of blocks.
        num_blocks: u32,
        /// Size of a block in bytes.
        bytes_per_block: u32,
    }
}

xdr_union! {
    /// The limit up to which the holder of a WRITE delegation may write without asking (nfs_space_limit4).
    pub enum SpaceLimit of "nfs_space_limit4" {
        void {}
        data {
            /// The size of the file.
            Size(u64) = 1,
            /// A number of blocks.
            Blocks(ModifiedLimit) = 2,
        }
    }
}

xdr_struct! {
    /// A READ delegation (open_read_delegation4).
    pub struct ReadDelegation<'a> of "open_read_delegation4" {
        /// The delegation.
        stateid: StateId,
        /// Whether it is recalled at once.
        recall: bool,
        /// The users that may open the file without asking the server.
        permissions: Ace<'a>,
    }
}

xdr_struct! {
    /// A WRITE delegation (open_write_delegation4).
    pub struct WriteDelegation<'a> of "open_write_delegation4" {
        /// The delegation.
        stateid: StateId,
        /// Whether it is recalled at once.
        recall: bool,
        /// The limit for writing.
        space_limit: SpaceLimit,
        /// The users that may open the file without asking the server.
        permissions: Ace<'a>,
    }
}

xdr_union! {
    /// The reason why there is no delegation (open_none_delegation4, why_no_delegation4).
    pub enum WhyNone of "open_none_delegation4" {
        void {
            /// None was wanted.
            NotWanted = 0,
            /// Not for this kind of file.
            NotSuppFtype = 3,
            /// No WRITE delegation for this kind of file.
            WriteDelegNotSuppFtype = 4,
            /// A READ delegation cannot become a WRITE delegation.
            NotSuppUpgrade = 5,
            /// A WRITE delegation cannot become a READ delegation.
            NotSuppDowngrade = 6,
            /// The request for a delegation was cancelled.
            Cancelled = 7,
            /// It is a directory.
            IsDir = 8,
        }
        data {
            /// Others use the file. True if the server will push a delegation later.
            Contention(bool) = 1,
            /// The server lacks resources. True if the server will call later.
            Resource(bool) = 2,
        }
        default
        /// Another reason.
        Other
    }
}

xdr_union! {
    /// The delegation that came with an OPEN, or the reason why there is none (open_delegation4).
    pub enum Delegation<'a> of "open_delegation4" {
        void {
            /// No delegation, without a reason.
            None = 0,
        }
        data {
            /// A READ delegation.
            Read(ReadDelegation<'a>) = 1,
            /// A WRITE delegation.
            Write(WriteDelegation<'a>) = 2,
            /// No delegation, with the reason.
            NoneExt(WhyNone) = 3,
            /// A READ delegation whose holder keeps the access time (RFC 9754).
            ReadAttrs(ReadDelegation<'a>) = 4,
            /// A WRITE delegation whose holder keeps the times (RFC 9754).
            WriteAttrs(WriteDelegation<'a>) = 5,
        }
    }
}

xdr_struct! {
    /// The arguments of OPEN that a server supports (open_arguments4), by the numbers of RFC 9754 3.1. Those
    /// are the numbers of the values, and from 16 on the numbers of the bits of `share_access`.
    pub struct OpenArguments of "open_arguments4" {
        /// The supported access.
        share_access: Bitmap,
        /// The access that may be denied.
        share_deny: Bitmap,
        /// The supported requests for delegations.
        share_access_want: Bitmap,
        /// The supported claims.
        open_claim: Bitmap,
        /// The supported methods of creation.
        create_mode: Bitmap,
    }
}

xdr_flags! {
    /// OPEN4_RESULT_*.
    pub struct ResultFlags {
        CONFIRM = 0x0000_0002,
        LOCKTYPE_POSIX = 0x0000_0004,
        PRESERVE_UNLINKED = 0x0000_0008,
        MAY_NOTIFY_LOCK = 0x0000_0020,
    }
}

xdr_struct! {
    /// OPEN4resok.
    pub struct ResOk<'a> of "OPEN4resok" {
        /// The open.
        stateid: StateId,
        /// The change attribute of the directory before and after.
        cinfo: ChangeInfo,
        /// The properties of the open.
        rflags: ResultFlags,
        /// The attributes that were set.
        attrset: Bitmap,
        /// The delegation.
        delegation: Delegation<'a>,
    }
}

xdr_struct! {
    /// OPEN_DOWNGRADE4args.
    pub struct DowngradeArgs of "OPEN_DOWNGRADE4args" {
        /// The open.
        open_stateid: StateId,
        /// Ignored in 4.1.
        seqid: u32,
        /// The new access of the open.
        share_access: ShareAccess,
        /// The access that is denied to others from now on.
        share_deny: ShareDeny,
    }
}

xdr_struct! {
    /// OPEN_DOWNGRADE4resok.
    pub struct DowngradeResOk of "OPEN_DOWNGRADE4resok" {
        /// The open.
        open_stateid: StateId,
    }
}

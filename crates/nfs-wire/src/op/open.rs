//! OPEN and OPEN_DOWNGRADE (RFC 8881 18.16 and 18.18; RFC 9754).

use crate::attr::{Ace, Bitmap, Fattr};
use crate::macros::{xdr_enum, xdr_flags, xdr_struct, xdr_union};
use crate::types::{ChangeInfo, Component, Owner, StateId, Verifier};

/// The bits of `share_access` that say which delegation is wanted; what they hold is one of `WANT_*`.
pub const WANT_DELEG_MASK: u32 = 0xff00;

xdr_flags! {
    /// `share_access`: what the open is for, and in its upper bits what delegation is wanted.
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
        /// With a delegation to write the client keeps the times (RFC 9754).
        WANT_DELEG_TIMESTAMPS = 0x0010_0000,
        /// Either an open or a delegation is enough (RFC 9754).
        WANT_OPEN_XOR_DELEGATION = 0x0020_0000,
    }
}

xdr_flags! {
    /// `share_deny`: what others may not do meanwhile.
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
    /// How to make a file (createhow4).
    pub enum CreateHow<'a> of "createhow4" {
        void {}
        data {
            /// Open it when it is there.
            Unchecked(Fattr<'a>) = 0,
            /// It may not be there.
            Guarded(Fattr<'a>) = 1,
            /// It may not be there, unless a retry has made it.
            Exclusive(Verifier) = 2,
            /// The same, with attributes.
            Exclusive41(CreateVerfAttr<'a>) = 3,
        }
    }
}

xdr_union! {
    /// Whether to make a file (openflag4).
    pub enum OpenHow<'a> of "openflag4" {
        void {
            /// It must be there.
            NoCreate = 0,
        }
        data {
            /// Make it.
            Create(CreateHow<'a>) = 1,
        }
    }
}

xdr_enum! {
    /// Kind of a delegation (open_delegation_type4).
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
        /// Name in the current directory.
        file: Component<'a>,
    }
}

xdr_union! {
    /// What is opened, and why (open_claim4).
    pub enum Claim<'a> of "open_claim4" {
        void {
            /// The current filehandle.
            Fh = 4,
            /// The current filehandle, under a delegation from before the client began anew.
            DelegPrevFh = 6,
        }
        data {
            /// A name in the current directory.
            Null(Component<'a>) = 0,
            /// The current filehandle, open before the server began anew; the delegation held.
            Previous(DelegationType) = 1,
            /// A name, under a delegation.
            DelegateCur(DelegateCur<'a>) = 2,
            /// A name, under a delegation from before the client began anew.
            DelegatePrev(Component<'a>) = 3,
            /// The current filehandle, under this delegation.
            DelegCurFh(StateId) = 5,
        }
    }
}

xdr_struct! {
    /// OPEN4args.
    pub struct Args<'a> of "OPEN4args" {
        /// Not looked at in 4.1.
        seqid: u32,
        /// What for.
        share_access: ShareAccess,
        /// What others may not do.
        share_deny: ShareDeny,
        /// Who opens.
        owner: Owner<'a>,
        /// Whether to make the file.
        openhow: OpenHow<'a>,
        /// What is opened.
        claim: Claim<'a>,
    }
}

xdr_struct! {
    /// A limit in blocks (nfs_modified_limit4).
    pub struct ModifiedLimit of "nfs_modified_limit4" {
        /// How many.
        num_blocks: u32,
        /// Of which size.
        bytes_per_block: u32,
    }
}

xdr_union! {
    /// Up to where the holder of a WRITE delegation may write without asking (nfs_space_limit4).
    pub enum SpaceLimit of "nfs_space_limit4" {
        void {}
        data {
            /// Size of the file.
            Size(u64) = 1,
            /// Blocks.
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
        /// Who may open without asking.
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
        /// Up to where.
        space_limit: SpaceLimit,
        /// Who may open without asking.
        permissions: Ace<'a>,
    }
}

xdr_union! {
    /// Why there is no delegation (open_none_delegation4, why_no_delegation4).
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
            /// The want was taken back.
            Cancelled = 7,
            /// It is a directory.
            IsDir = 8,
        }
        data {
            /// Others use the file; whether the server will push one.
            Contention(bool) = 1,
            /// The server has no room; whether it will call.
            Resource(bool) = 2,
        }
        default
        /// Another reason.
        Other
    }
}

xdr_union! {
    /// The delegation that came with an OPEN, or why there is none (open_delegation4).
    pub enum Delegation<'a> of "open_delegation4" {
        void {
            /// None, and no reason.
            None = 0,
        }
        data {
            /// A READ delegation.
            Read(ReadDelegation<'a>) = 1,
            /// A WRITE delegation.
            Write(WriteDelegation<'a>) = 2,
            /// None, and why.
            NoneExt(WhyNone) = 3,
            /// A READ delegation whose holder keeps the time of access (RFC 9754).
            ReadAttrs(ReadDelegation<'a>) = 4,
            /// A WRITE delegation whose holder keeps the times (RFC 9754).
            WriteAttrs(WriteDelegation<'a>) = 5,
        }
    }
}

xdr_struct! {
    /// The arguments of OPEN that a server takes (open_arguments4), by the numbers of RFC 9754 3.1. These are those of the values, and
    /// those of the bits of `share_access` from 16 on.
    pub struct OpenArguments of "open_arguments4" {
        /// For what.
        share_access: Bitmap,
        /// The access that may be denied.
        share_deny: Bitmap,
        /// The wishes about delegations that may be told.
        share_access_want: Bitmap,
        /// Why something is opened.
        open_claim: Bitmap,
        /// How something is made.
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
        /// The directory around the change.
        cinfo: ChangeInfo,
        /// What holds for the open.
        rflags: ResultFlags,
        /// Which attributes were set.
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
        /// Not looked at in 4.1.
        seqid: u32,
        /// What it is for from now on.
        share_access: ShareAccess,
        /// What others may not do from now on.
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

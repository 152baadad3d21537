//! The operations by number, and how each is counted: in the counters and against the limits of a share.

use nfs_wire::op::OpNum;
use share::counts::Family;

/// The highest number of an operation plus one (RFC 8276).
pub(crate) const OPERATIONS: usize = 76;

/// The operations by number. The first entry stands for unknown ones.
pub static FAMILY: Family =
    Family { name: "NFS", operations: &NAMES, authentications: &["AUTH_SYS", "AUTH_NONE"] };

static NAMES: [&str; OPERATIONS] = names();

const fn names() -> [&'static str; OPERATIONS] {
    let mut names = ["Unknown"; OPERATIONS];
    let mut at = 0;
    while at < OPERATIONS {
        if let Some(name) = OpNum::new(at as u32).name() {
            names[at] = name;
        }
        at += 1;
    }
    names
}

/// How an operation counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// As an operation on metadata.
    Always,
    /// As an operation on metadata, if nothing before it in the COMPOUND has counted.
    Alone,
    /// It does not count as metadata.
    No,
}

/// How the operation with this number counts.
pub(crate) fn count(number: OpNum) -> Count {
    match number {
        OpNum::Open
        | OpNum::Close
        | OpNum::OpenDowngrade
        | OpNum::Create
        | OpNum::Remove
        | OpNum::Rename
        | OpNum::Link
        | OpNum::SetAttr
        | OpNum::ReadDir
        | OpNum::Lock
        | OpNum::LockU
        | OpNum::Allocate
        | OpNum::Deallocate
        | OpNum::Copy
        | OpNum::Clone
        | OpNum::SetXattr
        | OpNum::RemoveXattr => Count::Always,
        OpNum::GetAttr
        | OpNum::Access
        | OpNum::Lookup
        | OpNum::LookupP
        | OpNum::ReadLink
        | OpNum::Verify
        | OpNum::NVerify
        | OpNum::LockT
        | OpNum::Seek
        | OpNum::GetXattr
        | OpNum::ListXattrs => Count::Alone,
        _ => Count::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_their_names_by_their_numbers() {
        assert_eq!(NAMES[..4], ["Unknown", "Unknown", "Unknown", "ACCESS"]);
        assert_eq!(NAMES[OpNum::Read.get() as usize], "READ");
        assert_eq!(NAMES[OPERATIONS - 1], "REMOVEXATTR");
        assert_eq!(NAMES.iter().filter(|name| **name == "Unknown").count(), 3);
    }
}

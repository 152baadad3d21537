//! Rights: the actions that an entry of a list allows or denies, and that an opener requests.

use bitflags::bitflags;

bitflags! {
    /// A set of rights on a file or directory. Unknown bits are kept.
    // MS-DTYP 2.4.3
    // MS-SMB2 2.2.13.1
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Rights: u32 {
        /// Read a file's data.
        const READ_DATA = 0x0000_0001;
        /// List a directory.
        const LIST_DIRECTORY = 0x0000_0001;
        /// Write a file's data.
        const WRITE_DATA = 0x0000_0002;
        /// Create files in a directory.
        const ADD_FILE = 0x0000_0002;
        /// Write behind a file's end.
        const APPEND_DATA = 0x0000_0004;
        /// Create directories in a directory.
        const ADD_SUBDIRECTORY = 0x0000_0004;
        /// Read extended attributes.
        const READ_EA = 0x0000_0008;
        /// Write extended attributes.
        const WRITE_EA = 0x0000_0010;
        /// Run a file.
        const EXECUTE = 0x0000_0020;
        /// Pass through a directory.
        const TRAVERSE = 0x0000_0020;
        /// Remove the children of a directory, whatever their own lists say.
        const DELETE_CHILD = 0x0000_0040;
        /// Read attributes and times.
        const READ_ATTRIBUTES = 0x0000_0080;
        /// Change attributes and times.
        const WRITE_ATTRIBUTES = 0x0000_0100;
        /// Remove or rename the object.
        const DELETE = 0x0001_0000;
        /// Read owner, group and list.
        const READ_CONTROL = 0x0002_0000;
        /// Change the list.
        const WRITE_DAC = 0x0004_0000;
        /// Change the owner.
        const WRITE_OWNER = 0x0008_0000;
        /// Wait on the object.
        const SYNCHRONIZE = 0x0010_0000;
        /// Read and change the audit list.
        const ACCESS_SYSTEM_SECURITY = 0x0100_0000;
        /// Requests all rights that are granted.
        const MAXIMUM_ALLOWED = 0x0200_0000;
        /// Stands for [`Rights::ALL`].
        const GENERIC_ALL = 0x1000_0000;
        /// Stands for [`Rights::FOR_EXECUTE`].
        const GENERIC_EXECUTE = 0x2000_0000;
        /// Stands for [`Rights::FOR_WRITE`].
        const GENERIC_WRITE = 0x4000_0000;
        /// Stands for [`Rights::FOR_READ`].
        const GENERIC_READ = 0x8000_0000;

        /// The rights that `GENERIC_READ` stands for.
        const FOR_READ = 0x0012_0089;
        /// The rights that `GENERIC_WRITE` stands for.
        const FOR_WRITE = 0x0012_0116;
        /// The rights that `GENERIC_EXECUTE` stands for.
        const FOR_EXECUTE = 0x0012_00a0;
        /// Every right on a file or directory. `GENERIC_ALL` stands for them.
        const ALL = 0x001f_01ff;
        /// The four generic rights.
        const GENERIC = 0xf000_0000;

        const _ = !0;
    }
}

impl Rights {
    /// The rights with the generic ones replaced by those that they stand for. `MAXIMUM_ALLOWED` stays.
    // MS-SMB2 2.2.13.1.1
    #[must_use]
    pub fn mapped(self) -> Rights {
        let mut out = self - Rights::GENERIC;
        for (generic, stands_for) in [
            (Rights::GENERIC_READ, Rights::FOR_READ),
            (Rights::GENERIC_WRITE, Rights::FOR_WRITE),
            (Rights::GENERIC_EXECUTE, Rights::FOR_EXECUTE),
            (Rights::GENERIC_ALL, Rights::ALL),
        ] {
            if self.contains(generic) {
                out |= stands_for;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_rights_stand_for_what_the_specification_lists() {
        let common = Rights::READ_CONTROL | Rights::SYNCHRONIZE;
        let read = Rights::READ_DATA | Rights::READ_ATTRIBUTES | Rights::READ_EA | common;
        let write =
            Rights::WRITE_DATA | Rights::APPEND_DATA | Rights::WRITE_ATTRIBUTES | Rights::WRITE_EA | common;
        let execute = Rights::READ_ATTRIBUTES | Rights::EXECUTE | common;
        assert_eq!(Rights::GENERIC_READ.mapped(), read);
        assert_eq!(Rights::GENERIC_WRITE.mapped(), write);
        assert_eq!(Rights::GENERIC_EXECUTE.mapped(), execute);
        let owner = Rights::DELETE | Rights::WRITE_DAC | Rights::WRITE_OWNER | Rights::DELETE_CHILD;
        assert_eq!(Rights::GENERIC_ALL.mapped(), read | write | execute | owner);
        assert_eq!(Rights::MAXIMUM_ALLOWED.mapped(), Rights::MAXIMUM_ALLOWED);
        assert_eq!(Rights::from_bits_retain(0x8000_0200).mapped().bits(), 0x0012_0289);
    }
}

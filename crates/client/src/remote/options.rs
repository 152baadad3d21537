//! How files are opened, in the words of each protocol.

use smb_wire::create::{Access, CreateOptions, Disposition};

use crate::nfs::{self, Creation, StableHow};
use crate::smb::OpenOptions;

/// How files below a directory are opened and made, as mount options have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountOptions {
    /// Data goes past the caches: O_DIRECT of this host, unbuffered opens over SMB.
    pub direct: bool,
    /// Each write waits for the store: O_SYNC, write-through opens, FILE_SYNC4.
    pub sync: bool,
    /// Permission bits of a file that is made over NFS.
    pub file_mode: u32,
    /// Permission bits of a directory that is made over NFS.
    pub dir_mode: u32,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions { direct: false, sync: false, file_mode: 0o644, dir_mode: 0o755 }
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// It is there, to be read.
    Read,
    /// It is there, to be read and written.
    Write,
    /// To be read and written, and made if it is missing.
    Make,
    /// It is not there, and is made to be written.
    New,
    /// It is made, or emptied, to be written.
    Anew,
}

impl OpenMode {
    pub(super) fn of_smb(self) -> OpenOptions {
        match self {
            OpenMode::Read => OpenOptions::read(),
            OpenMode::Write => OpenOptions::file(Disposition::Open),
            OpenMode::Make => OpenOptions::file(Disposition::OpenIf),
            OpenMode::New => OpenOptions {
                access: Access::FILE_GENERIC_WRITE,
                options: CreateOptions::NON_DIRECTORY_FILE,
                ..OpenOptions::file(Disposition::Create)
            },
            OpenMode::Anew => OpenOptions::file(Disposition::OverwriteIf),
        }
    }

    pub(super) fn of_nfs(self, mode: u32) -> nfs::OpenOptions {
        match self {
            OpenMode::Read => nfs::OpenOptions::read(),
            OpenMode::Write => nfs::OpenOptions::write(Creation::Never),
            OpenMode::Make => nfs::OpenOptions::write(Creation::IfMissing(mode)),
            OpenMode::New => nfs::OpenOptions { read: false, write: true, creation: Creation::Always(mode) },
            OpenMode::Anew => nfs::OpenOptions { read: false, write: true, creation: Creation::Anew(mode) },
        }
    }
}

impl MountOptions {
    /// What opens for data say of caches.
    pub(super) fn caching(self) -> CreateOptions {
        let mut caching = CreateOptions::default();
        caching.set(CreateOptions::NO_INTERMEDIATE_BUFFERING, self.direct);
        caching.set(CreateOptions::WRITE_THROUGH, self.sync);
        caching
    }

    pub(super) fn stable(self) -> StableHow {
        if self.sync { StableHow::FileSync } else { StableHow::Unstable }
    }
}

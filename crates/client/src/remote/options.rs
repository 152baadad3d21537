//! The options of opening files, translated for each protocol.

use smb_wire::create::{Access, CreateOptions, Disposition};

use crate::nfs::{self, Creation, StableHow};
use crate::smb::OpenOptions;

/// The options of opening and creating files below a directory, like those of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountOptions {
    /// Whether data bypasses the caches: O_DIRECT on this host, unbuffered opens over SMB.
    pub direct: bool,
    /// Whether each write waits for stable storage: O_SYNC, write-through opens, FILE_SYNC4.
    pub sync: bool,
    /// The permission bits of a new file over NFS, and in a tree of this host that is copied.
    pub file_mode: u32,
    /// The permission bits of a new directory over NFS, and in a tree of this host that is copied.
    pub dir_mode: u32,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions { direct: false, sync: false, file_mode: 0o644, dir_mode: 0o755 }
    }
}

/// The mode of opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, to read.
    Read,
    /// An existing file, to read and write.
    Write,
    /// A file to read and write, created if it does not exist.
    Make,
    /// A new file to write. It must not exist.
    New,
    /// A file to write, created or emptied.
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
    /// The create options for caching of an open for data.
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

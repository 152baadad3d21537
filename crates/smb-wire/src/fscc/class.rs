//! The numbers of the information classes.

/// MS-FSCC 2.4: the information classes of files. Numbers without a name are values too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileInfoClass(pub u8);

/// MS-FSCC 2.5: the information classes of volumes. Numbers without a name are values too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FsInfoClass(pub u8);

macro_rules! classes {
    ($ty:ident { $($name:ident = $value:literal, $doc:literal;)* }) => {
        impl $ty {
            $(#[doc = $doc] pub const $name: $ty = $ty($value);)*
        }
    };
}

classes! { FileInfoClass {
    DIRECTORY = 1, "FileDirectoryInformation";
    FULL_DIRECTORY = 2, "FileFullDirectoryInformation";
    BOTH_DIRECTORY = 3, "FileBothDirectoryInformation";
    BASIC = 4, "FileBasicInformation";
    STANDARD = 5, "FileStandardInformation";
    INTERNAL = 6, "FileInternalInformation";
    EA = 7, "FileEaInformation";
    ACCESS = 8, "FileAccessInformation";
    NAME = 9, "FileNameInformation; only local in MS-FSCC, yet servers answer it.";
    RENAME = 10, "FileRenameInformation";
    LINK = 11, "FileLinkInformation";
    NAMES = 12, "FileNamesInformation";
    DISPOSITION = 13, "FileDispositionInformation";
    POSITION = 14, "FilePositionInformation";
    FULL_EA = 15, "FileFullEaInformation";
    MODE = 16, "FileModeInformation";
    ALIGNMENT = 17, "FileAlignmentInformation";
    ALL = 18, "FileAllInformation";
    ALLOCATION = 19, "FileAllocationInformation";
    END_OF_FILE = 20, "FileEndOfFileInformation";
    ALTERNATE_NAME = 21, "FileAlternateNameInformation";
    STREAM = 22, "FileStreamInformation";
    PIPE = 23, "FilePipeInformation";
    PIPE_LOCAL = 24, "FilePipeLocalInformation";
    PIPE_REMOTE = 25, "FilePipeRemoteInformation";
    MAILSLOT_QUERY = 26, "FileMailslotQueryInformation; only local.";
    MAILSLOT_SET = 27, "FileMailslotSetInformation; only local.";
    COMPRESSION = 28, "FileCompressionInformation";
    OBJECT_ID = 29, "FileObjectIdInformation; only local.";
    MOVE_CLUSTER = 31, "FileMoveClusterInformation; reserved.";
    QUOTA = 32, "FileQuotaInformation; over SMB2 by an info type of its own.";
    REPARSE_POINT = 33, "FileReparsePointInformation; only local.";
    NETWORK_OPEN = 34, "FileNetworkOpenInformation";
    ATTRIBUTE_TAG = 35, "FileAttributeTagInformation";
    TRACKING = 36, "FileTrackingInformation; only local.";
    ID_BOTH_DIRECTORY = 37, "FileIdBothDirectoryInformation";
    ID_FULL_DIRECTORY = 38, "FileIdFullDirectoryInformation";
    VALID_DATA_LENGTH = 39, "FileValidDataLengthInformation";
    SHORT_NAME = 40, "FileShortNameInformation";
    SFIO_RESERVE = 44, "FileSfioReserveInformation; only local.";
    SFIO_VOLUME = 45, "FileSfioVolumeInformation; reserved.";
    HARD_LINK = 46, "FileHardLinkInformation; only local in MS-FSCC.";
    NORMALIZED_NAME = 48, "FileNormalizedNameInformation";
    ID_GLOBAL_TX_DIRECTORY = 50, "FileIdGlobalTxDirectoryInformation; only local.";
    STANDARD_LINK = 54, "FileStandardLinkInformation; only local.";
    ID = 59, "FileIdInformation";
    ID_EXTD_DIRECTORY = 60, "FileIdExtdDirectoryInformation";
    ID_EXTD_BOTH_DIRECTORY = 63, "FileIdExtdBothDirectoryInformation: as the former, with a short name.";
    DISPOSITION_EX = 64, "FileDispositionInformationEx";
    RENAME_EX = 65, "FileRenameInformationEx";
    LINK_EX = 72, "FileLinkInformationEx";
    ID_64_EXTD_DIRECTORY = 78, "FileId64ExtdDirectoryInformation";
    ID_64_EXTD_BOTH_DIRECTORY = 79, "FileId64ExtdBothDirectoryInformation";
    ID_ALL_EXTD_DIRECTORY = 80, "FileIdAllExtdDirectoryInformation";
    ID_ALL_EXTD_BOTH_DIRECTORY = 81, "FileIdAllExtdBothDirectoryInformation";
    POSIX = 100, "SMB_FIND_FILE_POSIX_INFO of the POSIX extensions.";
} }

classes! { FsInfoClass {
    VOLUME = 1, "FileFsVolumeInformation";
    LABEL = 2, "FileFsLabelInformation; set only.";
    SIZE = 3, "FileFsSizeInformation";
    DEVICE = 4, "FileFsDeviceInformation";
    ATTRIBUTE = 5, "FileFsAttributeInformation";
    CONTROL = 6, "FileFsControlInformation";
    FULL_SIZE = 7, "FileFsFullSizeInformation";
    OBJECT_ID = 8, "FileFsObjectIdInformation";
    DRIVER_PATH = 9, "FileFsDriverPathInformation; only local.";
    VOLUME_FLAGS = 10, "FileFsVolumeFlagsInformation; only local.";
    SECTOR_SIZE = 11, "FileFsSectorSizeInformation";
    POSIX = 100, "FileFsPosixInformation of the POSIX extensions.";
} }

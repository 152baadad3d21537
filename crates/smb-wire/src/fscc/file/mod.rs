//! File information classes of QUERY_INFO and SET_INFO (MS-FSCC 2.4).
//!
//! [`fixed`] has the structures of fixed size, [`name`] those with a name, [`lists`] streams and hard links,
//! and [`pipe`] those of named pipes. Directory classes are in [`directory`](super::directory).

pub mod fixed;
pub mod lists;
pub mod name;
pub mod pipe;

pub use fixed::{
    AccessInfo, Alignment, All, Allocation, AttributeTag, Basic, Compression, Disposition, DispositionEx,
    DispositionFlags, Ea, EndOfFile, Id, Internal, Mode, NetworkOpen, Position, Standard, StandardLink,
    ValidDataLength,
};
pub use lists::{HardLink, StreamEntry, read_hard_links, read_streams, write_hard_links, write_streams};
pub use name::{LinkFlags, RenameFlags, RenameLayout, RenameRequest, read_name, write_name};
pub use pipe::{Pipe, PipeLocal, PipeRemote};

//! Names: converts between SMB's UTF-16 and bytes of the host, folds case, and splits paths.
//!
//! [`to_host`] and [`to_wire`] map one component. [`path::Path`] splits a whole path. [`fold()`] makes names
//! comparable without regard to case. [`target`] maps the targets of symbolic links. None of them uses a
//! file system.

pub mod host;
pub mod path;
pub mod short;
pub mod target;

pub use host::{BadName, Syntax, path_to_wire, plain_end, to_host, to_wire, to_wire_units, wire_units};
pub use path::{BadPath, BadStream, Path, Stream, StreamType};
pub use short::is_short_name;
pub use wire::fold::{eq_folded, fold, fold_host, fold_units};

/// MS-FSCC 2.1.5.2: the most 16-bit units of a file name or a stream name.
pub const MAX_COMPONENT: usize = 255;

/// MS-FSCC 2.1.5: the most 16-bit units of a path.
pub const MAX_PATH: usize = 32_760;

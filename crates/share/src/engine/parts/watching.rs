//! Who watches what, and what the host tells of for their sake.

mod table;

pub(crate) use table::Watching;

//! The requests of clients. Each operation calls the floors below, and the files of this table that stand
//! above it. There is one circle. `create` may mark the object that it opens for deletion (`delete`). That
//! may concern the link in its place (`last_link`), which `create` opens.
//!
//! | file | subject |
//! |---|---|
//! | `fixed_times`, `data_changes` | times that an open holds fixed; the effects of a change of data |
//! | `info`, `basic`, `security`, `extended` | the properties of a file, and changes of them |
//! | `reparse`, `streams` | reparse points and object ids; named streams |
//! | `data`, `copy`, `size`, `byte_ranges`, `flush` | bytes and byte ranges |
//! | `reservation`, `existing`, `new_object`, `create` | the beginning of an open; read `create` first |
//! | `amend`, `restore` | an open with other rights; opens that are restored after a restart |
//! | `last_link`, `delete`, `rename`, `hard_link` | names |
//! | `recycle` | the upkeep of the recycle folder, and its room |
//! | `scan`, `items`, `watches` | listings, objects that are not open, watches |

pub(crate) mod amend;
pub(crate) mod basic;
pub(crate) mod byte_ranges;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod data;
pub(crate) mod data_changes;
pub(crate) mod delete;
pub(crate) mod existing;
pub(crate) mod extended;
pub(crate) mod fixed_times;
pub(crate) mod flush;
pub(crate) mod hard_link;
pub(crate) mod info;
pub(crate) mod items;
pub(crate) mod last_link;
pub(crate) mod new_object;
pub(crate) mod recycle;
pub(crate) mod rename;
pub(crate) mod reparse;
pub(crate) mod reservation;
pub(crate) mod restore;
pub(crate) mod scan;
pub(crate) mod security;
pub(crate) mod size;
pub(crate) mod streams;
pub(crate) mod watches;

//! The requests of clients. Each operation calls the floors below, and the files of this table that stand
//! above it. There is one circle. `create` may mark the object that it opens for deletion (`deleting`). That
//! may concern the link in its place (`last_link`), which `create` opens.
//!
//! | file | subject |
//! |---|---|
//! | `own_times`, `changed_data` | times that an open holds fixed; the effects of a change of data |
//! | `info`, `basic`, `security`, `extended` | the properties of a file, and changes of them |
//! | `reparse`, `streams` | reparse points and object ids; named streams |
//! | `data`, `copy`, `size`, `locking`, `syncing` | bytes and byte ranges |
//! | `reserved`, `existing`, `fresh`, `create` | the beginning of an open; read `create` first |
//! | `amending`, `restoring` | an open with other rights; opens that are restored after a restart |
//! | `last_link`, `deleting`, `rename`, `linking` | names |
//! | `scan`, `items`, `watches` | listings, objects that are not open, watches |

pub(crate) mod amending;
pub(crate) mod basic;
pub(crate) mod changed_data;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod data;
pub(crate) mod deleting;
pub(crate) mod existing;
pub(crate) mod extended;
pub(crate) mod fresh;
pub(crate) mod info;
pub(crate) mod items;
pub(crate) mod last_link;
pub(crate) mod linking;
pub(crate) mod locking;
pub(crate) mod own_times;
pub(crate) mod rename;
pub(crate) mod reparse;
pub(crate) mod reserved;
pub(crate) mod restoring;
pub(crate) mod scan;
pub(crate) mod security;
pub(crate) mod size;
pub(crate) mod streams;
pub(crate) mod syncing;
pub(crate) mod watches;

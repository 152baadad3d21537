//! Layer 3: one identity for a principal, a SID, a uid, a gid and a name.

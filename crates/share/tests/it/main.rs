//! Tests of the engine: most on a volume in memory, some on the host.
//!
//! They are one program, since each program is compiled and linked by itself. `fairness` measures times: it
//! is a program of its own.

#[path = "../common/mod.rs"]
mod common;

mod attributes;
mod audit;
mod both_model;
mod caching;
mod caching_model;
mod caching_ranges;
mod client_memory;
mod connection_counters;
mod detached;
mod directory_caching;
mod flush;
mod full_journal;
mod halfway;
mod homes;
mod hooked_journal;
mod host;
mod items;
mod kept_opens;
mod links;
mod listings;
mod metadata_cache;
mod metadata_host;
mod metadata_model;
mod metadata_races;
mod model;
mod modes;
mod names;
mod opening;
mod persistence;
mod recycle;
mod recycle_model;
mod recycle_purge;
mod reopening;
mod restoring;
mod stable_records;
mod threads;
mod watching;

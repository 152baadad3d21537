//! Tests that need several crates or foreign peers; start at README.md in this folder.

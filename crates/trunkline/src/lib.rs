//! The parts of the program that parse untrusted text, for the fuzz targets: the [`config`]uration and the
//! requests of WS-Discovery.

#[allow(dead_code, missing_docs, unused_imports, reason = "the program uses the rest")]
pub mod config;
/// The announcements by which clients find the server.
pub mod discovery {
    /// WS-Discovery.
    pub mod wsd {
        #[allow(dead_code, reason = "the program uses the rest")]
        pub mod request;
    }
}

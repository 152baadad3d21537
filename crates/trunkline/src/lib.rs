//! What of the program reads hostile text, for the fuzz targets: the [`config`]uration and requests of
//! WS-Discovery.

#[allow(dead_code, missing_docs, unused_imports, reason = "the program uses the rest")]
pub mod config;
/// How others find the server.
pub mod discovery {
    /// WS-Discovery.
    pub mod wsd {
        #[allow(dead_code, reason = "the program uses the rest")]
        pub mod request;
    }
}

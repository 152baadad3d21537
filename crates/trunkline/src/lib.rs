//! The parts of the program that others read. The fuzz targets need what parses untrusted text: the
//! [`config`]uration and the requests of WS-Discovery. `examples/manual` turns the command line ([`cli`]) and
//! the table of settings ([`mod@reference`]) into man pages and completions.

#[allow(dead_code, reason = "the program uses the rest")]
pub mod cli;
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
#[allow(dead_code, reason = "the program uses the rest")]
pub mod reference;

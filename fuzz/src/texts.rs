//! Texts: the configuration and the requests of WS-Discovery.
use std::path::Path;

use trunkline_parsers::config;
use trunkline_parsers::discovery::wsd::request;

/// A configuration file. An error must be one line.
pub fn configuration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = config::read::parse("trunkline.toml", text, Path::new("/base")) {
        let line = error.to_string();
        assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
    }
}

/// A SOAP message.
pub fn ws_discovery(data: &[u8]) {
    if let Some(request) = request::DiscoveryRequest::parse(data) {
        assert!(request.message_id.len() <= data.len());
    }
}

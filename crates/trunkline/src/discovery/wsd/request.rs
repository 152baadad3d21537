//! Parses the SOAP messages of clients. They are untrusted, and few of their elements matter.

use quick_xml::NsReader;
use quick_xml::events::Event;
use quick_xml::name::{QName, ResolveResult};

/// Maximum depth of nested elements.
const MAX_DEPTH: usize = 32;
/// Maximum number of parser events for one message.
const MAX_EVENTS: usize = 1000;
/// Maximum number of characters of one value. The rest is dropped.
const MAX_TEXT: usize = 512;

/// WS-Addressing 2004/08
const ADDRESSING: &str = "http://schemas.xmlsoap.org/ws/2004/08/addressing";
/// WS-Discovery 1.0
const DISCOVERY: &str = "http://schemas.xmlsoap.org/ws/2005/04/discovery";
/// Devices Profile for Web Services
const DEVICES: &str = "http://schemas.xmlsoap.org/ws/2006/02/devprof";
/// [MS-PBSD]
const PUBLICATION: &str = "http://schemas.microsoft.com/windows/pub/2005/07";

/// The action of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A search for servers. WS-Discovery 1.0, 5.2
    Probe,
    /// A search for the address of an endpoint. WS-Discovery 1.0, 6.2
    Resolve,
    /// A request for the document. WS-Transfer
    Get,
}

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveryRequest {
    /// The action.
    pub action: Action,
    /// The id, which the answer repeats.
    pub message_id: String,
    /// Whether this server has all requested types and scopes.
    pub fits: bool,
    /// The endpoint that is meant.
    pub endpoint: Option<String>,
}

/// The element that contains a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Action,
    MessageId,
    Address,
    Types,
    Scopes,
    Other,
}

impl DiscoveryRequest {
    /// Parses a request. None if `bytes` is not a request or is damaged.
    pub fn parse(bytes: &[u8]) -> Option<DiscoveryRequest> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut reader = NsReader::from_str(text);
        let mut reading = Reading { fits: true, ..Reading::default() };
        let mut path: Vec<Field> = Vec::new();
        for _ in 0..MAX_EVENTS {
            match reader.read_event().ok()? {
                Event::Start(start) => {
                    if path.len() == MAX_DEPTH {
                        return None;
                    }
                    path.push(field(&reader, start.name()));
                    reading.value.clear();
                }
                Event::End(_) => reading.end(path.pop()?, &path, &reader),
                Event::Text(text) => reading.add(&text.xml10_content()),
                Event::CData(text) => reading.add(&text.xml10_content()),
                // Document types can define entities that grow without bounds. No client sends one.
                Event::DocType(_) => return None,
                Event::Eof => return reading.request().filter(|_| path.is_empty()),
                _ => {}
            }
        }
        None
    }
}

#[derive(Debug, Default)]
struct Reading {
    /// The text of the innermost element.
    value: String,
    action: Option<Action>,
    message_id: String,
    fits: bool,
    endpoint: Option<String>,
}

impl Reading {
    fn add(&mut self, text: &str) {
        let room = MAX_TEXT.saturating_sub(self.value.len());
        self.value.extend(text.chars().take(room));
    }

    /// Handles the end of an element of kind `field`.
    fn end(&mut self, field: Field, above: &[Field], reader: &NsReader<&[u8]>) {
        let value = std::mem::take(&mut self.value);
        let value = value.trim();
        match field {
            Field::Action => self.action = action(value),
            Field::MessageId => value.clone_into(&mut self.message_id),
            // The addresses of the header (ReplyTo) come first. The last one is the endpoint that is meant.
            Field::Address if above.len() > 2 => self.endpoint = Some(value.to_owned()),
            Field::Types => self.fits &= value.split_ascii_whitespace().all(|name| is_ours(reader, name)),
            // This server is in no scope, so it does not match any requested scope.
            Field::Scopes => self.fits &= value.is_empty(),
            _ => {}
        }
    }

    fn request(self) -> Option<DiscoveryRequest> {
        let Reading { action, message_id, fits, endpoint, .. } = self;
        let usable = !message_id.is_empty();
        Some(DiscoveryRequest { action: action?, message_id, fits, endpoint }).filter(|_| usable)
    }
}

fn action(value: &str) -> Option<Action> {
    match value {
        "http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe" => Some(Action::Probe),
        "http://schemas.xmlsoap.org/ws/2005/04/discovery/Resolve" => Some(Action::Resolve),
        "http://schemas.xmlsoap.org/ws/2004/09/transfer/Get" => Some(Action::Get),
        _ => None,
    }
}

fn field(reader: &NsReader<&[u8]>, name: QName<'_>) -> Field {
    let (namespace, local) = reader.resolver().resolve(name, true);
    let ResolveResult::Bound(namespace) = namespace else { return Field::Other };
    match (namespace.0, local.as_ref()) {
        (ADDRESSING, "Action") => Field::Action,
        (ADDRESSING, "MessageID") => Field::MessageId,
        (ADDRESSING, "Address") => Field::Address,
        (DISCOVERY, "Types") => Field::Types,
        (DISCOVERY, "Scopes") => Field::Scopes,
        _ => Field::Other,
    }
}

/// Whether `name`, with its prefix, is one of this server's types.
fn is_ours(reader: &NsReader<&[u8]>, name: &str) -> bool {
    let (namespace, local) = reader.resolver().resolve(QName(name), true);
    let ResolveResult::Bound(namespace) = namespace else { return false };
    matches!((namespace.0, local.as_ref()), (DEVICES, "Device") | (PUBLICATION, "Computer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(body: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><soap:Envelope \
             xmlns:soap=\"http://www.w3.org/2003/05/soap-envelope\" \
             xmlns:wsa=\"{ADDRESSING}\" xmlns:wsd=\"{DISCOVERY}\" xmlns:d=\"{DEVICES}\"><soap:Header>\
             <wsa:To>urn:schemas-xmlsoap-org:ws:2005:04:discovery</wsa:To>\
             <wsa:Action>http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe</wsa:Action>\
             <wsa:MessageID>urn:uuid:1&amp;2</wsa:MessageID></soap:Header>\
             <soap:Body>{body}</soap:Body></soap:Envelope>"
        )
    }

    #[test]
    fn a_probe_as_explorer_sends_it_is_understood() {
        let text = probe("<wsd:Probe><wsd:Types>d:Device</wsd:Types></wsd:Probe>");
        let request = DiscoveryRequest::parse(text.as_bytes()).unwrap();
        assert_eq!((request.action, request.fits), (Action::Probe, true));
        let all = DiscoveryRequest::parse(probe("<wsd:Probe/>").as_bytes()).unwrap();
        assert!(all.fits);
    }

    #[test]
    fn a_probe_for_something_else_does_not_fit() {
        for types in ["d:Printer", "Device", "x:Device", "d:Device d:Printer"] {
            let text = probe(&format!("<wsd:Probe><wsd:Types>{types}</wsd:Types></wsd:Probe>"));
            assert!(!DiscoveryRequest::parse(text.as_bytes()).unwrap().fits, "{types}");
        }
        let scoped = probe("<wsd:Probe><wsd:Scopes>ldap:///x</wsd:Scopes></wsd:Probe>");
        assert!(!DiscoveryRequest::parse(scoped.as_bytes()).unwrap().fits);
    }

    #[test]
    fn the_endpoint_of_a_resolve_is_the_one_in_its_body() {
        let body = "<wsd:Resolve><wsa:EndpointReference><wsa:Address>urn:uuid:7</wsa:Address>\
                    </wsa:EndpointReference></wsd:Resolve>";
        let text = probe(body).replace("discovery/Probe", "discovery/Resolve");
        let request = DiscoveryRequest::parse(text.as_bytes()).unwrap();
        assert_eq!((request.action, request.endpoint.as_deref()), (Action::Resolve, Some("urn:uuid:7")));
    }

    #[test]
    fn nonsense_is_no_request() {
        let whole = probe("<wsd:Probe/>");
        for cut in 0..whole.len() {
            assert_eq!(DiscoveryRequest::parse(&whole.as_bytes()[..cut]), None, "cut at {cut}");
        }
        let deep = probe(&"<a>".repeat(100_000));
        let wide = probe(&"<a/>".repeat(100_000));
        let entities = whole.replacen("<soap:Envelope", "<!DOCTYPE x [<!ENTITY a \"b\">]><soap:Envelope", 1);
        for bad in [deep.as_str(), &wide, &entities, "", "<a></b>", "<a>&undefined;</a>", "\u{0}<"] {
            assert_eq!(DiscoveryRequest::parse(bad.as_bytes()), None);
        }
        assert_eq!(DiscoveryRequest::parse(b"\xff\xfe<a/>"), None);
    }
}

//! Writes the messages that describe this server.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::request::{Action, DiscoveryRequest};
use crate::discovery::Announcement;
use crate::state::store::random;

const TO_ALL: &str = "urn:schemas-xmlsoap-org:ws:2005:04:discovery";
const ANONYMOUS: &str = "http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous";
const DISCOVERY: &str = "http://schemas.xmlsoap.org/ws/2005/04/discovery";
const GET_RESPONSE: &str = "http://schemas.xmlsoap.org/ws/2004/09/transfer/GetResponse";
const DEVICES: &str = "http://schemas.xmlsoap.org/ws/2006/02/devprof";

/// Writes the messages of this server.
pub struct DiscoveryWriter {
    /// `urn:uuid:…`, the same after a restart.
    endpoint: String,
    name: String,
    netbios_name: String,
    workgroup: String,
    port: u16,
    /// Increases with each start (WS-Discovery 1.0, appendix I: AppSequence).
    instance: u64,
    messages: AtomicU64,
}

impl DiscoveryWriter {
    /// A writer for the server of `announcement`, whose document is served on `port`.
    pub fn new(announcement: &Announcement, port: u16) -> DiscoveryWriter {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        DiscoveryWriter {
            endpoint: urn(announcement.guid),
            name: announcement.name.clone(),
            netbios_name: announcement.netbios_name.clone(),
            workgroup: announcement.workgroup.clone(),
            port,
            instance: since.as_secs(),
            messages: AtomicU64::new(0),
        }
    }

    /// The path of the document.
    pub fn path(&self) -> String {
        format!("/{}", self.endpoint.trim_start_matches("urn:uuid:"))
    }

    /// The Hello message. `own` is the address of the interface on which it is sent.
    pub fn hello(&self, own: Ipv4Addr) -> String {
        self.announcement("Hello", &format!("<wsd:Hello>{}</wsd:Hello>", self.description(own)))
    }

    /// The Bye message.
    pub fn bye(&self, _own: Ipv4Addr) -> String {
        self.announcement("Bye", &format!("<wsd:Bye>{}</wsd:Bye>", self.reference()))
    }

    /// The answer to a request over UDP. `own` is this host's address on the route to the client. None if the
    /// request is for another server.
    pub fn answer(&self, request: &DiscoveryRequest, own: Ipv4Addr) -> Option<String> {
        let kind = match request.action {
            Action::Probe if request.fits => "Probe",
            Action::Resolve if request.endpoint.as_deref() == Some(&self.endpoint) => "Resolve",
            _ => return None,
        };
        let match_ = format!("<wsd:{kind}Match>{}</wsd:{kind}Match>", self.description(own));
        let body = format!("<wsd:{kind}Matches>{match_}</wsd:{kind}Matches>");
        let action = format!("{DISCOVERY}/{kind}Matches");
        Some(self.envelope(ANONYMOUS, &action, Some(&request.message_id), true, &body))
    }

    /// The document, as the answer to a Get request over HTTP.
    pub fn document(&self, request: &DiscoveryRequest) -> Option<String> {
        if request.action != Action::Get {
            return None;
        }
        let name = escape(&self.name);
        let computer = escape(&format!("{}/Workgroup:{}", self.netbios_name, self.workgroup));
        let endpoint = &self.endpoint;
        let body = format!(
            "<wsx:Metadata>\
             <wsx:MetadataSection Dialect=\"{DEVICES}/ThisDevice\"><wsdp:ThisDevice>\
             <wsdp:FriendlyName>{name}</wsdp:FriendlyName>\
             <wsdp:FirmwareVersion>{version}</wsdp:FirmwareVersion>\
             <wsdp:SerialNumber>{endpoint}</wsdp:SerialNumber>\
             </wsdp:ThisDevice></wsx:MetadataSection>\
             <wsx:MetadataSection Dialect=\"{DEVICES}/ThisModel\"><wsdp:ThisModel>\
             <wsdp:Manufacturer>Trunkline</wsdp:Manufacturer>\
             <wsdp:ModelName>Trunkline</wsdp:ModelName>\
             <pnpx:DeviceCategory>Computers</pnpx:DeviceCategory>\
             </wsdp:ThisModel></wsx:MetadataSection>\
             <wsx:MetadataSection Dialect=\"{DEVICES}/Relationship\">\
             <wsdp:Relationship Type=\"{DEVICES}/host\"><wsdp:Host>{reference}\
             <wsdp:Types>pub:Computer</wsdp:Types><wsdp:ServiceId>{endpoint}</wsdp:ServiceId>\
             <pub:Computer>{computer}</pub:Computer>\
             </wsdp:Host></wsdp:Relationship></wsx:MetadataSection></wsx:Metadata>",
            version = env!("CARGO_PKG_VERSION"),
            reference = self.reference(),
        );
        Some(self.envelope(ANONYMOUS, GET_RESPONSE, Some(&request.message_id), false, &body))
    }

    fn announcement(&self, kind: &str, body: &str) -> String {
        self.envelope(TO_ALL, &format!("{DISCOVERY}/{kind}"), None, true, body)
    }

    fn reference(&self) -> String {
        format!("<wsa:EndpointReference><wsa:Address>{}</wsa:Address></wsa:EndpointReference>", self.endpoint)
    }

    /// The endpoint, the types, and the address of the document.
    fn description(&self, own: Ipv4Addr) -> String {
        format!(
            "{}<wsd:Types>wsdp:Device pub:Computer</wsd:Types><wsd:XAddrs>http://{own}:{}{}</wsd:XAddrs>\
             <wsd:MetadataVersion>1</wsd:MetadataVersion>",
            self.reference(),
            self.port,
            self.path()
        )
    }

    fn envelope(
        &self,
        to: &str,
        action: &str,
        relates_to: Option<&str>,
        sequence: bool,
        body: &str,
    ) -> String {
        let relates = relates_to
            .map_or_else(String::new, |id| format!("<wsa:RelatesTo>{}</wsa:RelatesTo>", escape(id)));
        let sequence = if sequence {
            let number = self.messages.fetch_add(1, Ordering::Relaxed) + 1;
            format!("<wsd:AppSequence InstanceId=\"{}\" MessageNumber=\"{number}\"/>", self.instance)
        } else {
            String::new()
        };
        let id = urn(random().unwrap_or_default());
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
             <soap:Envelope xmlns:soap=\"http://www.w3.org/2003/05/soap-envelope\" \
             xmlns:wsa=\"http://schemas.xmlsoap.org/ws/2004/08/addressing\" xmlns:wsd=\"{DISCOVERY}\" \
             xmlns:wsx=\"http://schemas.xmlsoap.org/ws/2004/09/mex\" xmlns:wsdp=\"{DEVICES}\" \
             xmlns:pnpx=\"http://schemas.microsoft.com/windows/pnpx/2005/10\" \
             xmlns:pub=\"http://schemas.microsoft.com/windows/pub/2005/07\">\
             <soap:Header><wsa:To>{to}</wsa:To><wsa:Action>{action}</wsa:Action>\
             <wsa:MessageID>{id}</wsa:MessageID>{relates}{sequence}</soap:Header>\
             <soap:Body>{body}</soap:Body></soap:Envelope>"
        )
    }
}

/// A GUID in the byte order of the wire, as a URN (RFC 9562 4).
fn urn(guid: [u8; 16]) -> String {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = guid;
    format!(
        "urn:uuid:{d:02x}{c:02x}{b:02x}{a:02x}-{f:02x}{e:02x}-{h:02x}{g:02x}-{i:02x}{j:02x}-\
         {k:02x}{l:02x}{m:02x}{n:02x}{o:02x}{p:02x}"
    )
}

/// `text` as the content of an element.
fn escape(text: &str) -> String {
    quick_xml::escape::escape(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer() -> DiscoveryWriter {
        let announcement = Announcement {
            name: "Ann & <Bob>".to_owned(),
            netbios_name: "FILES".to_owned(),
            workgroup: "HOME".to_owned(),
            guid: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
            addresses: Vec::new(),
        };
        DiscoveryWriter::new(&announcement, 5357)
    }

    fn request(action: Action, endpoint: Option<&str>) -> DiscoveryRequest {
        let message_id = "urn:uuid:<x>".to_owned();
        DiscoveryRequest { action, message_id, fits: true, endpoint: endpoint.map(str::to_owned) }
    }

    /// Parses the text, to check that it is well-formed and that its namespaces are declared.
    fn well_formed(text: &str) {
        let mut reader = quick_xml::NsReader::from_str(text);
        let mut depth = 0;
        loop {
            match reader.read_event().unwrap() {
                quick_xml::events::Event::Start(_) => depth += 1,
                quick_xml::events::Event::End(_) => depth -= 1,
                quick_xml::events::Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(depth, 0);
    }

    #[test]
    fn a_probe_and_our_own_resolve_are_answered() {
        let writer = writer();
        let own = Ipv4Addr::new(192, 0, 2, 7);
        let id = "urn:uuid:04030201-0605-0807-090a-0b0c0d0e0f10";
        for request in [request(Action::Probe, None), request(Action::Resolve, Some(id))] {
            let answer = writer.answer(&request, own).unwrap();
            well_formed(&answer);
            let url = "http://192.0.2.7:5357/04030201-0605-0807-090a-0b0c0d0e0f10<";
            assert!(answer.contains(url) && answer.contains("RelatesTo>urn:uuid:&lt;x&gt;<"), "{answer}");
        }
        assert!(writer.answer(&request(Action::Resolve, Some("urn:uuid:0")), own).is_none());
        let other = DiscoveryRequest { fits: false, ..request(Action::Probe, None) };
        assert!(writer.answer(&other, own).is_none() && writer.document(&other).is_none());
    }

    #[test]
    fn the_document_names_the_computer_and_its_workgroup() {
        let document = writer().document(&request(Action::Get, None)).unwrap();
        well_formed(&document);
        assert!(document.contains("<pub:Computer>FILES/Workgroup:HOME</pub:Computer>"));
        assert!(document.contains("<wsdp:FriendlyName>Ann &amp; &lt;Bob&gt;</wsdp:FriendlyName>"));
    }

    #[test]
    fn each_announcement_has_a_number_of_its_own() {
        let writer = writer();
        let (hello, bye) = (writer.hello(Ipv4Addr::LOCALHOST), writer.bye(Ipv4Addr::LOCALHOST));
        well_formed(&hello);
        well_formed(&bye);
        assert!(hello.contains("MessageNumber=\"1\"") && bye.contains("MessageNumber=\"2\""));
    }
}

//! A finding: a statement, the measurements that support it, and the change that it suggests.

use load::comparison::Range;
use serde::Serialize;

/// The layer that can slow down a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Name and route.
    Name,
    /// The path: delay, loss, bandwidth, windows.
    Transport,
    /// The negotiated protocol options.
    Protocol,
    /// The number of connections, and their addresses.
    Connections,
    /// The storage of the server.
    Storage,
    /// Work with names.
    Metadata,
    /// The limits of the server.
    Limits,
    /// This host.
    Client,
}

impl Layer {
    /// The name of the layer, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layer::Name => "name and route",
            Layer::Transport => "transport",
            Layer::Protocol => "protocol",
            Layer::Connections => "connections",
            Layer::Storage => "the server's store",
            Layer::Metadata => "metadata",
            Layer::Limits => "limits of the server",
            Layer::Client => "this host",
        }
    }
}

/// The place of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeLocation {
    /// The client.
    Client,
    /// The network between client and server.
    Path,
    /// The server.
    Server,
}

impl ChangeLocation {
    /// The name of the place, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ChangeLocation::Client => "client",
            ChangeLocation::Path => "path",
            ChangeLocation::Server => "server",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The layer it is about.
    pub layer: Layer,
    /// A stable name for programs.
    pub kind: &'static str,
    /// Whether it makes the share slower, or worse to use. Otherwise it is only worth knowing.
    pub holds_back: bool,
    /// The statement.
    pub says: String,
    /// The measurements that support it.
    pub rests_on: Vec<String>,
    /// The factor by which the share may become faster, if it was measured or can be computed.
    pub gain: Option<f64>,
    /// The range of that factor. `None` if it was not measured in turns.
    pub range: Option<[f64; 2]>,
    /// The suggested change.
    pub change: Option<(ChangeLocation, String)>,
}

impl Finding {
    /// A finding that holds the share back.
    pub(crate) fn held(layer: Layer, kind: &'static str, says: impl Into<String>) -> Finding {
        let (says, rests_on) = (says.into(), Vec::new());
        Finding { layer, kind, holds_back: true, says, rests_on, gain: None, range: None, change: None }
    }

    /// A finding that is only worth knowing.
    pub(crate) fn note(layer: Layer, kind: &'static str, says: impl Into<String>) -> Finding {
        Finding { holds_back: false, ..Finding::held(layer, kind, says) }
    }

    pub(crate) fn by(mut self, measurement: impl Into<String>) -> Finding {
        self.rests_on.push(measurement.into());
        self
    }

    pub(crate) fn gain(self, gain: f64) -> Finding {
        Finding { gain: Some(gain), ..self }
    }

    pub(crate) fn range(self, range: Range) -> Finding {
        Finding { gain: Some(range.middle), range: Some([range.least, range.most]), ..self }
    }

    pub(crate) fn change(self, side: ChangeLocation, what: impl Into<String>) -> Finding {
        Finding { change: Some((side, what.into())), ..self }
    }

    pub(crate) fn only_a_note_unless(self, condition: bool) -> Finding {
        Finding { holds_back: condition, ..self }
    }
}

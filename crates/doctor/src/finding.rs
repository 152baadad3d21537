//! What follows from measurements: a sentence, the measurements it rests on, and what to change.

use load::comparison::Range;
use serde::Serialize;

/// Where a share can be held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Name and route.
    Name,
    /// The path: delay, loss, width, windows.
    Transport,
    /// What client and server agreed on.
    Protocol,
    /// How many connections, and where to.
    Connections,
    /// The server's store.
    Storage,
    /// Work with names.
    Metadata,
    /// What the server allows.
    Limits,
    /// This host.
    Client,
}

impl Layer {
    /// For people.
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

/// Where something is to be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The client.
    Client,
    /// What lies between.
    Path,
    /// The server.
    Server,
}

impl Side {
    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Side::Client => "client",
            Side::Path => "path",
            Side::Server => "server",
        }
    }
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The layer it is about.
    pub layer: Layer,
    /// A name for programs, which stays the same.
    pub kind: &'static str,
    /// Whether the share is slower, or worse to use, for it. What does not hold it back is worth knowing all the same.
    pub holds_back: bool,
    /// The statement.
    pub says: String,
    /// The measurements it rests on.
    pub rests_on: Vec<String>,
    /// How many times as quick the share may become, where that was measured or can be computed.
    pub gain: Option<f64>,
    /// Between which factors that lies; nothing where it was not measured in turns.
    pub range: Option<[f64; 2]>,
    /// What to change.
    pub change: Option<(Side, String)>,
}

impl Finding {
    /// Something that holds the share back.
    pub(crate) fn held(layer: Layer, kind: &'static str, says: impl Into<String>) -> Finding {
        let (says, rests_on) = (says.into(), Vec::new());
        Finding { layer, kind, holds_back: true, says, rests_on, gain: None, range: None, change: None }
    }

    /// Something worth knowing.
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

    pub(crate) fn change(self, side: Side, what: impl Into<String>) -> Finding {
        Finding { change: Some((side, what.into())), ..self }
    }

    pub(crate) fn only_a_note_unless(self, condition: bool) -> Finding {
        Finding { holds_back: condition, ..self }
    }
}

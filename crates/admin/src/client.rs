//! The commands' end of the control socket. Its calls block.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::deadline::DeadlineReader;
use crate::protocol::{MAX_RESPONSE, Request, Response};
use crate::socket;

/// The time in which the whole response must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No server runs on this state directory.
    #[error("no server runs on this state directory")]
    NotRunning,
    /// The socket is another user's.
    #[error("the control socket is not open to this user")]
    Forbidden,
    /// The response was not understood, too late or too long.
    #[error("the server did not answer as expected: {0}")]
    Answer(String),
    /// The server refused the request.
    #[error("{0}")]
    Refused(String),
}

/// A connection to a running server, for one request.
#[derive(Debug)]
pub struct ControlClient {
    stream: UnixStream,
}

impl ControlClient {
    /// Connects to the server that runs on the state directory `dir`.
    ///
    /// # Errors
    /// [`ClientError::NotRunning`] when there is none, [`ClientError::Forbidden`] when it is another user's.
    pub fn connect(dir: &Path) -> Result<ControlClient, ClientError> {
        use std::io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound, PermissionDenied};
        let connected = socket::address(dir).and_then(|address| UnixStream::connect(&address.path));
        let stream = connected.map_err(|e| match e.kind() {
            NotFound | ConnectionRefused | NotADirectory => ClientError::NotRunning,
            PermissionDenied => ClientError::Forbidden,
            _ => ClientError::Answer(e.to_string()),
        })?;
        Ok(ControlClient { stream })
    }

    /// Sends `request` and waits for the response.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the server's own words, or [`ClientError::Answer`].
    pub fn ask(self, request: &Request) -> Result<Response, ClientError> {
        match self.exchange(request) {
            Ok(Response::Refused(why)) => Err(ClientError::Refused(why)),
            Ok(response) => Ok(response),
            Err(e) => Err(ClientError::Answer(e.to_string())),
        }
    }

    /// Asks for a backup. Returns the bytes of the archive, of which each part must come in time.
    ///
    /// # Errors
    /// As for [`ControlClient::ask`].
    pub fn backup(mut self) -> Result<impl Read, ClientError> {
        let told = |e: std::io::Error| ClientError::Answer(e.to_string());
        self.send(&Request::Backup)
            .and_then(|()| self.stream.set_read_timeout(Some(PATIENCE)))
            .map_err(told)?;
        let mut stream = BufReader::new(self.stream);
        let mut line = Vec::new();
        (&mut stream).take(MAX_RESPONSE as u64).read_until(b'\n', &mut line).map_err(told)?;
        match serde_json::from_slice(&line).map_err(|e| ClientError::Answer(e.to_string()))? {
            Response::Archive => Ok(stream),
            Response::Refused(why) => Err(ClientError::Refused(why)),
            _ => Err(ClientError::Answer("another response than an archive".to_owned())),
        }
    }

    fn exchange(mut self, request: &Request) -> std::io::Result<Response> {
        self.send(request)?;
        let mut answer = Vec::new();
        let whole = DeadlineReader::within(PATIENCE, self.stream);
        BufReader::new(whole.take(MAX_RESPONSE as u64)).read_until(b'\n', &mut answer)?;
        Ok(serde_json::from_slice(&answer)?)
    }
    fn send(&mut self, request: &Request) -> std::io::Result<()> {
        self.stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.stream.write_all(&line)
    }
}

//! Serves one document over HTTP/1.1. It implements just enough of it for one POST from a Windows client, and
//! bounds everything.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::reply::DiscoveryWriter;
use super::request::DiscoveryRequest;

/// The port that Windows firewalls let through for this purpose.
pub const PORT: u16 = 5357;
const MAX_HEAD: usize = 4 * 1024;
const MAX_BODY: usize = 16 * 1024;
const MAX_CALLERS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(5);

/// The listening sockets.
pub struct Documents {
    listeners: Vec<TcpListener>,
}

impl Documents {
    /// Binds the port on each of `addresses`.
    pub async fn bind(addresses: &[Ipv4Addr]) -> io::Result<Documents> {
        let mut listeners = Vec::new();
        for address in addresses {
            let bound = TcpListener::bind((*address, PORT)).await;
            listeners
                .push(bound.map_err(|e| io::Error::other(format!("TCP port {PORT} on {address}: {e}")))?);
        }
        Ok(Documents { listeners })
    }

    /// Answers requests until it is dropped.
    pub async fn serve(self, writer: Arc<DiscoveryWriter>) {
        let slots = Arc::new(Semaphore::new(MAX_CALLERS));
        let mut tasks = tokio::task::JoinSet::new();
        for listener in self.listeners {
            tasks.spawn(take_calls(listener, Arc::clone(&slots), Arc::clone(&writer)));
        }
        while tasks.join_next().await.is_some() {}
    }
}

async fn take_calls(listener: TcpListener, slots: Arc<Semaphore>, writer: Arc<DiscoveryWriter>) {
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, from)) => {
                let writer = Arc::clone(&writer);
                tokio::spawn(async move {
                    let answered = tokio::time::timeout(PATIENCE, answer(stream, &writer)).await;
                    if !matches!(answered, Ok(Ok(()))) {
                        tracing::debug!(%from, "a request for the WS-Discovery document was not answered");
                    }
                    drop(slot);
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn answer(mut stream: TcpStream, writer: &DiscoveryWriter) -> io::Result<()> {
    let (status, body) = match read(&mut stream, &writer.path()).await? {
        Ok(body) => match DiscoveryRequest::parse(&body).and_then(|request| writer.document(&request)) {
            Some(document) => ("200 OK", document),
            None => ("400 Bad Request", String::new()),
        },
        Err(status) => (status, String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/soap+xml\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// The body of a POST for `path`, or the status that refuses it.
async fn read(
    stream: &mut (impl tokio::io::AsyncRead + Unpin),
    path: &str,
) -> io::Result<Result<Vec<u8>, &'static str>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > MAX_HEAD {
            return Ok(Err("431 Request Header Fields Too Large"));
        }
        if more(stream, &mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    let length = match head(&bytes[..end], path) {
        Ok(length) => length,
        Err(status) => return Ok(Err(status)),
    };
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        if more(stream, &mut body).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    body.truncate(length);
    Ok(Ok(body))
}

async fn more(stream: &mut (impl tokio::io::AsyncRead + Unpin), bytes: &mut Vec<u8>) -> io::Result<usize> {
    let mut piece = [0; 1024];
    let length = stream.read(&mut piece).await?;
    bytes.extend_from_slice(&piece[..length]);
    Ok(length)
}

/// The length of the body that the head announces (RFC 9112), or the status that refuses it.
fn head(head: &[u8], path: &str) -> Result<usize, &'static str> {
    let head = std::str::from_utf8(head).map_err(|_| "400 Bad Request")?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    if version.is_none_or(|version| !version.starts_with("HTTP/1.")) {
        return Err("400 Bad Request");
    }
    if method != Some("POST") {
        return Err("405 Method Not Allowed");
    }
    if target != Some(path) {
        return Err("404 Not Found");
    }
    let mut lengths = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
    });
    match (lengths.next(), lengths.next()) {
        (Some(Ok(length)), None) if length <= MAX_BODY => Ok(length),
        (Some(Ok(_)), None) => Err("413 Content Too Large"),
        (None, _) => Err("411 Length Required"),
        _ => Err("400 Bad Request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn asked(bytes: &[u8]) -> io::Result<Result<Vec<u8>, &'static str>> {
        let mut stream = bytes;
        read(&mut stream, "/x").await
    }

    #[test]
    fn one_post_is_understood_and_all_else_is_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let good = b"POST /x HTTP/1.1\r\nHost: a\r\ncontent-length: 3\r\n\r\nabcdef";
            assert_eq!(asked(good).await.unwrap().unwrap(), b"abc");
            let cases = [
                ("GET /x HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
                ("POST /y HTTP/1.1\r\n\r\n", "404 Not Found"),
                ("POST /x HTTP/1.1\r\n\r\n", "411 Length Required"),
                ("POST /x HTTP/1.1\r\nContent-Length: 99999\r\n\r\n", "413 Content Too Large"),
                ("POST /x HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", "400 Bad Request"),
                ("POST /x HTTP/1.1\r\nContent-Length: -3\r\n\r\n", "400 Bad Request"),
                ("POST /x\r\n\r\n", "400 Bad Request"),
            ];
            for (text, status) in cases {
                assert_eq!(asked(text.as_bytes()).await.unwrap(), Err(status), "{text}");
            }
            let long = vec![b'a'; 2 * MAX_HEAD];
            assert_eq!(asked(&long).await.unwrap(), Err("431 Request Header Fields Too Large"));
            assert!(asked(b"POST /x HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc").await.is_err());
            assert!(asked(b"POST").await.is_err());
        });
    }
}

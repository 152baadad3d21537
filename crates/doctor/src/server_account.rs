//! The counts of a running Trunkline server: the transactions that its limits throttled, and the work of
//! its clients. They are requested over its control socket, or over HTTP at the address of its metrics.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use admin::deadline::DeadlineReader;
use admin::transactions::ShareTransactions;
use admin::{ControlClient, Request, Response, Transactions, Workload};
use client::{Scheme, Url};
use serde::de::DeserializeOwned;

use crate::measurements::ServerTransactions;

/// The longest time for an HTTP connection, and then for the whole reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest HTTP reply.
const LONGEST: u64 = 64 << 20;

/// Whether a text names a server rather than a file: an HTTP address, a state directory or the socket in
/// one.
pub(crate) fn is_server(text: &str) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let kind = || std::fs::metadata(text).ok().map(|it| it.file_type());
    text.starts_with("http://") || kind().is_some_and(|it| it.is_dir() || it.is_socket())
}

/// The work of clients on the shares of the server at `source`.
pub(crate) fn workload(source: &str) -> Result<Workload, String> {
    match source.strip_prefix("http://") {
        Some(authority) => get(authority, "/workload"),
        None => match ask(source, &Request::Workload)? {
            Response::Workload(workload) => Ok(*workload),
            _ => Err(format!("{source}: the server answered something else")),
        },
    }
}

/// The transactions of the server at `source`. It gives up after `patience`.
pub(crate) async fn transactions(source: String, patience: Duration) -> Result<Transactions, String> {
    let authority = source.clone();
    let asking = tokio::task::spawn_blocking(move || match source.strip_prefix("http://") {
        Some(authority) => get(authority, "/transactions"),
        None => match ask(&source, &Request::Transactions)? {
            Response::Transactions(all) => Ok(*all),
            _ => Err(format!("{source}: the server answered something else")),
        },
    });
    match tokio::time::timeout(patience, asking).await {
        Ok(Ok(answer)) => answer,
        _ => Err(format!("{authority}: no answer within {} s", patience.as_secs_f64())),
    }
}

/// The transactions on the share of `target` between two counts. `None` if there is no such share.
pub(crate) fn transactions_between(
    before: &Transactions,
    now: &Transactions,
    target: &Url,
) -> Option<ServerTransactions> {
    let protocol = if target.scheme == Scheme::Nfs { "NFS" } else { "SMB" };
    let name = target.share.trim_matches('/');
    let between = now.since(before);
    let is_it = |it: &&ShareTransactions| it.file_share.eq_ignore_ascii_case(name) && it.protocol == protocol;
    let counted = between.counted.iter().find(is_it)?;
    let mut told = ServerTransactions::default();
    for (kind, count) in counted.apis.iter().flat_map(|it| &it.transactions).filter(|(_, count)| **count > 0)
    {
        *told.by_type.entry(kind.clone()).or_default() += count;
    }
    if let Some(gauges) = now.gauges.get(&counted.file_share) {
        told.provisioned_iops = gauges.provisioned_iops;
        told.provisioned_bandwidth_bytes = gauges.provisioned_bandwidth_bytes;
        told.burst_credits = gauges.available_burst_credits;
    }
    Some(told)
}

/// Sends a request over the control socket; `source` is the socket, or the state directory that contains
/// it.
fn ask(source: &str, request: &Request) -> Result<Response, String> {
    let path = Path::new(source);
    let directory = match path.parent() {
        Some(parent) if !path.is_dir() => parent,
        _ => path,
    };
    let answer = ControlClient::connect(directory).and_then(|client| client.ask(request));
    answer.map_err(|why| format!("{source}: {why}"))
}

/// The content of `path` at an address such as 127.0.0.1:9445.
fn get<T: DeserializeOwned>(authority: &str, path: &str) -> Result<T, String> {
    let host = authority.split('/').next().unwrap_or_default();
    let wrong = |why: &dyn std::fmt::Display| format!("http://{host}{path}: {why}");
    let answer = exchange(host, path, PATIENCE).map_err(|why| wrong(&why))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| wrong(&"no answer of HTTP"))?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status != "200" {
        return Err(wrong(&format_args!("status {status}: {}", body.lines().next().unwrap_or_default())));
    }
    serde_json::from_str(body).map_err(|why| wrong(&why))
}

fn exchange(host: &str, path: &str, patience: Duration) -> std::io::Result<String> {
    let mut failure = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(mut stream) => {
                stream.set_write_timeout(Some(PATIENCE))?;
                // Version 1.0, so that the reply ends with the connection and is not chunked.
                write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
                let mut answer = String::new();
                let whole = DeadlineReader::within(patience, stream);
                whole.take(LONGEST).read_to_string(&mut answer)?;
                return Ok(answer);
            }
            Err(why) => failure = why,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    use admin::transactions::{Api, Gauges};

    use super::*;

    /// A server that replies once, and its address.
    fn answering(answer: &'static str) -> (std::thread::JoinHandle<String>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let asked: Vec<String> =
                lines.by_ref().map_while(Result::ok).take_while(|it| !it.is_empty()).collect();
            stream.write_all(answer.as_bytes()).unwrap();
            asked.join("|")
        });
        (served, authority)
    }

    #[test]
    fn an_answer_over_http_is_read_or_said_to_be_none() {
        let (served, authority) = answering("HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\n[1,2,3]");
        assert_eq!(get::<Vec<u32>>(&authority, "/workload").unwrap(), [1, 2, 3]);
        assert_eq!(served.join().unwrap(), format!("GET /workload HTTP/1.0|Host: {authority}"));
        for (answer, wanted) in [
            ("HTTP/1.0 404 Not Found\r\n\r\nthere is only\n", "status 404: there is only"),
            ("SSH-2.0-x\r\n", "no answer of HTTP"),
            ("HTTP/1.1 200 OK\r\n\r\n[1,", "EOF"),
        ] {
            let (served, authority) = answering(answer);
            let why = get::<Vec<u32>>(&authority, "/workload").unwrap_err();
            assert!(why.contains(wanted) && why.contains(&authority), "{why}");
            served.join().unwrap();
        }
    }

    #[test]
    fn an_answer_that_never_ends_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Each part arrives well within the time for the whole.
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let why = exchange(&authority, "/workload", Duration::from_millis(200)).unwrap_err();
        assert!(matches!(why.kind(), std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock), "{why}");
        served.join().unwrap();
    }

    #[test]
    fn a_place_where_no_server_runs_is_an_error_in_words() {
        let empty = tempfile::tempdir().unwrap();
        let authority = empty.path().to_str().unwrap();
        assert!(is_server(authority) && is_server("http://127.0.0.1:1") && !is_server("report.json"));
        assert!(workload(authority).unwrap_err().contains("no server runs"));
    }

    #[test]
    fn what_the_server_tells_is_of_this_share_and_of_this_time() {
        let counted = |share: &str, held: u64| {
            let transactions = [("Success", 10), ("SuccessWithThrottling", held), ("ClientOtherError", 1)];
            let transactions = transactions.map(|(kind, count)| (kind.to_owned(), count)).into();
            let api = Api { api_name: "Read".to_owned(), transactions, ..Api::default() };
            let (file_share, protocol) = (share.to_owned(), "SMB".to_owned());
            ShareTransactions { file_share, protocol, apis: vec![api], ..ShareTransactions::default() }
        };
        let all = |held| Transactions {
            counted: vec![counted("Files", held), counted("other", 77)],
            gauges: [("Files".to_owned(), Gauges { provisioned_iops: Some(1000), ..Gauges::default() })]
                .into(),
            ..Transactions::default()
        };
        let target: Url = "smb://ann@h/files".parse().unwrap();
        let told = transactions_between(&all(2), &all(7), &target).unwrap();
        assert_eq!((told.throttled(), told.provisioned_iops), ((5, 5), Some(1000)));
        let elsewhere: Url = "nfs://h/files".parse().unwrap();
        assert_eq!(super::transactions_between(&all(2), &all(7), &elsewhere), None);
    }
}

//! The server's end of the control socket.
//!
//! The socket lies in the state directory and is open to its owner only. The caller's user is checked
//! besides. A request is one line of bounded size and must come in time. A few callers are served at once.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::Mode;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::Controlled;
use crate::objects::{ChangeAction, Kind, Refusal};
use crate::protocol::{MAX_REQUEST, Request, Response};
use crate::socket;

/// The time in which a caller must send its request and read its response.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of callers that are served at once; more wait.
const MAX_CALLERS: usize = 8;

/// The number of callers that the host lets wait to be accepted.
const LISTEN_BACKLOG: i32 = 128;

/// The bound control socket. Dropping it removes it.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_file(&self.path) {
            tracing::debug!(error = %e, "the control socket was gone already");
        }
    }
}

impl ControlSocket {
    /// Makes the control socket of the state directory `dir`. The caller holds the directory's lock, so a
    /// socket that is there already is a leftover. The call must come from inside a tokio runtime.
    ///
    /// # Errors
    /// The host's error.
    pub fn bind(dir: &Path) -> io::Result<ControlSocket> {
        let address = socket::address(dir)?;
        match std::fs::remove_file(&address.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let listener = private_listener(&address.path)?;
        Ok(ControlSocket { listener, path: dir.join(address.path.file_name().unwrap_or_default()) })
    }

    /// Serves callers until the future is dropped.
    pub async fn serve(&self, server: Arc<dyn Controlled>) {
        let places = Arc::new(Semaphore::new(MAX_CALLERS));
        let owner = owner(&self.path);
        loop {
            let Ok(permit) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            match self.listener.accept().await {
                Ok((stream, _)) if may_call(&stream, owner) => {
                    let server = Arc::clone(&server);
                    tokio::spawn(async move {
                        if let Err(e) = answer(stream, server).await {
                            tracing::debug!(error = %e, "a caller of the control socket was not served");
                        }
                        drop(permit);
                    });
                }
                Ok(_) => tracing::warn!("another user's call of the control socket is refused"),
                Err(e) => {
                    tracing::warn!(error = %e, "the control socket accepts no call");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// A socket that its owner alone can call, from its first moment on. A bound socket has the permission bits
/// that it had before the bind, whatever the process's mask would leave.
fn private_listener(path: &Path) -> io::Result<UnixListener> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, LISTEN_BACKLOG)?;
    UnixListener::from_std(socket.into())
}

fn owner(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(path).ok().map(|meta| meta.uid())
}

/// Whether the caller is root or the user who runs the server.
fn may_call(stream: &UnixStream, owner: Option<u32>) -> bool {
    stream.peer_cred().is_ok_and(|caller| caller.uid() == 0 || Some(caller.uid()) == owner)
}

/// Tells the audit of a request of the control socket.
fn note(server: &dyn Controlled, uid: Option<u32>, request: Option<&str>, response: &Response) {
    if let Some(request) = request {
        let refused = match response {
            Response::Refused(why) => Some(why.as_str()),
            _ => None,
        };
        server.note_request(("control socket", uid), request, refused);
    }
}

async fn answer(mut stream: UnixStream, server: Arc<dyn Controlled>) -> io::Result<()> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let line = tokio::time::timeout(PATIENCE, read_request(&mut stream)).await.map_err(late)??;
    let mut stop = false;
    let uid = stream.peer_cred().ok().map(|caller| caller.uid());
    let response = match line {
        Some(line) => match serde_json::from_slice::<Request>(&line) {
            Ok(Request::Backup) => return send_backup(stream, server, uid).await,
            Ok(Request::Stop) => {
                stop = true;
                note(&*server, uid, Request::Stop.audited().as_deref(), &Response::Done);
                Response::Done
            }
            Ok(request) => {
                let server = Arc::clone(&server);
                let act = move || {
                    let audited = request.audited();
                    let response = act(&*server, request);
                    note(&*server, uid, audited.as_deref(), &response);
                    response
                };
                tokio::task::spawn_blocking(act).await?
            }
            Err(e) => Response::Refused(format!("not a request: {e}")),
        },
        None => Response::Refused(format!("a request has at most {MAX_REQUEST} bytes and ends its line")),
    };
    let mut line = serde_json::to_vec(&response)?;
    line.push(b'\n');
    let written = tokio::time::timeout(PATIENCE, stream.write_all(&line)).await.map_err(late);
    // Only now: the end of the server is the end of this response too.
    if stop {
        server.stop();
    }
    written?
}

/// Sends the state directory as it is now, in a thread of its own. A caller that does not read is given up.
async fn send_backup(stream: UnixStream, server: Arc<dyn Controlled>, uid: Option<u32>) -> io::Result<()> {
    let mut stream = stream.into_std()?;
    tokio::task::spawn_blocking(move || {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let send = |response: &Response, out: &mut std::os::unix::net::UnixStream| {
            let mut line = serde_json::to_vec(response)?;
            line.push(b'\n');
            out.write_all(&line)
        };
        match server.backup() {
            Ok(archive) => {
                note(&*server, uid, Request::Backup.audited().as_deref(), &Response::Archive);
                send(&Response::Archive, &mut stream)?;
                // An error cuts the archive, which its reader notices.
                archive(&mut stream).inspect_err(|why| tracing::warn!(%why, "a backup was not completed"))
            }
            Err(why) => {
                let refused = Response::Refused(why);
                note(&*server, uid, Request::Backup.audited().as_deref(), &refused);
                send(&refused, &mut stream)
            }
        }
    })
    .await?
}

/// One line without its end. None when it is too long or incomplete.
async fn read_request(stream: &mut UnixStream) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    BufReader::new(stream).take(MAX_REQUEST as u64).read_until(b'\n', &mut line).await?;
    Ok(line.strip_suffix(b"\n").map(<[u8]>::to_vec))
}

/// The response to every request but the one to end, which the caller sees to.
fn act(server: &dyn Controlled, request: Request) -> Response {
    let done = |result: Result<(), String>| result.map_or_else(Response::Refused, |()| Response::Done);
    let changed = |result: Result<(), Refusal>| done(result.map_err(|refusal| refusal.text));
    match request {
        Request::Health => Response::Health(Box::new(server.health())),
        Request::Status => Response::Status(Box::new(server.status())),
        Request::Channels => Response::Channels(Box::new(server.channels())),
        Request::Transactions => Response::Transactions(Box::new(server.transactions())),
        Request::Workload => Response::Workload(Box::new(server.workload())),
        Request::Users => Response::Users(server.users()),
        Request::ChangeUser(change) => changed(server.change_user(change)),
        Request::RemoveUser { name } => changed(server.remove_user(&name)),
        Request::Tokens => Response::Tokens(server.tokens()),
        Request::AddToken(request) => match server.add_token(request) {
            Ok(made) => Response::NewToken(Box::new(made)),
            Err(refusal) => Response::Refused(refusal.text),
        },
        Request::RevokeToken { name } => changed(server.revoke_token(&name)),
        Request::AccountKeys { account } => match server.account_keys(&account) {
            Ok(keys) => Response::AccountKeys(Box::new(keys)),
            Err(why) => Response::Refused(why),
        },
        Request::RenewKey { account, key, given } => match server.renew_key(&account, key, given) {
            Ok((name, keys)) => Response::Renewed(name, Box::new(keys)),
            Err(why) => Response::Refused(why),
        },
        Request::Objects { kind } => Response::Objects(server.objects(kind)),
        Request::Change(change) => {
            let is_new = change.kind == Kind::Share && matches!(change.what, ChangeAction::Create { .. });
            match server.change(*change) {
                Ok(mut changed) => {
                    changed.notes.extend(is_new.then(|| server.first_user()).flatten());
                    Response::Changed(Box::new(changed))
                }
                Err(refusal) => Response::Refused(refusal.text),
            }
        }
        Request::ChangeDomain(settings) => match server.change_domain(&settings) {
            Ok(notes) => Response::DomainChanged(notes),
            Err(refusal) => Response::Refused(refusal.text),
        },
        // They are answered before.
        Request::Backup => Response::Refused("a backup needs its own connection".to_owned()),
        Request::Reload => match server.reload() {
            Ok(notes) => Response::Reloaded(notes),
            Err(why) => Response::Refused(why),
        },
        Request::Stop => Response::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Change;
    use crate::testing::Fake;
    use crate::{ClientError, ControlClient, IdChange, KeyName, UserChange};
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

    /// Runs `ask` against a served socket in a directory of its own, and returns what was called.
    fn with_server(dir: &Path, ask: impl FnOnce(&Path) + Send) -> Vec<String> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let fake = Arc::new(Fake::default());
        let controlled: Arc<dyn Controlled> = Arc::<Fake>::clone(&fake);
        let socket = {
            let _inside = runtime.enter();
            ControlSocket::bind(dir).unwrap()
        };
        let serving = runtime.spawn(async move { socket.serve(controlled).await });
        ask(dir);
        serving.abort();
        let ended = runtime.block_on(serving);
        assert!(ended.unwrap_err().is_cancelled());
        let calls = fake.calls.lock().unwrap();
        calls.clone()
    }

    #[test]
    fn a_backup_follows_its_response_to_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let calls = with_server(dir.path(), |dir| {
            let mut bytes = Vec::new();
            ControlClient::connect(dir).unwrap().backup().unwrap().read_to_end(&mut bytes).unwrap();
            assert!(bytes.len() == 1_000_000 && bytes.iter().all(|byte| *byte == 7));
        });
        assert_eq!(calls, ["backup"]);
    }

    #[test]
    fn a_caller_is_answered_also_where_the_path_is_long() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("x".repeat(90)).join("y".repeat(90));
        std::fs::create_dir_all(&deep).unwrap();
        let calls = with_server(&deep, |dir| {
            let ask = |request| ControlClient::connect(dir).unwrap().ask(&request);
            assert!(matches!(ask(Request::Status).unwrap(), Response::Status(s) if s.version == "7"));
            assert!(matches!(ask(Request::Channels).unwrap(), Response::Channels(c) if c.server_name == "S"));
            assert!(matches!(ask(Request::Workload).unwrap(), Response::Workload(w) if w.server_name == "W"));
            assert!(matches!(ask(Request::Transactions).unwrap(), Response::Transactions(t) if t.at_ns == 7));
            assert_eq!(ask(Request::RemoveUser { name: "ann".to_owned() }).unwrap(), Response::Done);
            assert_eq!(ask(Request::Stop).unwrap(), Response::Done);
            let renew =
                Request::RenewKey { account: "lab".to_owned(), key: Some(KeyName::Key2), given: None };
            assert!(
                matches!(ask(renew).unwrap(), Response::Renewed(KeyName::Key2, keys) if keys.key1.is_none())
            );
            assert!(ask(Request::AccountKeys { account: "lab".to_owned() }).is_err());
            let objects = ask(Request::Objects { kind: Kind::Share }).unwrap();
            assert!(matches!(objects, Response::Objects(shares) if shares[0].name == "docs"));
            let delete = |name: &str| {
                let what = ChangeAction::Delete { force: false };
                let change = Change { kind: Kind::Share, name: name.to_owned(), what, if_version: None };
                ask(Request::Change(Box::new(change)))
            };
            assert!(
                matches!(delete("docs").unwrap(), Response::Changed(changed) if changed.object.is_none())
            );
            assert!(matches!(delete("x").unwrap_err(), ClientError::Refused(why) if why == "no share `x`"));
            let change = UserChange {
                name: "bob".to_owned(),
                add: true,
                nt_hash: None,
                uid: IdChange::Keep,
                gid: IdChange::Keep,
                admin: None,
            };
            let refused = ask(Request::ChangeUser(change)).unwrap_err();
            assert!(matches!(refused, ClientError::Refused(why) if why == "no bob"));
        });
        assert_eq!(calls, ["remove ann", "stop", "renew lab key2", "delete docs"]);
        assert!(matches!(ControlClient::connect(&deep).unwrap_err(), ClientError::NotRunning));
    }

    #[test]
    fn nonsense_is_refused_and_harms_nobody() {
        let dir = tempfile::tempdir().unwrap();
        with_server(dir.path(), |dir| {
            let path = socket::address(dir).unwrap().path;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let too_long = vec![b'x'; MAX_REQUEST + 1];
            for nonsense in [&b"hello\n"[..], b"{\"do\":\"x\"}\n", b"\xff\xfe\n", &too_long] {
                let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
                stream.write_all(nonsense).unwrap();
                let mut answer = String::new();
                // A caller whose bytes were not all read may see its connection reset behind the answer.
                let _ = stream.read_to_string(&mut answer);
                assert!(answer.starts_with("{\"refused\":"), "{answer:?}");
            }
            let alive = ControlClient::connect(dir).unwrap().ask(&Request::Reload).unwrap();
            assert_eq!(alive, Response::Reloaded(vec!["a note".to_owned()]));
        });
    }
}

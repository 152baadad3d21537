//! Remote procedure calls over named pipes.

use smb_wire::rpc::{Account, Host, NameUse, Pipe, PipeName, Resolved, ServerFacts, Share, ShareType};

/// A server for the remote procedure calls.
struct Server;

impl Host for Server {
    fn facts(&self) -> ServerFacts {
        ServerFacts {
            name: "SERVER".into(),
            comment: String::new(),
            domain: "WORKGROUP".into(),
            account_domain_sid: sid(4),
            version_major: 10,
            version_minor: 0,
            users: 1,
        }
    }

    fn wall_ns(&self) -> i64 {
        1_700_000_000_000_000_000
    }

    fn shares(&self) -> Vec<Share> {
        let share = |name: &str, kind| Share {
            name: name.into(),
            remark: "what it is for".into(),
            kind,
            max_uses: u32::MAX,
            current_uses: 1,
            path: "C:\\files".into(),
            flags: 0,
            security_descriptor: None,
        };
        vec![share("files", ShareType::DISK), share("IPC$", ShareType::IPC)]
    }

    fn caller_is_admin(&self) -> bool {
        true
    }

    fn caller(&self) -> Account {
        Account { domain: "SERVER".into(), name: "anna".into(), kind: NameUse::User }
    }

    fn account_of_sid(&self, known: &[u8]) -> Option<Account> {
        (known == sid(5)).then(|| self.caller())
    }

    fn sid_of_account(&self, _domain: Option<&str>, name: &str) -> Option<Resolved> {
        let found = Resolved { sid: sid(5), domain: "SERVER".into(), kind: NameUse::User };
        name.eq_ignore_ascii_case("anna").then_some(found)
    }
}

/// S-1-5-21-1-2-3, or that with -1001 appended.
fn sid(count: u8) -> Vec<u8> {
    let mut sid = vec![1, count, 0, 0, 0, 0, 0, 5];
    for part in [21u32, 1, 2, 3, 1001].into_iter().take(usize::from(count)) {
        sid.extend_from_slice(&part.to_le_bytes());
    }
    sid
}

/// The first byte selects the pipe. Writes follow, each with its length in two bytes.
pub fn rpc(data: &[u8]) {
    let Some((which, mut rest)) = data.split_first() else { return };
    let names = [PipeName::Srvsvc, PipeName::Wkssvc, PipeName::Lsarpc];
    let mut pipe = Pipe::new(names[usize::from(*which) % names.len()]);
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (message, behind) = behind.split_at(length);
        let _ = pipe.write(message, &Server);
        let mut out = Vec::new();
        while let Ok(is_more) = pipe.read(usize::from(*which) + 1000, &mut out) {
            assert!(!out.is_empty() || !is_more);
        }
        assert_eq!(pipe.available(), 0);
        rest = behind;
    }
}

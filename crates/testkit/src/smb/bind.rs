//! The client's side of binding a connection to a session.

use std::rc::Rc;

use auth::{Initiator, InitiatorStep, Signer, Wrap};
use smb::keys;
use smb_wire::negotiate::Capabilities;
use smb_wire::session_setup::{self, RequestFlags};
use smb_wire::{Header, NtStatus, SmbCommand};

use super::client::Transcript;
use super::peer::{Keys, ReceivedMessage, sign_with};
use super::{Dial, Peer, SmbTestServer};

/// A binding in progress, one request after the other. Without the flag it is a reauthentication of a
/// session.
pub struct Binding {
    transcript: Transcript,
    initiator: Initiator,
    token: Vec<u8>,
    dial: Dial,
    /// The session to bind to.
    pub session_id: u64,
    keys: Keys,
    /// The key that signs the requests. None for unsigned requests.
    pub signer: Option<Rc<Signer>>,
    /// The flag that marks a binding.
    pub flags: RequestFlags,
}

impl Binding {
    /// A binding to the session of `main`. `preauth` is the hash over this connection's own NEGOTIATE.
    pub fn new(dial: &Dial, main: &Peer, preauth: [u8; 64]) -> Binding {
        let initiator = Initiator::new(dial.identity(), Wrap::Spnego);
        let keys = main.keys[&main.session_id].clone();
        Binding {
            transcript: Transcript(preauth),
            token: initiator.first(),
            initiator,
            dial: dial.clone(),
            session_id: main.session_id,
            signer: Some(Rc::clone(&keys.session)),
            keys,
            flags: RequestFlags::BINDING,
        }
    }

    /// Sends the next request and receives its answer.
    pub fn step(&mut self, peer: &mut Peer) -> ReceivedMessage {
        peer.session_id = self.session_id;
        let tree_id = std::mem::take(&mut peer.tree_id);
        let mut request = peer.message(SmbCommand::SessionSetup, |out| {
            session_setup::Request {
                flags: self.flags,
                security_mode: self.dial.security_mode(),
                capabilities: Capabilities::empty(),
                previous_session_id: self.dial.previous_session_id,
                security_buffer: &self.token,
            }
            .write(out);
        });
        peer.tree_id = tree_id;
        if let Some(signer) = &self.signer {
            sign_with(signer, &mut request);
        }
        self.transcript.add(&request);
        // The last answer is signed with the channel's own key, and all earlier ones with that of the
        // session.
        if self.flags.contains(RequestFlags::BINDING) {
            if let Some(key) = self.initiator.session_key() {
                let signer = keys::signer(self.dial.protection(), key, &self.transcript.0);
                self.keys.signer = Rc::new(signer);
            }
            peer.keys.insert(self.session_id, self.keys.clone());
        }
        let id = Header::parse(&request).expect("a header").message_id();
        peer.deliver(request);
        let answer = peer.answer(id).expect("an answer to SESSION_SETUP");
        if answer.status() == NtStatus::MORE_PROCESSING_REQUIRED {
            assert_eq!(answer.is_signed, self.signer.is_some());
            self.transcript.add(&answer.signed_message());
            let response = session_setup::Response::parse(&answer.message).expect("a response");
            match self.initiator.step(response.security_buffer, peer.now()) {
                InitiatorStep::Continue(token) => self.token = token,
                other => panic!("the client does not go on: {other:?}"),
            }
        }
        answer
    }

    /// A reauthentication of the session's user on an existing channel.
    pub fn renewing(dial: &Dial, peer: &Peer) -> Binding {
        let mut renewing = Binding::new(dial, peer, [0; 64]);
        renewing.flags = RequestFlags::empty();
        renewing.signer = Some(Rc::clone(&renewing.keys.signer));
        renewing
    }

    /// Continues to the end, and returns the final status.
    pub fn finish(&mut self, peer: &mut Peer) -> NtStatus {
        loop {
            let answer = self.step(peer);
            if answer.status() != NtStatus::MORE_PROCESSING_REQUIRED {
                let is_bound = answer.status() == NtStatus::SUCCESS;
                assert!(answer.is_signed || !is_bound, "the last answer is signed");
                return answer.status();
            }
        }
    }
}

impl SmbTestServer {
    /// Negotiates a further channel of the session of `main` as `dial` says, and binds it. Returns the final
    /// status too.
    pub fn try_bind(&self, dial: &Dial, main: &Peer) -> (Peer, NtStatus) {
        let mut peer = self.peer();
        let preauth = peer.negotiate_hashed(dial);
        let status = Binding::new(dial, main, preauth).finish(&mut peer);
        peer.tree_id = main.tree_id;
        (peer, status)
    }

    /// A further channel of the session of `main`. It must succeed.
    pub fn bind(&self, dial: &Dial, main: &Peer) -> Peer {
        let (peer, status) = self.try_bind(dial, main);
        assert_eq!(status, NtStatus::SUCCESS);
        peer
    }
}

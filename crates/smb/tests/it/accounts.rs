//! The demands of an account apply at NEGOTIATE if the account is known by then, or else at SESSION_SETUP. A
//! session that is bound to one account reaches no share of another.

use auth::{Cipher, NtHash, SigningAlgorithm};
use smb::account::{Demands, ShareEndpoint};
use smb::{Access, AccountConfig, Encryption, Signing, UserConfig};
use smb_wire::create::Access as Rights;
use smb_wire::ioctl::body::ValidateNegotiateInfoRequest;
use smb_wire::ioctl::{self, CtlCode};
use smb_wire::negotiate::{self, Dialect, SecurityMode};
use smb_wire::{FileId, NtStatus, SmbCommand, WireList, session_setup, tree_connect};
use testkit::smb::client::OpenFile;
use testkit::smb::{Dial, Peer, SHARE, SmbTestServer};

fn account(name: &str, users: &[&str], demands: Demands) -> AccountConfig {
    AccountConfig {
        name: name.into(),
        users: users.iter().map(|user| (*user).into()).collect(),
        multichannel: true,
        max_channels: 4,
        demands,
        ..AccountConfig::default()
    }
}

fn from_3_0() -> Demands {
    Demands { min_dialect: Some(Dialect::Smb300), ..Demands::default() }
}

fn by_name(name: &str) -> Dial {
    Dial { server_name: Some(format!("{name}.example.net")), ..Dial::default() }
}

/// The status of a log-on.
fn log_on(world: &SmbTestServer, dial: &Dial) -> NtStatus {
    let mut peer = world.peer();
    let preauth = peer.negotiate_hashed(dial);
    peer.set_up_session(dial, preauth)
}

// MS-SMB2 3.3.5.5
#[test]
fn a_login_whose_account_demands_more_is_refused_at_session_setup() {
    let world = SmbTestServer::in_memory();
    let old = Dial::with(Dialect::Smb210);
    world.configure_server(|config| config.accounts = vec![account("new", &["anna"], from_3_0())]);
    assert_eq!(log_on(&world, &old), NtStatus::ACCESS_DENIED);
    assert!(world.server.sessions().is_empty());
    assert_eq!(log_on(&world, &Dial::with(Dialect::Smb300)), NtStatus::SUCCESS);
    // The user of another account, or of none.
    assert_eq!(log_on(&world, &Dial { user: "bert".into(), ..old.clone() }), NtStatus::SUCCESS);
    world.configure_server(|config| {
        config.accounts = vec![account("new", &["anna"], from_3_0())];
        config.free_users = vec!["anna".into()];
    });
    assert_eq!(log_on(&world, &old), NtStatus::SUCCESS);
    let sealed = Demands { encryption: Some(Encryption::Required), ..Demands::default() };
    world.configure_server(|config| config.accounts = vec![account("sealed", &["*"], sealed)]);
    assert_eq!(log_on(&world, &old), NtStatus::ACCESS_DENIED);
    assert_eq!(log_on(&world, &Dial { cipher: None, ..Dial::default() }), NtStatus::ACCESS_DENIED);
    assert_eq!(log_on(&world, &Dial { seals: true, ..Dial::default() }), NtStatus::SUCCESS);
    let signed = Demands { signing: Some(Signing::Required), ..Demands::default() };
    world.configure_server(|config| config.accounts = vec![account("signed", &["anna"], signed)]);
    assert_eq!(log_on(&world, &Dial { requires_signing: false, ..old.clone() }), NtStatus::ACCESS_DENIED);
    assert_eq!(log_on(&world, &old), NtStatus::SUCCESS);
}

#[test]
fn a_session_that_stands_stays_when_its_account_comes_to_demand_more() {
    let world = SmbTestServer::in_memory();
    let old = Dial::with(Dialect::Smb210);
    let mut client = world.dial(&old);
    world.configure_server(|config| config.accounts = vec![account("new", &["anna"], from_3_0())]);
    assert!(client.is_served());
    assert_eq!(log_on(&world, &old), NtStatus::ACCESS_DENIED);
}

#[test]
fn a_share_of_another_account_is_refused_at_tree_connect() {
    let world = SmbTestServer::in_memory();
    world.configure_server(|config| {
        config.accounts = vec![
            account("team", &["anna"], Demands::default()),
            account("lab", &["anna"], Demands::default()),
        ];
    });
    world.configure(|share| share.account = Some("Team".into()));
    for (dial, wanted) in [
        (by_name("team"), NtStatus::SUCCESS),
        (by_name("lab"), NtStatus::ACCESS_DENIED),
        // A user that names no account may use all of its shares.
        (Dial::default(), NtStatus::SUCCESS),
        // Not an account of bert's. He is bound to none.
        (Dial { user: "bert".into(), ..by_name("lab") }, NtStatus::SUCCESS),
    ] {
        let mut peer = world.peer();
        peer.log_on(&dial);
        assert_eq!(peer.try_tree(SHARE).status(), wanted, "{dial:?}");
        assert_eq!(peer.try_tree("IPC$").status(), NtStatus::SUCCESS);
    }
    world.configure(|share| share.account = None);
    assert!(world.dial(&by_name("lab")).is_served(), "a share of no account");
}

#[test]
fn of_two_accounts_the_one_whose_demands_are_met_is_reached() {
    let world = SmbTestServer::in_memory();
    world.configure_server(|config| {
        config.accounts =
            vec![account("new", &["anna"], from_3_0()), account("old", &["anna"], Demands::default())];
    });
    for (of, wanted) in [("old", NtStatus::SUCCESS), ("new", NtStatus::ACCESS_DENIED)] {
        world.configure(|share| share.account = Some(of.into()));
        let mut peer = world.peer();
        peer.log_on(&Dial::with(Dialect::Smb210));
        assert_eq!(peer.try_tree(SHARE).status(), wanted, "{of}");
    }
}

// MS-SMB2 3.3.5.4
#[test]
fn negotiate_goes_by_an_account_that_is_named() {
    let world = SmbTestServer::in_memory();
    let strict = Demands {
        signing: Some(Signing::Required),
        encryption: Some(Encryption::Required),
        ciphers: Some(vec![Cipher::Aes256Gcm]),
        ..Demands::default()
    };
    world.configure_server(|config| config.accounts = vec![account("strict", &["anna"], strict)]);
    let told = |dial: &Dial| {
        let answer = world.peer().negotiate(dial);
        let mode = negotiate::Response::parse(&answer.message).expect("a NEGOTIATE response").security_mode;
        mode.contains(SecurityMode::SIGNING_REQUIRED)
    };
    let relaxed =
        Dial { requires_signing: false, seals: true, cipher: Some(Cipher::Aes256Gcm), ..by_name("strict") };
    assert!(told(&relaxed) && !told(&Dial { server_name: None, ..relaxed.clone() }));
    let mut peer = world.peer();
    peer.log_on(&relaxed);
    let session = world.server.session(peer.session_id).expect("it is there");
    let standing = session.session_settings().expect("its user is proved");
    assert_eq!((standing.account.as_deref(), standing.signs, standing.seals), (Some("strict"), true, true));
    // The only cipher of the client is not allowed, so there is no common one.
    let other = Dial { cipher: Some(Cipher::Aes128Gcm), ..relaxed };
    assert_eq!(log_on_refused(&world, &other), NtStatus::ACCESS_DENIED);
    assert_eq!(log_on(&world, &Dial { server_name: None, ..other }), NtStatus::ACCESS_DENIED);
}

/// The status of a first SESSION_SETUP, which is refused before the authentication.
fn log_on_refused(world: &SmbTestServer, dial: &Dial) -> NtStatus {
    let mut peer = world.peer();
    assert_eq!(peer.negotiate(dial).status(), NtStatus::SUCCESS);
    peer.status(SmbCommand::SessionSetup, |out| {
        session_setup::Request {
            flags: session_setup::RequestFlags::empty(),
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: negotiate::Capabilities::empty(),
            previous_session_id: 0,
            security_buffer: &[],
        }
        .write(out);
    })
}

#[test]
fn an_address_of_an_account_is_its_endpoint() {
    let world = SmbTestServer::in_memory();
    let mut team = account("team", &["anna"], from_3_0());
    team.endpoint = vec!["127.0.0.1".parse().expect("an address")];
    let lab = account("lab", &["anna"], Demands::default());
    world.configure_server(|config| config.accounts = vec![team.clone(), lab.clone()]);
    // This is before the client names its user, and for any name.
    assert_eq!(world.peer().negotiate(&Dial::with(Dialect::Smb210)).status(), NtStatus::NOT_SUPPORTED);
    for (of, wanted) in [("team", NtStatus::SUCCESS), ("lab", NtStatus::ACCESS_DENIED)] {
        world.configure(|share| share.account = Some(of.into()));
        let mut peer = world.peer();
        peer.log_on(&by_name("lab"));
        assert_eq!(peer.try_tree(SHARE).status(), wanted, "{of}");
    }
}

/// Makes the address of all connections here that of the share with this name.
fn own_address(world: &SmbTestServer, share: &str, account: Option<&str>, accounts: &[AccountConfig]) {
    let addresses = vec!["127.0.0.1".parse().expect("an address")];
    let (share, account) = (share.to_owned(), account.map(str::to_owned));
    world.configure_server(|config| {
        config.accounts = accounts.to_vec();
        config.share_endpoints = vec![ShareEndpoint { share, account, addresses }];
    });
}

// MS-SMB2 3.3.5.7
#[test]
fn an_address_of_a_share_leads_to_it_alone_under_the_settings_of_its_account() {
    let world = SmbTestServer::in_memory();
    let team = account("team", &["anna"], from_3_0());
    world.configure(|share| share.account = Some("team".into()));
    own_address(&world, SHARE, Some("Team"), std::slice::from_ref(&team));
    assert_eq!(world.peer().negotiate(&Dial::with(Dialect::Smb210)).status(), NtStatus::NOT_SUPPORTED);
    let dial = Dial { signing: SigningAlgorithm::AesCmac, ..Dial::default() };
    let mut main = world.dial(&dial);
    let session = world.server.session(main.session_id).expect("it is there");
    assert_eq!(session.session_settings().and_then(|standing| standing.account.as_deref()), Some("team"));
    for share in [SHARE, "IPC$"] {
        assert_eq!(main.try_tree(share).status(), NtStatus::SUCCESS, "{share}");
    }
    assert_eq!(world.try_bind(&dial, &main).1, NtStatus::SUCCESS);
    // The address becomes another share's. Sessions stay, and new connections find that share.
    own_address(&world, "other", None, &[team]);
    assert_eq!(main.try_tree(SHARE).status(), NtStatus::SUCCESS);
    assert!(main.is_served());
    assert_eq!(world.try_bind(&dial, &main).1, NtStatus::REQUEST_NOT_ACCEPTED);
    let mut peer = world.peer();
    peer.log_on(&Dial::with(Dialect::Smb210));
    assert_eq!(peer.try_tree(SHARE).status(), NtStatus::BAD_NETWORK_NAME);
    assert_eq!(peer.try_tree("IPC$").status(), NtStatus::SUCCESS);
}

// MS-SMB2 3.3.5.5
#[test]
fn a_channel_must_come_to_the_same_endpoint() {
    let world = SmbTestServer::in_memory();
    let dial = Dial { signing: SigningAlgorithm::AesCmac, ..Dial::default() };
    let main = world.dial(&dial);
    let (_peer, status) = world.try_bind(&dial, &main);
    assert_eq!(status, NtStatus::SUCCESS);
    // The address becomes another account's.
    let mut team = account("team", &["bert"], Demands::default());
    team.endpoint = vec!["127.0.0.1".parse().expect("an address")];
    world.configure_server(|config| config.accounts = vec![team.clone()]);
    let (_peer, status) = world.try_bind(&dial, &main);
    assert_eq!(status, NtStatus::REQUEST_NOT_ACCEPTED);
}

#[test]
fn either_key_of_an_account_opens_its_shares_in_full_and_no_others() {
    let world = SmbTestServer::in_memory();
    let hash = |text: &str| *NtHash::from_password(text).as_bytes();
    let key_of = UserConfig {
        second_hash: Some(hash("the second key")),
        key_of: Some("lab".into()),
        ..testkit::smb::user("lab", "the first key", 1003)
    };
    let lab = account("lab", &["anna"], Demands::default());
    world.server.set_users([key_of, testkit::smb::user("anna", "s3cret", 1001)]);
    world.configure_server(|config| {
        config.accounts = vec![lab.clone()];
        config.free_users = vec!["*".into()];
    });
    let dial = |password: &str| Dial { user: "LAB".into(), password: password.into(), ..Dial::default() };
    // The share's own list has only anna.
    let of = |account: Option<&str>, read_only| {
        world.configure(|share| {
            share.account = account.map(Into::into);
            share.users = Some(vec![("anna".into(), Access::Read)]);
            share.read_only = read_only;
        });
    };
    of(Some("lab"), false);
    for key in ["the first key", "the second key"] {
        assert!(world.dial(&dial(key)).is_served(), "{key}");
    }
    let family = &smb::counting::FAMILY;
    let counted = world.engine.counts(family).read().transactions;
    let how: Vec<_> = counted.iter().map(|one| family.authentications[one.authentication]).collect();
    assert!(!how.is_empty() && how.iter().all(|how| *how == "AccountKey"), "{how:?}");
    for wrong in ["the third key", "", "s3cret"] {
        assert_eq!(log_on(&world, &dial(wrong)), NtStatus::LOGON_FAILURE, "{wrong}");
    }
    // Anna's password is not a second one of hers.
    assert_eq!(log_on(&world, &Dial { password: String::new(), ..Dial::default() }), NtStatus::LOGON_FAILURE);
    of(Some("lab"), true);
    let mut peer = world.peer();
    peer.log_on(&dial("the first key"));
    let answer = peer.try_tree(SHARE);
    let maximal = tree_connect::Response::parse(&answer.message).expect("a response").maximal_access;
    assert!(!maximal.contains(Rights::WRITE_DATA), "nobody changes what is read-only");
    for other in [Some("team"), None] {
        of(other, false);
        let mut peer = world.peer();
        peer.log_on(&dial("the first key"));
        assert_eq!(peer.try_tree(SHARE).status(), NtStatus::ACCESS_DENIED, "{other:?}");
    }
}

// MS-SMB2 3.3.5.7
#[test]
fn what_an_account_demands_counts_on_a_share_that_says_less() {
    let world = SmbTestServer::in_memory();
    let sealed = Demands { encryption: Some(Encryption::Required), ..Demands::default() };
    let signed = Demands { signing: Some(Signing::Required), ..Demands::default() };
    for (demands, seals) in [(sealed, true), (signed, false)] {
        world.configure_server(|config| {
            config.accounts = vec![account("team", &["anna"], demands)];
            // She has shares without an account too, so her session need not.
            config.free_users = vec!["anna".into()];
        });
        world.configure(|share| share.account = Some("team".into()));
        let mut peer = world.peer();
        peer.log_on(&Dial { requires_signing: false, ..Dial::default() });
        let answer = peer.try_tree(SHARE);
        let flags = tree_connect::Response::parse(&answer.message).expect("a response").share_flags;
        assert_eq!(flags.contains(tree_connect::ShareFlags::ENCRYPT_DATA), seals);
        peer.tree_id = answer.header.tree_id();
        let refused = peer.create(&OpenFile::named("in the clear")).status();
        assert_eq!(refused, NtStatus::ACCESS_DENIED, "sealed: {seals}");
        assert!(world.dial(&Dial { seals, ..Dial::default() }).is_served());
    }
}

/// Checks that NEGOTIATE arrived with these dialects. There is no reply if the connection ends.
fn validate(client: &mut Peer, dial: &Dial, dialects: &[Dialect], room: u32) -> Option<NtStatus> {
    let mut input = Vec::new();
    ValidateNegotiateInfoRequest {
        capabilities: dial.capabilities(),
        guid: dial.guid,
        security_mode: dial.security_mode(),
        dialects: WireList::Values(dialects),
    }
    .write(&mut input);
    let asked = ioctl::Request::fsctl(CtlCode::ValidateNegotiateInfo, FileId::RELATED, &input, room);
    let id = client.start(SmbCommand::Ioctl, |out| asked.write(out));
    client.answer(id).map(|answer| answer.status())
}

// MS-SMB2 3.3.5.15.12
#[test]
fn a_negotiation_is_validated_by_what_it_went_by() {
    let world = SmbTestServer::in_memory();
    let endpoint = vec!["127.0.0.1".parse().expect("an address")];
    let mut team = AccountConfig { endpoint, ..account("team", &["anna"], Demands::default()) };
    let dial = Dial::with(Dialect::Smb302);
    world.configure_server(|config| config.accounts = vec![team.clone()]);
    let mut client = world.dial(&dial);
    team.demands.min_dialect = Some(Dialect::Smb311);
    world.configure_server(|config| config.accounts = vec![team]);
    assert_eq!(validate(&mut client, &dial, &[dial.dialect], 24), Some(NtStatus::SUCCESS));
}

// MS-SMB2 3.3.5.15.12
#[test]
fn a_negotiation_that_was_changed_on_its_way_ends_the_connection() {
    let world = SmbTestServer::in_memory();
    let dial = Dial::with(Dialect::Smb302);
    let validate = |dialects: &[Dialect], room: u32| {
        let mut client = world.dial(&dial);
        let status = validate(&mut client, &dial, dialects, room);
        assert_eq!(client.is_closed, status.is_none());
        status
    };
    let chosen = dial.dialect;
    assert_eq!(validate(&[chosen], 24), Some(NtStatus::SUCCESS));
    // The same dialect would be chosen from these lists, but they are not the one that came.
    for other in [&[Dialect::Smb300, chosen][..], &[chosen, Dialect::Smb300], &[chosen, chosen], &[]] {
        assert_eq!(validate(other, 24), None, "{other:?}");
    }
    assert_eq!(validate(&[Dialect::Smb311, chosen], 24), None);
    assert_eq!(validate(&[chosen], 23), None);
}

#[test]
fn an_account_is_found_however_its_shares_and_users_spell_it() {
    let world = SmbTestServer::in_memory();
    let key_of = UserConfig { key_of: Some("Übung".into()), ..testkit::smb::user("Übung", "a key", 1003) };
    world.server.set_users([testkit::smb::user("Østen", "s3cret", 1001), key_of]);
    let keys_alone = Demands { refuses_passwords: true, ..Demands::default() };
    world.configure_server(|config| {
        config.accounts = vec![account("Übung", &["østen"], keys_alone)];
        config.free_users = vec!["østen".into()];
    });
    let user = |user: &str, password: &str| {
        let mut peer = world.peer();
        peer.log_on(&Dial { user: user.into(), password: password.into(), ..Dial::default() });
        peer.try_tree(SHARE).status()
    };
    let of = |account: Option<&str>| {
        world.configure(|share| {
            share.account = account.map(Into::into);
            share.users = Some(vec![("østen".into(), Access::Full)]);
        });
    };
    of(Some("übung"));
    assert_eq!(user("Østen", "s3cret"), NtStatus::ACCESS_DENIED);
    assert_eq!(user("übung", "a key"), NtStatus::SUCCESS);
    of(None);
    assert_eq!(user("Østen", "s3cret"), NtStatus::SUCCESS);
    // This is between the two steps of a reload that gives the account another name.
    of(Some("old"));
    assert_eq!(user("Østen", "s3cret"), NtStatus::ACCESS_DENIED);
}

#[test]
fn a_restricted_user_is_told_so_only_with_the_right_password() {
    let world = SmbTestServer::in_memory();
    let restriction = Some("it has no uid".into());
    world.server.set_users([UserConfig { restriction, ..testkit::smb::user("anna", "s3cret", 1001) }]);
    let with = |password: &str| {
        let dial = Dial { password: password.into(), ..Dial::default() };
        let mut peer = world.peer();
        let preauth = peer.negotiate_hashed(&dial);
        peer.set_up_session(&dial, preauth)
    };
    assert_eq!(with("s3cret"), NtStatus::ACCOUNT_RESTRICTION);
    assert_eq!(with("another"), NtStatus::LOGON_FAILURE);
}

#[test]
fn whoever_comes_to_a_name_is_not_who_had_it() {
    let world = SmbTestServer::in_memory();
    let anna = world.server.user("anna").expect("she is there");
    assert!(world.server.is_current_user(&anna.identity));
    let key_of = UserConfig { key_of: Some("anna".into()), ..testkit::smb::user("anna", "a key", 1003) };
    world.server.set_users([key_of]);
    assert!(!world.server.is_current_user(&anna.identity));
    let restricted = UserConfig { restriction: Some("no uid".into()), ..UserConfig::clone(&anna) };
    world.server.set_users([restricted]);
    assert!(!world.server.is_current_user(&anna.identity));
    world.server.set_users([]);
    assert!(!world.server.is_current_user(&anna.identity));
}

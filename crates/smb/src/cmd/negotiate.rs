//! NEGOTIATE: agrees on the dialect, capabilities, hash, cipher and signing of a connection (MS-SMB2
//! 3.3.5.3, 3.3.5.4).

use std::sync::atomic::Ordering;

use auth::crypto::{Cipher, SigningAlgorithm, preauth_hash, random};
use share::ClientKey;
use smb_wire::header::smb1;
use smb_wire::list::WireList;
use smb_wire::negotiate::context::ContextType;
use smb_wire::negotiate::{
    self, Capabilities, Context, Contexts, Dialect, HashAlgorithm, SecurityMode, context,
};
use smb_wire::{Guid, Header, NtStatus, SmbCommand};
use wire::{Now, Output};

use crate::config::account::AccountHint;
use crate::config::{Encryption, ServerConfig, Signing};
use crate::connection::{Connection, Negotiated};
use crate::exchange::{Compound, Handled, Request, Stop};
use crate::keys::Protection;
use crate::limits::{MAX_IO, MAX_IO_SMALL};
use crate::state::Event;

/// Dialects from the newest to the oldest.
const DIALECTS: [Dialect; 5] =
    [Dialect::Smb311, Dialect::Smb302, Dialect::Smb300, Dialect::Smb210, Dialect::Smb202];

/// Signing algorithms in the order of the server's preference (GMAC costs a tenth of CMAC).
const SIGNING: [SigningAlgorithm; 3] =
    [SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac, SigningAlgorithm::HmacSha256];

/// The agreed values from the contexts of a 3.1.1 request.
#[derive(Default)]
struct NegotiatedContexts {
    cipher: Option<Cipher>,
    encryption_asked: bool,
    signing: Option<SigningAlgorithm>,
    posix: bool,
}

/// Answers a NEGOTIATE.
pub fn handle(connection: &mut Connection, request: &mut Request<'_>, out: &mut Output<Event>) -> Handled {
    // MS-SMB2 3.3.5.4
    if connection.negotiated.is_some() {
        return Err(Stop::Disconnect("a second NEGOTIATE"));
    }
    let parsed = negotiate::Request::parse(request.message)?;
    connection.account = account_at(connection);
    let mut config = connection.settings();
    let chosen = choose(&parsed.dialects, config.min_dialect, &config);
    let dialect = chosen.ok_or(NtStatus::NOT_SUPPORTED)?;
    if connection.account.is_none() && dialect == Dialect::Smb311 {
        let named =
            server_name(&parsed.contexts).and_then(|name| Some(config.account_of(&name)?.name.clone()));
        connection.account = named.map(|account| AccountHint { account: Some(account), endpoint: None });
        config = connection.settings();
    }
    let ciphers = config.ciphers(connection.account.as_ref());
    let agreed = match dialect {
        Dialect::Smb311 => agree(&parsed.contexts, &config, &ciphers)?,
        _ => NegotiatedContexts::default(),
    };
    let protection = protection(dialect, &agreed, parsed.capabilities, &config, &ciphers);
    let multichannel = config.offers_multichannel(connection.account.as_ref());
    let persistent = connection.server.is_continuously_available();
    let negotiated = Negotiated {
        protection,
        client_guid: parsed.client_guid,
        client: client_key(parsed.client_guid, connection.handle.id),
        client_capabilities: parsed.capabilities,
        client_security: parsed.security_mode,
        capabilities: capabilities(protection, parsed.capabilities, multichannel, persistent),
        security: security(&config),
        max_io: if dialect == Dialect::Smb202 { MAX_IO_SMALL } else { MAX_IO },
        posix: agreed.posix,
    };
    let several = parsed.capabilities.contains(Capabilities::MULTI_CHANNEL);
    connection.handle.announced_multichannel.store(several, Ordering::Relaxed);
    connection.negotiated = Some(negotiated);
    connection.offered = fingerprint(&parsed.dialects);
    connection.preauth = preauth_hash(&[0; 64], request.message);
    connection.join(negotiated.client);
    out.placement = Some(negotiated.client.0);
    let started = connection.server.started;
    write_response(&config, &negotiated, dialect, &agreed, request.now, started, request.body);
    Ok(NtStatus::SUCCESS)
}

/// The account of the address that the connection came to.
fn account_at(connection: &Connection) -> Option<AccountHint> {
    connection.server.config().account_at(connection.handle.peer.local.ip())
}

/// The name by which the client found the server. A later check refuses malformed contexts.
fn server_name(contexts: &Contexts<'_>) -> Option<String> {
    let names = contexts.iter().map_while(Result::ok).filter_map(|context| match context {
        Context::Netname(name) => Some(name.to_string_lossy()),
        _ => None,
    });
    names.last()
}

/// The newest dialect of both sides, from `oldest` on.
fn choose(offered: &WireList<'_, Dialect>, oldest: Dialect, config: &ServerConfig) -> Option<Dialect> {
    let ours = oldest.get()..=config.max_dialect.get();
    let mut common = DIALECTS.into_iter().filter(|dialect| ours.contains(&dialect.get()));
    common.find(|&dialect| offered.contains(dialect))
}

/// The hash that identifies a list of dialects.
pub(crate) fn fingerprint(offered: &WireList<'_, Dialect>) -> [u8; 64] {
    let bytes: Vec<u8> = offered.iter().flat_map(|dialect| dialect.get().to_le_bytes()).collect();
    preauth_hash(&[0; 64], &bytes)
}

/// Answers the SMB1 NEGOTIATE of older clients (MS-SMB2 3.3.5.3).
pub(crate) fn from_smb1(connection: &mut Connection, frame: &[u8], now: Now, out: &mut Output<Event>) {
    let Ok(parsed) = smb1::Negotiate::parse(frame) else {
        return connection.hang_up("an SMB1 message that is no NEGOTIATE", now, out);
    };
    if connection.negotiated.is_some() || connection.multi_protocol {
        return connection.hang_up("a second NEGOTIATE", now, out);
    }
    connection.account = account_at(connection);
    let config = connection.settings();
    // MS-SMB2 3.3.5.3.1, 3.3.5.3.2: the wildcard asks for an SMB2 NEGOTIATE with the real choice.
    let dialect =
        if parsed.offers(smb1::DIALECT_2_WILDCARD) && config.max_dialect.get() >= Dialect::Smb210.get() {
            Dialect::Wildcard
        } else if parsed.offers(smb1::DIALECT_2_002) && config.min_dialect == Dialect::Smb202 {
            Dialect::Smb202
        } else {
            return connection.hang_up("a client that speaks only SMB1", now, out);
        };
    let agreed = NegotiatedContexts::default();
    let (is_wildcard, empty) = (dialect == Dialect::Wildcard, Capabilities::empty());
    let negotiated = Negotiated {
        protection: protection(Dialect::Smb202, &agreed, empty, &config, &[]),
        client_guid: Guid::ZERO,
        client: client_key(Guid::ZERO, connection.handle.id),
        client_capabilities: empty,
        client_security: SecurityMode::SIGNING_ENABLED,
        capabilities: if is_wildcard { Capabilities::LARGE_MTU } else { empty },
        security: security(&config),
        max_io: if is_wildcard { MAX_IO } else { MAX_IO_SMALL },
        posix: false,
    };
    connection.multi_protocol = true;
    if dialect == Dialect::Smb202 {
        connection.negotiated = Some(negotiated);
        connection.offered = fingerprint(&WireList::EMPTY);
        connection.join(negotiated.client);
    }
    let mut compound = Compound::new(out.pool.take(512), None);
    let at = compound.begin();
    let started = connection.server.started;
    write_response(&config, &negotiated, dialect, &agreed, now, started, compound.frame.tail());
    let mut header = Header::response_to(&Header::request(SmbCommand::Negotiate, 0), NtStatus::SUCCESS);
    // The SMB1 request stands for message id 0 (MS-SMB2 3.3.5.3.1).
    connection.window.take(0, 1);
    header.set_credit_charge(0);
    header.set_credits(connection.window.grant(1));
    compound.end(at, header, false);
    connection.finish(compound, out);
}

fn write_response(
    config: &ServerConfig,
    negotiated: &Negotiated,
    dialect: Dialect,
    agreed: &NegotiatedContexts,
    now: Now,
    started: Now,
    body: &mut Vec<u8>,
) {
    let salt: [u8; 32] = random();
    let hash = [HashAlgorithm::Sha512];
    let cipher = [context::Cipher::new(agreed.cipher.map_or(0, |cipher| cipher as u16))];
    let signing = [context::SigningAlgorithm::new(negotiated.protection.signing as u16)];
    let mut contexts =
        vec![Context::PreauthIntegrity { hash_algorithms: WireList::Values(&hash), salt: &salt }];
    if agreed.encryption_asked {
        contexts.push(Context::Encryption(WireList::Values(&cipher)));
    }
    if agreed.signing.is_some() {
        contexts.push(Context::Signing(WireList::Values(&signing)));
    }
    if agreed.posix {
        contexts.push(Context::Posix(&context::POSIX_GUID));
    }
    let token = config.log_on().hint();
    negotiate::Response {
        security_mode: negotiated.security,
        dialect_revision: dialect,
        server_guid: config.guid,
        capabilities: negotiated.capabilities,
        max_transact_size: negotiated.max_io,
        max_read_size: negotiated.max_io,
        max_write_size: negotiated.max_io,
        system_time: crate::time::now(now),
        // MS-SMB2 2.2.4: Windows sends 0, since the start time of the server helps an attacker.
        server_start_time: if dialect == Dialect::Smb202 { crate::time::now(started) } else { 0 },
        security_buffer: &token,
        contexts: if dialect == Dialect::Smb311 { Contexts::Values(&contexts) } else { Contexts::EMPTY },
    }
    .write(body);
}

// MS-SMB2 3.3.5.4
fn agree(
    contexts: &Contexts<'_>,
    config: &ServerConfig,
    ours: &[Cipher],
) -> Result<NegotiatedContexts, Stop> {
    let mut agreed = NegotiatedContexts::default();
    for context in contexts.iter() {
        match context? {
            Context::PreauthIntegrity { hash_algorithms, .. } => {
                let has_ours = hash_algorithms.contains(HashAlgorithm::Sha512);
                Stop::when(!has_ours, NtStatus::SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP)?;
            }
            Context::Encryption(ciphers) => {
                agreed.encryption_asked = true;
                let known = |cipher: &Cipher| ciphers.contains(context::Cipher::new(*cipher as u16));
                let found = ours.iter().copied().find(known);
                agreed.cipher = found.filter(|_| config.encryption != Encryption::Off);
            }
            Context::Signing(algorithms) => {
                let known = |algorithm: &SigningAlgorithm| {
                    algorithms.contains(context::SigningAlgorithm::new(*algorithm as u16))
                };
                agreed.signing = SIGNING.into_iter().find(known);
            }
            Context::Posix(data) => agreed.posix |= data == context::POSIX_GUID,
            Context::Compression { .. }
            | Context::Netname(_)
            | Context::Transport(_)
            | Context::RdmaTransform(_)
            | Context::Unknown { .. } => {}
        }
    }
    let count = |kind| {
        let all = contexts.iter().filter_map(Result::ok);
        all.filter(|context| context.context_type() == kind).count()
    };
    let at_most_one =
        [ContextType::Encryption, ContextType::Signing, ContextType::Compression, ContextType::RdmaTransform];
    let is_wrong =
        count(ContextType::PreauthIntegrity) != 1 || at_most_one.into_iter().any(|kind| count(kind) > 1);
    Stop::when(is_wrong, NtStatus::INVALID_PARAMETER)?;
    Ok(agreed)
}

fn protection(
    dialect: Dialect,
    agreed: &NegotiatedContexts,
    client: Capabilities,
    config: &ServerConfig,
    ciphers: &[Cipher],
) -> Protection {
    let signing = match dialect {
        Dialect::Smb311 => agreed.signing.unwrap_or(SigningAlgorithm::AesCmac),
        dialect if dialect.is_smb3() => SigningAlgorithm::AesCmac,
        _ => SigningAlgorithm::HmacSha256,
    };
    let cipher = match dialect {
        Dialect::Smb311 => agreed.cipher,
        // MS-SMB2 3.3.5.4: 3.0 and 3.0.2 have one cipher, and a flag that says whether it is used.
        dialect if dialect.is_smb3() && config.encryption != Encryption::Off => {
            let agreed = client.contains(Capabilities::ENCRYPTION) && ciphers.contains(&Cipher::Aes128Ccm);
            agreed.then_some(Cipher::Aes128Ccm)
        }
        _ => None,
    };
    Protection { dialect, signing, cipher }
}

// MS-SMB2 3.3.5.4
fn capabilities(
    protection: Protection,
    client: Capabilities,
    multichannel: bool,
    persistent: bool,
) -> Capabilities {
    let dialect = protection.dialect;
    let mut capabilities = Capabilities::empty();
    capabilities.set(Capabilities::LEASING | Capabilities::LARGE_MTU, dialect != Dialect::Smb202);
    if dialect.is_smb3() {
        // Only a client that asks for these gets them.
        let mut offered = Capabilities::DIRECTORY_LEASING;
        offered.set(Capabilities::MULTI_CHANNEL, multichannel);
        offered.set(Capabilities::PERSISTENT_HANDLES, persistent);
        capabilities |= offered & client;
        // In 3.1.1 the context says it, not the flag.
        let is_told = dialect != Dialect::Smb311 && protection.cipher.is_some();
        capabilities.set(Capabilities::ENCRYPTION, is_told);
    }
    capabilities
}

fn security(config: &ServerConfig) -> SecurityMode {
    match config.signing {
        Signing::Offered => SecurityMode::SIGNING_ENABLED,
        Signing::Required => SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED,
    }
}

/// The engine's key of a client. A client without a GUID (dialect 2.0.2) has the key of its connection.
fn client_key(guid: Guid, connection: u64) -> ClientKey {
    if guid == Guid::ZERO {
        ClientKey(u128::from(connection))
    } else {
        ClientKey(u128::from_be_bytes(guid.0))
    }
}

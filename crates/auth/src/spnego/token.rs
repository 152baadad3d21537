//! NegTokenInit, NegTokenInit2 and NegTokenResp as bytes (RFC 4178 section 4.2, MS-SPNG 2.2.1).

use wire::{Cursor, Truncated};

use super::der::{
    APPLICATION_0, ENUMERATED, GENERAL_STRING, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, context, element,
    expect, only, write,
};

/// A token that cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    /// An element is longer than the rest.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// An element has an indefinite length, or a length in more than four bytes.
    #[error("an element's length is not written in a form that is allowed")]
    BadLength,
    /// The element is not the expected one.
    #[error("an element with tag {0:#04x} where it does not belong")]
    UnexpectedTag(u8),
    /// The wrapper belongs to another mechanism than SPNEGO.
    #[error("the token belongs to another mechanism")]
    NotSpnego,
    /// There are more than [`MAX_MECHS`] mechanisms.
    #[error("too many mechanisms")]
    TooManyMechs,
    /// The token is longer than [`MAX_TOKEN_LEN`].
    #[error("the token is too long")]
    TooLong,
}

/// 1.3.6.1.5.5.2, encoded.
const SPNEGO: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x02];
/// 1.3.6.1.4.1.311.2.2.10, the mechanism NTLMSSP, encoded.
pub const NTLMSSP: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x0a];
/// 1.2.840.113554.1.2.2, the mechanism Kerberos 5, encoded.
pub const KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];
/// 1.2.840.48018.1.2.2, encoded: Kerberos 5 under the identifier that Windows 2000 wrote by mistake, and that
/// Windows still lists first (MS-SPNG 3.1.5.2).
pub const MS_KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x82, 0xf7, 0x12, 0x01, 0x02, 0x02];

/// The longest accepted token, in bytes. A Kerberos ticket of a member of many groups has up to 48 KiB. It
/// may be the optimistic token of a client that then takes NTLM.
pub const MAX_TOKEN_LEN: usize = 64 * 1024;
/// The most mechanisms of a client. Windows names at most six.
pub const MAX_MECHS: usize = 32;

/// A token of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token<'a> {
    /// The first token of an exchange.
    Init(NegTokenInit<'a>),
    /// Any later token.
    Resp(NegTokenResp<'a>),
}

/// The initiator's first token. A server's NegTokenInit2 is parsed in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NegTokenInit<'a> {
    /// The mechanisms in order of preference, as encoded object identifiers.
    pub mechs: Vec<&'a [u8]>,
    /// The encoded MechTypeList as it was sent, which a mechListMIC protects.
    pub mech_list: &'a [u8],
    /// The optimistic token, for the first mechanism.
    pub mech_token: Option<&'a [u8]>,
}

/// Every later token of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NegTokenResp<'a> {
    /// The state of the negotiation.
    pub state: Option<NegState>,
    /// The chosen mechanism, in the acceptor's first token.
    pub supported_mech: Option<&'a [u8]>,
    /// The mechanism's own token.
    pub response_token: Option<&'a [u8]>,
    /// The MIC of the list of mechanisms.
    pub mech_list_mic: Option<&'a [u8]>,
}

/// The state of the negotiation (RFC 4178 section 4.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NegState {
    /// The sender has finished.
    AcceptCompleted,
    /// The other side must send another token.
    AcceptIncomplete,
    /// The negotiation has failed.
    Reject,
    /// The other side must send another token, and both must send a MIC of the list of mechanisms.
    RequestMic,
    /// A value that RFC 4178 does not define.
    Unknown(u8),
}

impl NegState {
    fn of(value: u8) -> NegState {
        match value {
            0 => NegState::AcceptCompleted,
            1 => NegState::AcceptIncomplete,
            2 => NegState::Reject,
            3 => NegState::RequestMic,
            other => NegState::Unknown(other),
        }
    }

    fn value(self) -> u8 {
        match self {
            NegState::AcceptCompleted => 0,
            NegState::AcceptIncomplete => 1,
            NegState::Reject => 2,
            NegState::RequestMic => 3,
            NegState::Unknown(other) => other,
        }
    }
}

/// Reads a token, with or without the GSS-API wrapper. Bytes after it are ignored, and so are elements that
/// RFC 4178 leaves for extensions.
///
/// # Errors
/// [`BadToken`].
pub fn parse(token: &[u8]) -> Result<Token<'_>, BadToken> {
    if token.len() > MAX_TOKEN_LEN {
        return Err(BadToken::TooLong);
    }
    let mut cursor = Cursor::new(token);
    let (mut tag, mut content) = element(&mut cursor)?;
    if tag == APPLICATION_0 {
        let mut inside = Cursor::new(content);
        if expect(&mut inside, OBJECT_IDENTIFIER)? != SPNEGO {
            return Err(BadToken::NotSpnego);
        }
        (tag, content) = element(&mut inside)?;
    }
    match tag {
        0xa0 => Ok(Token::Init(parse_init(only(content, SEQUENCE)?)?)),
        0xa1 => Ok(Token::Resp(parse_resp(only(content, SEQUENCE)?)?)),
        other => Err(BadToken::UnexpectedTag(other)),
    }
}

fn parse_init(fields: &[u8]) -> Result<NegTokenInit<'_>, BadToken> {
    let mut token = NegTokenInit::default();
    let mut cursor = Cursor::new(fields);
    while cursor.remaining() > 0 {
        // reqFlags [1] must be ignored (RFC 4178 section 4.2.1). [3] is negHints in a server's token. In a
        // client's token it is a mechListMIC, which cannot be verified before a mechanism has finished.
        match element(&mut cursor)? {
            (0xa0, content) => {
                token.mech_list = content;
                token.mechs = parse_mechs(only(content, SEQUENCE)?)?;
            }
            (0xa2, content) => token.mech_token = Some(only(content, OCTET_STRING)?),
            _ => {}
        }
    }
    Ok(token)
}

fn parse_mechs(list: &[u8]) -> Result<Vec<&[u8]>, BadToken> {
    let mut mechs = Vec::new();
    let mut cursor = Cursor::new(list);
    while cursor.remaining() > 0 {
        if mechs.len() == MAX_MECHS {
            return Err(BadToken::TooManyMechs);
        }
        mechs.push(expect(&mut cursor, OBJECT_IDENTIFIER)?);
    }
    Ok(mechs)
}

fn parse_resp(fields: &[u8]) -> Result<NegTokenResp<'_>, BadToken> {
    let mut token = NegTokenResp::default();
    let mut cursor = Cursor::new(fields);
    while cursor.remaining() > 0 {
        match element(&mut cursor)? {
            (0xa0, content) => match only(content, ENUMERATED)? {
                [value] => token.state = Some(NegState::of(*value)),
                _ => return Err(BadToken::BadLength),
            },
            (0xa1, content) => token.supported_mech = Some(only(content, OBJECT_IDENTIFIER)?),
            (0xa2, content) => token.response_token = Some(only(content, OCTET_STRING)?),
            (0xa3, content) => token.mech_list_mic = Some(only(content, OCTET_STRING)?),
            _ => {}
        }
    }
    Ok(token)
}

/// An encoded MechTypeList.
#[must_use]
pub fn mech_list(mechs: &[&[u8]]) -> Vec<u8> {
    let encoded: Vec<Vec<u8>> = mechs.iter().map(|mech| write(OBJECT_IDENTIFIER, &[mech])).collect();
    let parts: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
    write(SEQUENCE, &parts)
}

/// Wraps the fields of a NegTokenInit or NegTokenInit2.
fn wrap_init(fields: &[&[u8]]) -> Vec<u8> {
    let init = write(context(0), &[&write(SEQUENCE, fields)]);
    write(APPLICATION_0, &[&write(OBJECT_IDENTIFIER, &[SPNEGO]), &init])
}

/// Whether a token is a first one of Kerberos without SPNEGO (RFC 2743 section 3.1).
#[must_use]
pub fn is_kerberos(token: &[u8]) -> bool {
    let inside = only(token, APPLICATION_0);
    let mech = inside.and_then(|inside| only(inside, OBJECT_IDENTIFIER));
    mech.is_ok_and(|mech| mech == KERBEROS || mech == MS_KERBEROS)
}

/// The first token of a server: its mechanisms, and a name that clients must ignore.
#[must_use]
pub fn hint(mechs: &[&[u8]]) -> Vec<u8> {
    // MS-SPNG 3.2.5.2
    let name = write(GENERAL_STRING, &[b"not_defined_in_RFC4178@please_ignore"]);
    let hints = write(SEQUENCE, &[&write(context(0), &[&name])]);
    wrap_init(&[&write(context(0), &[&mech_list(mechs)]), &write(context(3), &[&hints])])
}

impl NegTokenInit<'_> {
    /// The token: the unchanged `mech_list` and the optimistic token. Only the reader uses `mechs`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mechs = write(context(0), &[self.mech_list]);
        let token = octets(2, self.mech_token);
        wrap_init(&[&mechs, &token])
    }
}

impl NegTokenResp<'_> {
    /// The token.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let state = self
            .state
            .map_or_else(Vec::new, |state| write(context(0), &[&write(ENUMERATED, &[&[state.value()]])]));
        let mech = self
            .supported_mech
            .map_or_else(Vec::new, |mech| write(context(1), &[&write(OBJECT_IDENTIFIER, &[mech])]));
        let token = octets(2, self.response_token);
        let mic = octets(3, self.mech_list_mic);
        write(context(1), &[&write(SEQUENCE, &[&state, &mech, &token, &mic])])
    }
}

/// An optional OCTET STRING under `[number]`.
fn octets(number: u8, value: Option<&[u8]>) -> Vec<u8> {
    value.map_or_else(Vec::new, |value| write(context(number), &[&write(OCTET_STRING, &[value])]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ntlm::message::captured;
    use crate::testing::hex;

    /// The tokens in Microsoft's published SMB 3.1.1 trace. Windows wrote both of them around the NTLM
    /// messages.
    #[test]
    fn tokens_of_a_captured_exchange_are_read_and_written_alike() {
        let negotiate = hex(captured::NEGOTIATE);
        let captured = hex(&format!(
            "604806062B0601050502A03E303CA00E300C060A2B06010401823702020AA22A0428{}",
            captured::NEGOTIATE
        ));
        let Ok(Token::Init(init)) = parse(&captured) else { panic!("not a NegTokenInit") };
        assert_eq!(init.mechs, [NTLMSSP]);
        assert_eq!(init.mech_list, mech_list(&[NTLMSSP]));
        assert_eq!(init.mech_token, Some(&negotiate[..]));
        assert_eq!(init.encode(), captured);

        let captured = hex("A11B3019A0030A0100A3120410010000003B453CDC3524164200000000");
        let Ok(Token::Resp(resp)) = parse(&captured) else { panic!("not a NegTokenResp") };
        assert_eq!(resp.state, Some(NegState::AcceptCompleted));
        assert_eq!(resp.mech_list_mic.unwrap(), hex("010000003B453CDC3524164200000000"));
        assert_eq!((resp.supported_mech, resp.response_token), (None, None));
        assert_eq!(resp.encode(), captured);
    }

    /// The first token of Windows, from the example of MS-SPNG section 4 without its NEGOEX token. The hint
    /// here differs only by the mechanism that it leaves out.
    #[test]
    fn hint_has_the_shape_of_the_ms_spng_example() {
        let expected = hex("604806062b0601050502a03e303ca00e300c060a2b06010401823702020a\
             a32a3028a0261b246e6f745f646566696e65645f696e5f5246433431373840706c656173655f69676e6f7265");
        assert_eq!(hint(&[NTLMSSP]), expected);
        let Ok(Token::Init(init)) = parse(&expected) else { panic!("not a NegTokenInit") };
        assert_eq!((init.mechs, init.mech_token), (vec![NTLMSSP], None));
    }

    #[test]
    fn bare_tokens_of_kerberos_are_told_from_others() {
        assert!(is_kerberos(&hex("600d06092a864886f71201020201000000")));
        assert!(is_kerberos(&hex("600d06092a864882f71201020201000000")));
        for other in ["600d06062b0601050502", "6e03", "60", "", "4e544c4d53535000"] {
            assert!(!is_kerberos(&hex(other)), "{other}");
        }
    }

    #[test]
    fn foreign_and_overlong_tokens_are_refused() {
        assert_eq!(parse(&hex("60060604deadbeef")), Err(BadToken::NotSpnego));
        assert_eq!(parse(&hex("0400")), Err(BadToken::UnexpectedTag(4)));
        assert_eq!(parse(&vec![0x60; MAX_TOKEN_LEN + 1]), Err(BadToken::TooLong));
        let many = wrap_init(&[&write(context(0), &[&mech_list(&[NTLMSSP; MAX_MECHS + 1])])]);
        assert_eq!(parse(&many), Err(BadToken::TooManyMechs));
        assert!(parse(&[]).is_err());
    }
}

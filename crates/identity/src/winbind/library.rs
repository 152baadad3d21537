//! Samba's `libwbclient`, loaded at run time: the only file of this crate with `unsafe`.
//!
//! [`Library::load`] finds the library, and [`Library::authenticate`] is its one call in safe form.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use kerberos::SharedLibrary;
use volume::security::Sid;
use zeroize::Zeroizing;

use super::{AuthenticatedAccount, Failure, NetworkResponse};

/// The most SIDs of an account that are read: as many as in a PAC.
const MAX_SIDS: usize = kerberos::pac::MAX_GROUPS;

/// WBC_ERR_SUCCESS and those errors that mean something of their own.
const SUCCESS: c_int = 0;
const WINBIND_NOT_AVAILABLE: c_int = 6;
const DOMAIN_NOT_FOUND: c_int = 7;
const AUTH_ERROR: c_int = 10;

/// WBC_AUTH_USER_LEVEL_RESPONSE
const LEVEL_RESPONSE: c_int = 3;

/// struct wbcDomainSid
#[repr(C)]
struct DomainSid {
    revision: u8,
    count: u8,
    authority: [u8; 6],
    sub: [u32; 15],
}

/// struct wbcSidWithAttr
#[repr(C)]
struct SidWithAttributes {
    sid: DomainSid,
    attributes: u32,
}

/// The response of struct wbcAuthUserParams. It is the largest part of its union.
#[repr(C)]
struct ResponseParameters {
    challenge: [u8; 8],
    nt_length: u32,
    nt_data: *const u8,
    lm_length: u32,
    lm_data: *const u8,
}

/// struct wbcAuthUserParams
#[repr(C)]
struct Parameters {
    account_name: *const c_char,
    domain_name: *const c_char,
    workstation_name: *const c_char,
    flags: u32,
    parameter_control: u32,
    level: c_int,
    response: ResponseParameters,
}

/// struct wbcAuthUserInfo
#[repr(C)]
struct UserInfo {
    user_flags: u32,
    account_name: *const c_char,
    user_principal: *const c_char,
    full_name: *const c_char,
    domain_name: *const c_char,
    dns_domain_name: *const c_char,
    account_flags: u32,
    user_session_key: [u8; 16],
    lm_session_key: [u8; 8],
    logon_count: u16,
    bad_password_count: u16,
    times: [u64; 6],
    texts: [*const c_char; 5],
    sid_count: u32,
    sids: *const SidWithAttributes,
}

/// struct wbcAuthErrorInfo
#[repr(C)]
struct ErrorInfo {
    nt_status: u32,
    nt_string: *const c_char,
    pam_error: i32,
    display_string: *const c_char,
    authoritative: u8,
}

/// The functions of the library that are called.
struct Functions {
    context_create: unsafe extern "C" fn() -> *mut c_void,
    context_free: unsafe extern "C" fn(*mut c_void),
    free_memory: unsafe extern "C" fn(*mut c_void),
    authenticate: unsafe extern "C" fn(
        *mut c_void,
        *const Parameters,
        *mut *mut UserInfo,
        *mut *mut ErrorInfo,
    ) -> c_int,
}

/// The library is missing on this host, or is too old.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Samba's libwbclient is not there ({reason}): install the packages `libwbclient0` and `winbind` (Debian, \
     Ubuntu) or `libwbclient` and `samba-winbind` (Fedora, RHEL)"
)]
pub struct NotInstalled {
    reason: String,
}

/// Samba's library. It is never unloaded.
pub(super) struct Library {
    functions: Functions,
}

/// A connection to winbindd, which one call at a time uses.
struct ClientContext<'a> {
    library: &'a Library,
    context: *mut c_void,
}

impl Drop for ClientContext<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is of this library and is used no more.
        unsafe { (self.library.functions.context_free)(self.context) };
    }
}

/// Memory of the library.
struct Owned<'a, T> {
    library: &'a Library,
    value: *mut T,
}

impl<T> Owned<'_, T> {
    fn get(&self) -> Option<&T> {
        // SAFETY: the library returns null or a structure that lives until it is freed.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Drop for Owned<'_, T> {
    fn drop(&mut self) {
        if !self.value.is_null() {
            // SAFETY: the library has returned the structure, and nobody refers to it any more.
            unsafe { (self.library.functions.free_memory)(self.value.cast()) };
        }
    }
}

impl Library {
    /// Loads the library.
    ///
    /// # Errors
    /// [`NotInstalled`].
    pub(super) fn load() -> Result<Library, NotInstalled> {
        let missing = |reason| NotInstalled { reason };
        // SAFETY: the library's initializers do nothing but set up its state.
        let library = unsafe { SharedLibrary::open(c"libwbclient.so.0") }.map_err(missing)?;
        let find = |name: &str| library.symbol(name).map_err(missing);
        let [create, free, free_memory, authenticate] =
            ["wbcCtxCreate", "wbcCtxFree", "wbcFreeMemory", "wbcCtxAuthenticateUserEx"].map(find);
        // SAFETY: the library's header declares each function with this signature, and a pointer to a
        // function has the size of a pointer to data on every platform with dlopen.
        let functions = unsafe {
            Functions {
                context_create: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut c_void>(
                    create?,
                ),
                context_free: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(free?),
                free_memory: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(
                    free_memory?,
                ),
                authenticate: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(
                        *mut c_void,
                        *const Parameters,
                        *mut *mut UserInfo,
                        *mut *mut ErrorInfo,
                    ) -> c_int,
                >(authenticate?),
            }
        };
        Ok(Library { functions })
    }

    /// Has winbindd judge a response (wbcCtxAuthenticateUserEx). It blocks until winbindd answers.
    pub(super) fn authenticate(&self, asked: &NetworkResponse) -> Result<AuthenticatedAccount, Failure> {
        let text = |text: &str| CString::new(text).map_err(|_| Failure::Name);
        let (user, domain) = (text(&asked.user)?, text(&asked.domain)?);
        let workstation = text(&asked.workstation)?;
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| Failure::Name);
        let parameters = Parameters {
            account_name: user.as_ptr(),
            domain_name: domain.as_ptr(),
            workstation_name: workstation.as_ptr(),
            flags: 0,
            parameter_control: asked.parameter_control,
            level: LEVEL_RESPONSE,
            response: ResponseParameters {
                challenge: asked.challenge,
                nt_length: length(&asked.nt_response)?,
                nt_data: asked.nt_response.as_ptr(),
                lm_length: 0,
                lm_data: ptr::null(),
            },
        };
        // SAFETY: the function has no arguments.
        let context = unsafe { (self.functions.context_create)() };
        if context.is_null() {
            return Err(Failure::NotRunning);
        }
        let context = ClientContext { library: self, context };
        let (mut info, mut error) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the parameters and all that they point to outlive the call, and it sets both results to
        // null or to structures that the caller frees.
        let status =
            unsafe { (self.functions.authenticate)(context.context, &parameters, &mut info, &mut error) };
        let info = Owned { library: self, value: info };
        let error = Owned { library: self, value: error };
        match (status, info.get(), error.get()) {
            // SAFETY: the library has filled the structure, and `info` owns it.
            (SUCCESS, Some(info), _) => unsafe { account(info) }.ok_or(Failure::Malformed),
            (WINBIND_NOT_AVAILABLE, ..) => Err(Failure::NotRunning),
            (DOMAIN_NOT_FOUND, ..) => Err(Failure::NoDomain),
            (AUTH_ERROR, _, Some(error)) => {
                // SAFETY: the string is null or lives as long as `error`.
                let name = unsafe { text_of(error.nt_string) };
                Err(Failure::Refused { status: error.nt_status, name })
            }
            (status, ..) => Err(Failure::Other(status)),
        }
    }
}

/// The account of an accepted response.
///
/// # Safety
/// The strings and the SIDs of `info` are those that the library has set.
unsafe fn account(info: &UserInfo) -> Option<AuthenticatedAccount> {
    let count = info.sid_count as usize;
    if info.sids.is_null() || !(2..=MAX_SIDS).contains(&count) {
        return None;
    }
    // SAFETY: the caller promises so many SIDs.
    let listed = unsafe { std::slice::from_raw_parts(info.sids, count) };
    let sids: Vec<(Sid, u32)> =
        listed.iter().map(|one| Some((sid(&one.sid)?, one.attributes))).collect::<Option<_>>()?;
    // SAFETY: the caller promises the strings.
    let (name, domain) = unsafe { (text_of(info.account_name), text_of(info.domain_name)) };
    Some(AuthenticatedAccount {
        name,
        domain,
        session_key: Zeroizing::new(info.user_session_key),
        user_flags: info.user_flags,
        account_flags: info.account_flags,
        sids,
    })
}

fn sid(from: &DomainSid) -> Option<Sid> {
    let authority = from.authority.iter().fold(0, |authority, byte| authority << 8 | u64::from(*byte));
    let sub = from.sub.get(..usize::from(from.count))?;
    (from.revision == 1).then(|| Sid::new(authority, sub))
}

/// A string of the library, without what is no UTF-8. It is empty for null.
///
/// # Safety
/// The pointer is null, or leads to a string that ends with a zero byte.
unsafe fn text_of(from: *const c_char) -> String {
    // SAFETY: as the caller promises.
    unsafe { text(from) }.unwrap_or_default()
}

/// As [`text_of`], and `None` for null.
///
/// # Safety
/// The pointer is null, or leads to a string that ends with a zero byte.
unsafe fn text(from: *const c_char) -> Option<String> {
    // SAFETY: as the caller promises.
    (!from.is_null()).then(|| unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_sizes_of_the_header() {
        assert_eq!((size_of::<DomainSid>(), size_of::<SidWithAttributes>()), (68, 72));
        #[cfg(target_pointer_width = "64")]
        assert_eq!((size_of::<Parameters>(), size_of::<UserInfo>(), size_of::<ErrorInfo>()), (80, 184, 40));
    }

    #[test]
    fn a_sid_of_the_library_is_read() {
        let mut one = DomainSid { revision: 1, count: 5, authority: [0, 0, 0, 0, 0, 5], sub: [0; 15] };
        one.sub[..5].copy_from_slice(&[21, 1, 2, 3, 1104]);
        assert_eq!(sid(&one).map(|sid| sid.to_string()).as_deref(), Some("S-1-5-21-1-2-3-1104"));
        one.count = 16;
        assert_eq!(sid(&one), None);
        assert_eq!(sid(&DomainSid { revision: 2, count: 1, ..one }), None);
    }
}

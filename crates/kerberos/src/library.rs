//! MIT's `libgssapi_krb5`, loaded at run time. All of its calls are in this file; [`keytab`] calls `libkrb5`.
//!
//! [`Library::load`] finds the library. The types [`Name`], [`Credential`] and [`Context`] own the objects of
//! the library and release them. Their methods are the calls of RFC 2744, RFC 5588 and RFC 6680 in safe form.
//! The files beside this one put them together.

pub(crate) mod keytab;

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::error::{Cause, GssError};
use crate::shared_library::SharedLibrary;

type OmUint32 = u32;
/// An object of the library, such as a name or a context.
type Object = *mut c_void;

/// gss_OID_desc of RFC 2744.
#[repr(C)]
struct Oid {
    length: OmUint32,
    elements: *const c_void,
}

// SAFETY: an Oid of this file points to constant bytes.
unsafe impl Sync for Oid {}

/// gss_OID_set_desc.
#[repr(C)]
struct OidSet {
    count: usize,
    elements: *const Oid,
}

/// gss_buffer_desc.
#[repr(C)]
struct Buffer {
    length: usize,
    value: *const c_void,
}

/// gss_buffer_set_desc of MIT's extensions.
#[repr(C)]
struct BufferSet {
    count: usize,
    elements: *mut Buffer,
}

/// gss_channel_bindings_struct of RFC 2744 section 3.11. Zero is GSS_C_AF_UNSPEC: there are no addresses.
#[repr(C)]
struct ChannelBindings {
    initiator_family: OmUint32,
    initiator: Buffer,
    acceptor_family: OmUint32,
    acceptor: Buffer,
    application_data: Buffer,
}

/// gss_key_value_element_desc of MIT's extensions.
#[repr(C)]
struct KeyValue {
    key: *const c_char,
    value: *const c_char,
}

/// gss_key_value_set_desc.
#[repr(C)]
struct KeyValues {
    count: OmUint32,
    elements: *const KeyValue,
}

const fn oid(bytes: &'static [u8]) -> Oid {
    Oid { length: bytes.len() as OmUint32, elements: bytes.as_ptr().cast() }
}

/// 1.2.840.113554.1.2.2: the mechanism Kerberos 5.
static KERBEROS: Oid = oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02]);
/// 1.2.840.113554.1.2.2.1: GSS_KRB5_NT_PRINCIPAL_NAME.
static NT_PRINCIPAL: Oid = oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 0x01]);
/// 1.2.840.113554.1.2.1.4: GSS_C_NT_HOSTBASED_SERVICE.
static NT_HOSTBASED: Oid = oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x01, 0x04]);
/// 1.2.840.113554.1.2.2.5.5: GSS_C_INQ_SSPI_SESSION_KEY.
static SESSION_KEY: Oid = oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 0x05, 0x05]);

/// GSS_C_ROUTINE_ERROR and GSS_C_CALLING_ERROR bits of a major status.
const ERROR_BITS: OmUint32 = 0xffff_0000;
/// GSS_S_CONTINUE_NEEDED.
const CONTINUE_NEEDED: OmUint32 = 1;
/// GSS_S_UNAVAILABLE, as a routine error.
const UNAVAILABLE: OmUint32 = 16 << 16;
/// GSS_C_GSS_CODE and GSS_C_MECH_CODE of gss_display_status.
const GSS_CODE: c_int = 1;
const MECH_CODE: c_int = 2;

/// Flags of a context (RFC 2744 section 5.19).
pub(crate) mod flags {
    /// GSS_C_MUTUAL_FLAG: the server proves itself too.
    pub(crate) const MUTUAL: u32 = 2;
    /// GSS_C_REPLAY_FLAG: replayed messages are detected.
    pub(crate) const REPLAY: u32 = 4;
    /// GSS_C_SEQUENCE_FLAG: messages out of order are detected.
    pub(crate) const SEQUENCE: u32 = 8;
    /// GSS_C_CONF_FLAG: messages can be encrypted.
    pub(crate) const CONFIDENTIALITY: u32 = 16;
    /// GSS_C_INTEG_FLAG: messages can be signed.
    pub(crate) const INTEGRITY: u32 = 32;
}

/// The library is missing on this host, or is too old.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Kerberos needs MIT's GSSAPI library, which is not installed ({reason}); install the package \
     `libgssapi-krb5-2` (Debian, Ubuntu) or `krb5-libs` (Fedora, RHEL)"
)]
pub struct NotInstalled {
    reason: String,
}

/// The use of credentials (RFC 2744 section 5.2).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Usage {
    Initiate,
    Accept,
}

/// The form of a name's text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NameForm {
    /// `service@host`.
    HostService,
    /// A principal, such as `user@REALM`.
    Principal,
}

/// Declares the table of a library's functions and its constructor.
macro_rules! functions {
    ($table:ident: $result:ty; $($name:ident: fn($($argument:ty),* $(,)?);)*) => {
        /// The functions of the library.
        struct $table {
            $($name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl $table {
            fn find(library: &SharedLibrary) -> Result<$table, String> {
                $(let $name = library.symbol(stringify!($name))?;)*
                Ok($table {
                    // SAFETY: the library's headers declare each function with this signature, and a pointer
                    // to a function has the size of a pointer to data on every platform with dlopen.
                    $($name: unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> $result>(
                            $name,
                        )
                    },)*
                })
            }
        }
    };
}
use functions;

functions! {
    Functions: OmUint32;
    gss_import_name: fn(*mut OmUint32, *const Buffer, *const Oid, *mut Object);
    gss_display_name: fn(*mut OmUint32, Object, *mut Buffer, *mut *const Oid);
    gss_release_name: fn(*mut OmUint32, *mut Object);
    gss_get_name_attribute: fn(
        *mut OmUint32, Object, *const Buffer, *mut c_int, *mut c_int, *mut Buffer, *mut Buffer, *mut c_int,
    );
    gss_acquire_cred_from: fn(
        *mut OmUint32, Object, OmUint32, *const OidSet, c_int, *const KeyValues, *mut Object,
        *mut *const OidSet, *mut OmUint32,
    );
    gss_krb5_set_allowable_enctypes: fn(*mut OmUint32, Object, OmUint32, *const i32);
    gss_release_cred: fn(*mut OmUint32, *mut Object);
    gss_accept_sec_context: fn(
        *mut OmUint32, *mut Object, Object, *const Buffer, *const c_void, *mut Object, *mut *const Oid,
        *mut Buffer, *mut OmUint32, *mut OmUint32, *mut Object,
    );
    gss_init_sec_context: fn(
        *mut OmUint32, Object, *mut Object, Object, *const Oid, OmUint32, OmUint32,
        *const ChannelBindings, *const Buffer, *mut *const Oid, *mut Buffer, *mut OmUint32, *mut OmUint32,
    );
    gss_inquire_context: fn(
        *mut OmUint32, Object, *mut Object, *mut Object, *mut OmUint32, *mut *const Oid, *mut OmUint32,
        *mut c_int, *mut c_int,
    );
    gss_inquire_sec_context_by_oid: fn(*mut OmUint32, Object, *const Oid, *mut *mut BufferSet);
    gss_delete_sec_context: fn(*mut OmUint32, *mut Object, *mut Buffer);
    gss_get_mic: fn(*mut OmUint32, Object, OmUint32, *const Buffer, *mut Buffer);
    gss_verify_mic: fn(*mut OmUint32, Object, *const Buffer, *const Buffer, *mut OmUint32);
    gss_wrap: fn(*mut OmUint32, Object, c_int, OmUint32, *const Buffer, *mut c_int, *mut Buffer);
    gss_unwrap: fn(*mut OmUint32, Object, *const Buffer, *mut Buffer, *mut c_int, *mut OmUint32);
    gss_display_status: fn(*mut OmUint32, OmUint32, c_int, *const Oid, *mut OmUint32, *mut Buffer);
    gss_release_buffer: fn(*mut OmUint32, *mut Buffer);
    gss_release_buffer_set: fn(*mut OmUint32, *mut *mut BufferSet);
}

/// MIT's GSSAPI library. It is never unloaded.
pub struct Library {
    functions: Functions,
    /// None if `libkrb5` lacks a function.
    keytabs: Option<Arc<keytab::Keytabs>>,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Library(libgssapi_krb5.so.2)")
    }
}

/// The result of one turn of a context.
pub(crate) struct Turn {
    /// The token for the other side. It may be empty.
    pub(crate) token: Vec<u8>,
    /// Whether the context is established. If not, it needs the other side's next token.
    pub(crate) is_established: bool,
    /// The initiator's name, on the acceptor's side of an established context.
    pub(crate) client: Option<Name>,
    /// Flags of the context.
    pub(crate) flags: u32,
    /// Seconds for which the context is valid.
    pub(crate) lifetime_s: u32,
}

/// An attribute of a name (RFC 6680).
pub(crate) struct Attribute {
    pub(crate) value: Vec<u8>,
    /// Whether the library has verified it.
    pub(crate) is_authenticated: bool,
}

impl Library {
    /// Loads the library.
    ///
    /// # Errors
    /// [`NotInstalled`].
    pub fn load() -> Result<Arc<Library>, NotInstalled> {
        // SAFETY: the library's initializers do nothing but set up its state.
        let library = unsafe { SharedLibrary::open(c"libgssapi_krb5.so.2") };
        let functions = library.and_then(|library| Functions::find(&library));
        let functions = functions.map_err(|reason| NotInstalled { reason })?;
        let keytabs = keytab::Keytabs::load().ok().map(Arc::new);
        Ok(Arc::new(Library { functions, keytabs }))
    }

    /// Copies a keytab into memory, if it has keys and can be read.
    pub(crate) fn copy_keytab(&self, file: &Path) -> Option<keytab::MemoryKeytab> {
        keytab::MemoryKeytab::copy(self.keytabs.as_ref()?, file)
    }

    /// Makes a name from its text.
    pub(crate) fn name(self: &Arc<Library>, text: &str, form: NameForm) -> Result<Name, GssError> {
        let form = match form {
            NameForm::HostService => &NT_HOSTBASED,
            NameForm::Principal => &NT_PRINCIPAL,
        };
        let (mut minor, mut name) = (0, ptr::null_mut());
        // SAFETY: all pointers are valid for the call, which copies the text.
        let major = unsafe {
            (self.functions.gss_import_name)(&mut minor, &borrowed(text.as_bytes()), form, &mut name)
        };
        self.check("gss_import_name", major, minor)?;
        Ok(Name { library: Arc::clone(self), name })
    }

    /// Acquires credentials from a store (gss_acquire_cred_from).
    pub(crate) fn credential(
        self: &Arc<Library>,
        name: Option<&Name>,
        usage: Usage,
        store: &[(&str, &str)],
    ) -> Result<Credential, GssError> {
        let text = |text: &str| {
            CString::new(text).map_err(|_| GssError::local("gss_acquire_cred_from", Cause::BadName))
        };
        let texts: Vec<(CString, CString)> = store
            .iter()
            .map(|(key, value)| Ok((text(key)?, text(value)?)))
            .collect::<Result<_, GssError>>()?;
        let pairs: Vec<KeyValue> =
            texts.iter().map(|(key, value)| KeyValue { key: key.as_ptr(), value: value.as_ptr() }).collect();
        let pairs_set = KeyValues { count: pairs.len() as OmUint32, elements: pairs.as_ptr() };
        let mechanisms = OidSet { count: 1, elements: &KERBEROS };
        // GSS_C_INITIATE and GSS_C_ACCEPT
        let usage = match usage {
            Usage::Initiate => 1,
            Usage::Accept => 2,
        };
        let (mut minor, mut credential) = (0, ptr::null_mut());
        let name = name.map_or(ptr::null_mut(), |name| name.name);
        let pairs_pointer = if pairs.is_empty() { ptr::null() } else { &raw const pairs_set };
        // SAFETY: all pointers are valid for the call, which copies what it needs. Null is allowed for the
        // name and for the last two results.
        let major = unsafe {
            (self.functions.gss_acquire_cred_from)(
                &mut minor,
                name,
                OmUint32::MAX,
                &mechanisms,
                usage,
                pairs_pointer,
                &mut credential,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        self.check("gss_acquire_cred_from", major, minor)?;
        Ok(Credential { library: Arc::clone(self), credential })
    }

    /// Maps a status to a result.
    fn check(&self, call: &'static str, major: OmUint32, minor: OmUint32) -> Result<(), GssError> {
        if major & ERROR_BITS == 0 {
            return Ok(());
        }
        let texts =
            [self.texts(major, GSS_CODE), if minor == 0 { Vec::new() } else { self.texts(minor, MECH_CODE) }];
        Err(GssError::new(call, major, minor, &texts.concat()))
    }

    /// The texts of a status. The library keeps details for the calling thread only.
    fn texts(&self, status: OmUint32, kind: c_int) -> Vec<String> {
        let mut texts = Vec::new();
        let (mut minor, mut more) = (0, 0);
        loop {
            let mut text = Owned::new(self);
            // SAFETY: all pointers are valid for the call.
            let major = unsafe {
                (self.functions.gss_display_status)(
                    &mut minor,
                    status,
                    kind,
                    &KERBEROS,
                    &mut more,
                    &mut text.buffer,
                )
            };
            if major & ERROR_BITS != 0 {
                return texts;
            }
            texts.push(String::from_utf8_lossy(text.bytes()).into_owned());
            // A status has a handful of texts.
            if more == 0 || texts.len() == 8 {
                return texts;
            }
        }
    }
}

/// A buffer that points to `bytes`.
fn borrowed(bytes: &[u8]) -> Buffer {
    Buffer { length: bytes.len(), value: bytes.as_ptr().cast() }
}

/// A buffer that the library fills, and that it releases.
struct Owned<'a> {
    library: &'a Library,
    buffer: Buffer,
}

impl<'a> Owned<'a> {
    fn new(library: &'a Library) -> Owned<'a> {
        Owned { library, buffer: Buffer { length: 0, value: ptr::null() } }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the library has set the pointer and the length, and keeps both until the release.
        unsafe { bytes_of(&self.buffer) }
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the library has filled the buffer, or it is empty, which is allowed.
        unsafe { (self.library.functions.gss_release_buffer)(&mut minor, &mut self.buffer) };
    }
}

/// The bytes of a buffer.
///
/// # Safety
/// The buffer must be valid as long as the result is used.
unsafe fn bytes_of(buffer: &Buffer) -> &[u8] {
    if buffer.value.is_null() || buffer.length == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for it.
    unsafe { std::slice::from_raw_parts(buffer.value.cast(), buffer.length) }
}

/// A name.
pub(crate) struct Name {
    library: Arc<Library>,
    name: Object,
}

// SAFETY: the library lets any thread use an object, one thread at a time.
unsafe impl Send for Name {}

impl Name {
    /// The name as text: `user@REALM`.
    pub(crate) fn text(&self) -> Result<String, GssError> {
        let (mut minor, mut text) = (0, Owned::new(&self.library));
        // SAFETY: all pointers are valid for the call. Null is allowed for the last result.
        let major = unsafe {
            (self.library.functions.gss_display_name)(
                &mut minor,
                self.name,
                &mut text.buffer,
                ptr::null_mut(),
            )
        };
        self.library.check("gss_display_name", major, minor)?;
        String::from_utf8(text.bytes().to_vec())
            .map_err(|_| GssError::local("gss_display_name", Cause::BadName))
    }

    /// An attribute of the name, or `None` if it has none of this kind.
    pub(crate) fn attribute(&self, attribute: &str) -> Result<Option<Attribute>, GssError> {
        let (mut minor, mut authenticated, mut complete, mut more) = (0, 0, 0, -1);
        let (mut value, mut shown) = (Owned::new(&self.library), Owned::new(&self.library));
        // SAFETY: all pointers are valid for the call. A `more` of -1 asks for the first value.
        let major = unsafe {
            (self.library.functions.gss_get_name_attribute)(
                &mut minor,
                self.name,
                &borrowed(attribute.as_bytes()),
                &mut authenticated,
                &mut complete,
                &mut value.buffer,
                &mut shown.buffer,
                &mut more,
            )
        };
        // MIT says either that the name has no attributes, or that it lacks this one (ENOENT).
        let is_missing = major & ERROR_BITS == UNAVAILABLE || minor == libc::ENOENT as OmUint32;
        if major & ERROR_BITS != 0 && is_missing {
            return Ok(None);
        }
        self.library.check("gss_get_name_attribute", major, minor)?;
        Ok(Some(Attribute { value: value.bytes().to_vec(), is_authenticated: authenticated != 0 }))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the name came from the library and is released once.
        unsafe { (self.library.functions.gss_release_name)(&mut minor, &mut self.name) };
    }
}

/// Credentials. They lock themselves, so several threads may use them at once.
pub(crate) struct Credential {
    library: Arc<Library>,
    credential: Object,
}

// SAFETY: the library guards each credential with a lock of its own.
unsafe impl Send for Credential {}
// SAFETY: as above.
unsafe impl Sync for Credential {}

impl Credential {
    /// The library.
    pub(crate) fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// Restricts the encryption types of tickets and keys.
    pub(crate) fn allow(&mut self, types: &[i32]) -> Result<(), GssError> {
        let mut minor = 0;
        // SAFETY: the list has the given length, and the call copies it.
        let major = unsafe {
            (self.library.functions.gss_krb5_set_allowable_enctypes)(
                &mut minor,
                self.credential,
                types.len() as OmUint32,
                types.as_ptr(),
            )
        };
        self.library.check("gss_krb5_set_allowable_enctypes", major, minor)
    }
}

impl Drop for Credential {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the credential came from the library and is released once.
        unsafe { (self.library.functions.gss_release_cred)(&mut minor, &mut self.credential) };
    }
}

/// A security context, of either side.
pub(crate) struct Context {
    library: Arc<Library>,
    context: Object,
}

// SAFETY: the library lets any thread use a context, one thread at a time.
unsafe impl Send for Context {}

impl Context {
    /// A context without state.
    pub(crate) fn new(library: &Arc<Library>) -> Context {
        Context { library: Arc::clone(library), context: ptr::null_mut() }
    }

    /// Takes the initiator's token (gss_accept_sec_context).
    pub(crate) fn accept(&mut self, credential: &Credential, token: &[u8]) -> Result<Turn, GssError> {
        let (mut minor, mut client, mut out_flags, mut lifetime_s) = (0, ptr::null_mut(), 0, 0);
        let library = Arc::clone(&self.library);
        let mut reply = Owned::new(&library);
        // SAFETY: all pointers are valid for the call. Null stands for no channel bindings, and for results
        // that the caller does not want.
        let major = unsafe {
            (library.functions.gss_accept_sec_context)(
                &mut minor,
                &mut self.context,
                credential.credential,
                &borrowed(token),
                ptr::null(),
                &mut client,
                ptr::null_mut(),
                &mut reply.buffer,
                &mut out_flags,
                &mut lifetime_s,
                ptr::null_mut(),
            )
        };
        let client = (!client.is_null()).then(|| Name { library: Arc::clone(&library), name: client });
        library.check("gss_accept_sec_context", major, minor)?;
        Ok(Turn {
            token: reply.bytes().to_vec(),
            is_established: major & CONTINUE_NEEDED == 0,
            client,
            flags: out_flags,
            lifetime_s,
        })
    }

    /// Takes the acceptor's token, or begins without one (gss_init_sec_context). `channel` are the bindings
    /// to the channel below (RFC 5056).
    pub(crate) fn initiate(
        &mut self,
        (credential, target): (&Credential, &Name),
        wanted: u32,
        channel: Option<&[u8]>,
        token: Option<&[u8]>,
    ) -> Result<Turn, GssError> {
        let (mut minor, mut out_flags, mut lifetime_s) = (0, 0, 0);
        let library = Arc::clone(&self.library);
        let mut reply = Owned::new(&library);
        let token = token.map(borrowed);
        let token = token.as_ref().map_or(ptr::null(), |token| token as *const Buffer);
        let channel = channel.map(|channel| ChannelBindings {
            initiator_family: 0,
            initiator: borrowed(&[]),
            acceptor_family: 0,
            acceptor: borrowed(&[]),
            application_data: borrowed(channel),
        });
        let channel = channel.as_ref().map_or(ptr::null(), |channel| channel as *const ChannelBindings);
        // SAFETY: all pointers are valid for the call. Null stands for no token, no channel bindings, and for
        // results that the caller does not want.
        let major = unsafe {
            (library.functions.gss_init_sec_context)(
                &mut minor,
                credential.credential,
                &mut self.context,
                target.name,
                &KERBEROS,
                wanted,
                0,
                channel,
                token,
                ptr::null_mut(),
                &mut reply.buffer,
                &mut out_flags,
                &mut lifetime_s,
            )
        };
        library.check("gss_init_sec_context", major, minor)?;
        Ok(Turn {
            token: reply.bytes().to_vec(),
            is_established: major & CONTINUE_NEEDED == 0,
            client: None,
            flags: out_flags,
            lifetime_s,
        })
    }

    /// The acceptor's name in an established context: the service of the ticket.
    pub(crate) fn service(&self) -> Result<Name, GssError> {
        let (mut minor, mut target) = (0, ptr::null_mut());
        // SAFETY: all pointers are valid for the call. Null stands for results that the caller does not want.
        let major = unsafe {
            (self.library.functions.gss_inquire_context)(
                &mut minor,
                self.context,
                ptr::null_mut(),
                &mut target,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        self.library.check("gss_inquire_context", major, minor)?;
        Ok(Name { library: Arc::clone(&self.library), name: target })
    }

    /// The session key of an established context, with the bytes of the object identifier that ends with the
    /// number of its encryption type.
    pub(crate) fn session_key(&self) -> Result<(Zeroizing<Vec<u8>>, Vec<u8>), GssError> {
        const CALL: &str = "gss_inquire_sec_context_by_oid";
        let (mut minor, mut set) = (0, ptr::null_mut::<BufferSet>());
        // SAFETY: all pointers are valid for the call.
        let major = unsafe {
            (self.library.functions.gss_inquire_sec_context_by_oid)(
                &mut minor,
                self.context,
                &SESSION_KEY,
                &mut set,
            )
        };
        self.library.check(CALL, major, minor)?;
        let found = if set.is_null() {
            None
        } else {
            // SAFETY: the library has set the count and the elements, and keeps them until the release below.
            // The copies are made before it.
            unsafe {
                let elements = match (*set).count {
                    0 => &[],
                    count => std::slice::from_raw_parts((*set).elements, count),
                };
                match elements {
                    [key, kind, ..] => {
                        Some((Zeroizing::new(bytes_of(key).to_vec()), bytes_of(kind).to_vec()))
                    }
                    _ => None,
                }
            }
        };
        // SAFETY: the set came from the library and is released once. Null is allowed.
        unsafe { (self.library.functions.gss_release_buffer_set)(&mut minor, &mut set) };
        found.ok_or_else(|| GssError::local(CALL, Cause::NoSessionKey))
    }

    /// The message integrity code of a message (gss_get_mic).
    pub(crate) fn mic(&mut self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        let (mut minor, mut mic) = (0, Owned::new(&self.library));
        // SAFETY: all pointers are valid for the call. A quality of 0 is the mechanism's own.
        let major = unsafe {
            (self.library.functions.gss_get_mic)(
                &mut minor,
                self.context,
                0,
                &borrowed(message),
                &mut mic.buffer,
            )
        };
        self.library.check("gss_get_mic", major, minor)?;
        Ok(mic.bytes().to_vec())
    }

    /// Checks the message integrity code of a message (gss_verify_mic). A replayed one is refused too.
    pub(crate) fn verify(&mut self, message: &[u8], mic: &[u8]) -> Result<(), GssError> {
        const CALL: &str = "gss_verify_mic";
        let mut minor = 0;
        // SAFETY: all pointers are valid for the call. Null is allowed for the quality.
        let major = unsafe {
            (self.library.functions.gss_verify_mic)(
                &mut minor,
                self.context,
                &borrowed(message),
                &borrowed(mic),
                ptr::null_mut(),
            )
        };
        self.library.check(CALL, major, minor)?;
        in_order(CALL, major)
    }

    /// Encrypts or signs a message (gss_wrap).
    pub(crate) fn wrap(&mut self, message: &[u8], seal: bool) -> Result<Vec<u8>, GssError> {
        let (mut minor, mut sealed, mut wrapped) = (0, 0, Owned::new(&self.library));
        // SAFETY: all pointers are valid for the call. A quality of 0 is the mechanism's own.
        let major = unsafe {
            (self.library.functions.gss_wrap)(
                &mut minor,
                self.context,
                c_int::from(seal),
                0,
                &borrowed(message),
                &mut sealed,
                &mut wrapped.buffer,
            )
        };
        self.library.check("gss_wrap", major, minor)?;
        if seal && sealed == 0 {
            return Err(GssError::local("gss_wrap", Cause::NotSealed));
        }
        Ok(wrapped.bytes().to_vec())
    }

    /// Decrypts or verifies a message (gss_unwrap). Also returns whether it was encrypted.
    pub(crate) fn unwrap(&mut self, wrapped: &[u8]) -> Result<(Vec<u8>, bool), GssError> {
        const CALL: &str = "gss_unwrap";
        let (mut minor, mut sealed, mut message) = (0, 0, Owned::new(&self.library));
        // SAFETY: all pointers are valid for the call. Null is allowed for the quality.
        let major = unsafe {
            (self.library.functions.gss_unwrap)(
                &mut minor,
                self.context,
                &borrowed(wrapped),
                &mut message.buffer,
                &mut sealed,
                ptr::null_mut(),
            )
        };
        self.library.check(CALL, major, minor)?;
        in_order(CALL, major)?;
        Ok((message.bytes().to_vec(), sealed != 0))
    }
}

/// Refuses the supplementary states of a message: duplicate, old, out of order (RFC 2744 section 3.9.1).
fn in_order(call: &'static str, major: OmUint32) -> Result<(), GssError> {
    if major == 0 { Ok(()) } else { Err(GssError::local(call, Cause::OutOfOrder)) }
}

impl Drop for Context {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the context came from the library and is deleted once, or is null, which is allowed.
        unsafe {
            (self.library.functions.gss_delete_sec_context)(&mut minor, &mut self.context, ptr::null_mut())
        };
    }
}

/// A path as the text of a store's value.
pub(crate) fn store_path(kind: &str, path: &Path) -> Result<String, GssError> {
    let path = path.to_str().ok_or_else(|| GssError::local("gss_acquire_cred_from", Cause::BadName))?;
    Ok(format!("{kind}:{path}"))
}

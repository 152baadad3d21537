//! A keytab in memory: the keys of a file, copied by MIT's `libkrb5`, which `libgssapi_krb5` stands on.
//!
//! With a file the library opens, locks and reads it for each ticket. A copy in memory (MIT's type `MEMORY`)
//! takes no system call. It lives as long as its [`MemoryKeytab`] and the credentials with it.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Object, functions};
use crate::encryption_type::EncryptionType;
use crate::shared_library::SharedLibrary;

/// KRB5KRB_AP_ERR_TKT_NYV and KRB5KRB_AP_ERR_SKEW: the library has opened the token before it says so.
const REFUSED_FOR_THE_CLOCKS: [c_int; 2] = [-1_765_328_351, -1_765_328_347];
/// KRB5_KT_END: there is no further entry.
const END: c_int = -1_765_328_202;

/// krb5_keyblock.
#[repr(C)]
struct KeyBlock {
    magic: c_int,
    kind: c_int,
    length: c_uint,
    contents: *const u8,
}

/// krb5_keytab_entry.
#[repr(C)]
struct KeytabEntry {
    magic: c_int,
    principal: Object,
    timestamp: c_int,
    version: c_uint,
    key: KeyBlock,
}

/// krb5_data.
#[repr(C)]
struct KrbData {
    magic: c_int,
    length: c_uint,
    data: *const u8,
}

/// The begin of krb5_authenticator.
#[repr(C)]
struct Authenticator {
    magic: c_int,
    client: Object,
    checksum: *const c_void,
    microseconds: c_int,
    time: c_int,
}

functions! {
    KeytabFunctions: c_int;
    krb5_auth_con_init: fn(Object, *mut Object);
    krb5_auth_con_setflags: fn(Object, Object, c_int);
    krb5_auth_con_getauthenticator: fn(Object, Object, *mut *const Authenticator);
    krb5_auth_con_free: fn(Object, Object);
    krb5_rd_req: fn(Object, *mut Object, *const KrbData, Object, Object, *mut c_int, *mut Object);
    krb5_init_context: fn(*mut Object);
    krb5_kt_resolve: fn(Object, *const c_char, *mut Object);
    krb5_kt_close: fn(Object, Object);
    krb5_kt_start_seq_get: fn(Object, Object, *mut Object);
    krb5_kt_next_entry: fn(Object, Object, *mut KeytabEntry, *mut Object);
    krb5_kt_end_seq_get: fn(Object, Object, *mut Object);
    krb5_kt_add_entry: fn(Object, Object, *mut KeytabEntry);
    krb5_free_keytab_entry_contents: fn(Object, *mut KeytabEntry);
    krb5_unparse_name: fn(Object, Object, *mut *mut c_char);
}

functions! {
    ReleaseFunctions: ();
    krb5_free_context: fn(Object);
    krb5_free_authenticator: fn(Object, *const Authenticator);
    krb5_free_unparsed_name: fn(Object, *mut c_char);
}

/// The functions of `libkrb5`.
pub(super) struct Keytabs {
    functions: KeytabFunctions,
    release: ReleaseFunctions,
}

impl Keytabs {
    /// Finds the functions. `libgssapi_krb5` has loaded their library.
    pub(super) fn load() -> Result<Keytabs, String> {
        // SAFETY: the library's initializers do nothing but set up its state.
        let library = unsafe { SharedLibrary::open(c"libkrb5.so.3") }?;
        Ok(Keytabs {
            functions: KeytabFunctions::find(&library)?,
            release: ReleaseFunctions::find(&library)?,
        })
    }
}

/// A context of `libkrb5`. As long as there is one, the library keeps its copy of `krb5.conf`, which the
/// contexts of log-ons share, and reads the file again only when it has changed.
struct KrbContext {
    keytabs: Arc<Keytabs>,
    context: Object,
}

impl KrbContext {
    fn new(keytabs: &Arc<Keytabs>) -> Option<KrbContext> {
        let mut context = ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        let code = unsafe { (keytabs.functions.krb5_init_context)(&mut context) };
        (code == 0).then(|| KrbContext { keytabs: Arc::clone(keytabs), context })
    }

    fn functions(&self) -> &KeytabFunctions {
        &self.keytabs.functions
    }

    /// Opens a keytab by its name with the type in front.
    fn resolve(&self, name: &str) -> Option<Object> {
        let (name, mut keytab) = (CString::new(name).ok()?, ptr::null_mut());
        // SAFETY: all pointers are valid for the call, which copies the name.
        let code = unsafe { (self.functions().krb5_kt_resolve)(self.context, name.as_ptr(), &mut keytab) };
        (code == 0).then_some(keytab)
    }

    fn close(&self, keytab: Object) {
        // SAFETY: the keytab was opened with this context's library and is closed once.
        unsafe { (self.functions().krb5_kt_close)(self.context, keytab) };
    }

    /// All entries of a keytab, or `None` if it cannot be read to its end.
    fn entries(&self, keytab: Object) -> Option<Vec<OwnedEntry<'_>>> {
        let (mut cursor, mut entries) = (ptr::null_mut(), Vec::new());
        // SAFETY: all pointers are valid for the call.
        if unsafe { (self.functions().krb5_kt_start_seq_get)(self.context, keytab, &mut cursor) } != 0 {
            return None;
        }
        let end = loop {
            let mut entry = KeytabEntry {
                magic: 0,
                principal: ptr::null_mut(),
                timestamp: 0,
                version: 0,
                key: KeyBlock { magic: 0, kind: 0, length: 0, contents: ptr::null() },
            };
            // SAFETY: all pointers are valid for the call, and the keytab is open.
            let code = unsafe {
                (self.functions().krb5_kt_next_entry)(self.context, keytab, &mut entry, &mut cursor)
            };
            if code != 0 {
                break code;
            }
            entries.push(OwnedEntry { context: self, entry });
        };
        // SAFETY: the cursor belongs to this keytab and is ended once.
        unsafe { (self.functions().krb5_kt_end_seq_get)(self.context, keytab, &mut cursor) };
        (end == END).then_some(entries)
    }
}

impl KrbContext {
    /// The client's time in an AP-REQ that the library refuses for the clocks, in seconds since 1970. No
    /// replay cache is asked or written.
    fn client_time(&self, keytab: Object, request: &[u8]) -> Option<i64> {
        let functions = self.functions();
        let request =
            KrbData { magic: 0, length: c_uint::try_from(request.len()).ok()?, data: request.as_ptr() };
        let (mut session, mut time) = (ptr::null_mut(), None);
        // SAFETY: all pointers are valid for the calls. Null stands for any server, and for results that
        // nobody wants. The library keeps the authenticator in `session` if it has refused it for the clocks,
        // and copies it on demand. Each object is freed once.
        unsafe {
            if (functions.krb5_auth_con_init)(self.context, &mut session) != 0 {
                return None;
            }
            // Without flags there is no replay cache.
            (functions.krb5_auth_con_setflags)(self.context, session, 0);
            let none = ptr::null_mut();
            let code = (functions.krb5_rd_req)(
                self.context,
                &mut session,
                &request,
                none,
                keytab,
                ptr::null_mut(),
                ptr::null_mut(),
            );
            let mut found = ptr::null();
            if REFUSED_FOR_THE_CLOCKS.contains(&code)
                && (functions.krb5_auth_con_getauthenticator)(self.context, session, &mut found) == 0
                && !found.is_null()
            {
                // The library's time is one of 32 bits without a sign, up to 2106.
                time = Some(i64::from((*found).time.cast_unsigned()));
                (self.keytabs.release.krb5_free_authenticator)(self.context, found);
            }
            (functions.krb5_auth_con_free)(self.context, session);
        }
        time
    }
}

impl Drop for KrbContext {
    fn drop(&mut self) {
        // SAFETY: the context came from the library and is freed once.
        unsafe { (self.keytabs.release.krb5_free_context)(self.context) };
    }
}

/// An entry that the library has filled. It erases the key when it is dropped.
struct OwnedEntry<'a> {
    context: &'a KrbContext,
    entry: KeytabEntry,
}

impl OwnedEntry<'_> {
    fn key(&self) -> &[u8] {
        let key = &self.entry.key;
        if key.contents.is_null() || key.length == 0 {
            return &[];
        }
        // SAFETY: the library has set the pointer and the length, and keeps both until the release.
        unsafe { std::slice::from_raw_parts(key.contents, key.length as usize) }
    }

    /// The principal as `gss_display_name` writes it.
    fn principal(&self) -> Option<String> {
        let (context, mut text) = (self.context, ptr::null_mut());
        // SAFETY: all pointers are valid for the call.
        let code = unsafe {
            (context.functions().krb5_unparse_name)(context.context, self.entry.principal, &mut text)
        };
        if code != 0 || text.is_null() {
            return None;
        }
        // SAFETY: the library has made the string, which ends with a zero byte. It is copied, and then freed
        // once.
        unsafe {
            let copy = CStr::from_ptr(text).to_str().ok().map(str::to_owned);
            (context.keytabs.release.krb5_free_unparsed_name)(context.context, text);
            copy
        }
    }
}

impl Drop for OwnedEntry<'_> {
    fn drop(&mut self) {
        // SAFETY: the library has filled the entry, and its contents are freed once.
        unsafe {
            (self.context.functions().krb5_free_keytab_entry_contents)(self.context.context, &mut self.entry)
        };
    }
}

/// A copy of a keytab in memory.
pub(crate) struct MemoryKeytab {
    context: KrbContext,
    keytab: Object,
    name: String,
    services: Vec<(EncryptionType, String)>,
}

// SAFETY: after `copy` only `drop` uses the library's objects.
unsafe impl Send for MemoryKeytab {}
// SAFETY: as above.
unsafe impl Sync for MemoryKeytab {}

impl MemoryKeytab {
    /// Copies a file. The newest keys come first, so that tickets of today are opened by the first one that
    /// the library tries. Otherwise the order stays.
    ///
    /// Returns `None` if the file cannot be read, or has no keys. The library says why when it is asked for
    /// credentials of that file.
    pub(super) fn copy(keytabs: &Arc<Keytabs>, file: &Path) -> Option<MemoryKeytab> {
        static COPIES: AtomicU64 = AtomicU64::new(0);
        let context = KrbContext::new(keytabs)?;
        let source = context.resolve(&format!("FILE:{}", file.to_str()?))?;
        let entries = context.entries(source);
        context.close(source);
        let mut entries = entries.filter(|entries| !entries.is_empty())?;
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.entry.version));
        let services = services(&entries);
        let name = format!("MEMORY:trunkline-{}", COPIES.fetch_add(1, Ordering::Relaxed));
        let keytab = context.resolve(&name)?;
        // The library puts each new entry before the others.
        let added = entries.iter_mut().rev().all(|entry| {
            // SAFETY: all pointers are valid for the call, which copies the entry.
            unsafe { (context.functions().krb5_kt_add_entry)(context.context, keytab, &mut entry.entry) == 0 }
        });
        drop(entries);
        let copy = MemoryKeytab { context, keytab, name, services };
        added.then_some(copy)
    }

    /// The client's time in an AP-REQ that was refused for the clocks.
    pub(crate) fn client_time(&self, request: &[u8]) -> Option<i64> {
        let context = KrbContext::new(&self.context.keytabs)?;
        let keytab = context.resolve(&self.name)?;
        let time = context.client_time(keytab, request);
        context.close(keytab);
        time
    }

    /// Its name for a credential store.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The service that the library names for each ticket with this encryption type, if it is the same for
    /// all of them.
    pub(crate) fn service(&self, kind: EncryptionType) -> Option<&str> {
        self.services.iter().find(|(known, _)| *known == kind).map(|(_, service)| service.as_str())
    }
}

impl Drop for MemoryKeytab {
    fn drop(&mut self) {
        self.context.close(self.keytab);
    }
}

/// The services that are known in advance. The library tries the keys of the ticket's type in their order,
/// and names the principal of the first that opens the ticket. So for each different key that is the first
/// entry with it. With RC4 it also tries keys of other types.
fn services(entries: &[OwnedEntry<'_>]) -> Vec<(EncryptionType, String)> {
    let of = |kind: EncryptionType| {
        let mut keys: Vec<&[u8]> = Vec::new();
        let mut service = None;
        for entry in entries.iter().filter(|entry| entry.entry.key.kind == kind.number()) {
            if keys.contains(&entry.key()) {
                continue;
            }
            keys.push(entry.key());
            let principal = entry.principal()?;
            if *service.get_or_insert_with(|| principal.clone()) != principal {
                return None;
            }
        }
        Some((kind, service?))
    };
    EncryptionType::AES.into_iter().filter_map(of).collect()
}

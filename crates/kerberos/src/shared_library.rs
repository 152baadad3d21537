//! A library of the host that is loaded at run time and never unloaded, and the end of a process that has
//! such libraries.

use std::ffi::{CStr, CString, c_void};

/// The library.
#[derive(Debug)]
pub struct SharedLibrary(*mut c_void);

impl SharedLibrary {
    /// Loads the library of this file name.
    ///
    /// # Errors
    /// The reason of the dynamic linker.
    ///
    /// # Safety
    /// The library's initializers run, and must be sound to run at any time.
    pub unsafe fn open(name: &CStr) -> Result<SharedLibrary, String> {
        // SAFETY: the name ends with a zero byte. The caller vouches for the initializers.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            // SAFETY: dlerror returns null or a string that lives until the thread's next such call.
            let reason = unsafe {
                let text = libc::dlerror();
                (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
            };
            return Err(reason.unwrap_or_else(|| "no reason given".to_owned()));
        }
        Ok(SharedLibrary(library))
    }

    /// The address of a function, which is not null.
    ///
    /// # Errors
    /// The library lacks it.
    pub fn symbol(&self, name: &str) -> Result<*mut c_void, String> {
        let missing = || format!("it lacks `{name}`");
        let text = CString::new(name).map_err(|_| missing())?;
        // SAFETY: the library is open, and the name ends with a zero byte.
        let found = unsafe { libc::dlsym(self.0, text.as_ptr()) };
        if found.is_null() { Err(missing()) } else { Ok(found) }
    }
}

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    /// on_exit(3) of the GNU C library.
    fn on_exit(function: extern "C" fn(libc::c_int, *mut c_void), argument: *mut c_void) -> libc::c_int;
}

/// Lets the exit of the process, which has to follow at once, leave out the destructors of all libraries.
///
/// A thread may be inside a call of a library then: a ticket that nobody waits for any more, or a look-up in
/// the background. MIT's destructors end the mutexes and thread keys that the call goes on to use, and its
/// assertions abort the process. To wait for the thread is no way out, since a silent KDC holds it for half a
/// minute. Nothing is lost: Rust has flushed its output before, and the host takes back all the rest.
pub fn skip_destructors_at_exit() {
    #[cfg(target_env = "gnu")]
    {
        extern "C" fn end(status: libc::c_int, _: *mut c_void) {
            // SAFETY: the call has no preconditions, and does not return.
            unsafe { libc::_exit(status) }
        }
        // The C library calls the function that was added last first, before those of the libraries. Without
        // memory for it the process ends as usual.
        // SAFETY: `end` may be called at any time, and does not use its argument.
        let _ = unsafe { on_exit(end, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_and_what_is_missing_is_named() {
        // SAFETY: the C library is loaded already.
        let library = unsafe { SharedLibrary::open(c"libc.so.6") }.unwrap();
        assert!(library.symbol("strlen").is_ok());
        assert_eq!(library.symbol("no_such_function"), Err("it lacks `no_such_function`".to_owned()));
        assert!(library.symbol("strlen\0x").is_err());
        // SAFETY: there is no such library.
        let why = unsafe { SharedLibrary::open(c"libno-such-library.so.9") }.unwrap_err();
        assert!(why.contains("libno-such-library"), "{why}");
    }
}

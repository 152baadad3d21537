//! A library of the host that is loaded at run time and never unloaded.

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

//! What takes the place of musl's.

use core::ffi::c_int;

use crate::vectors::{compare, copy};

// SAFETY: it is C's, and does what C says.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    // SAFETY: both are so long, by the word of whoever calls.
    unsafe { copy(to, from, length) };
    to
}

// SAFETY: it is C's, and does what C says.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    // SAFETY: both are so long, by the word of whoever calls.
    unsafe { copy(to, from, length) };
    to
}

// SAFETY: it is C's, and does what C says.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, length: usize) -> c_int {
    // SAFETY: both are so long, by the word of whoever calls.
    unsafe { compare(a, b, length) }
}

// SAFETY: it is C's, and does what C says.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, length: usize) -> c_int {
    // SAFETY: both are so long, by the word of whoever calls.
    unsafe { compare(a, b, length) }
}

#[cfg(test)]
mod tests {
    use core::ffi::c_void;

    /// As whoever is linked with this knows them.
    mod linked {
        use super::c_void;

        unsafe extern "C" {
            pub fn memcpy(to: *mut c_void, from: *const c_void, length: usize) -> *mut c_void;
            pub fn memmove(to: *mut c_void, from: *const c_void, length: usize) -> *mut c_void;
            pub fn memcmp(a: *const c_void, b: *const c_void, length: usize) -> i32;
            pub fn bcmp(a: *const c_void, b: *const c_void, length: usize) -> i32;
        }
    }

    #[test]
    fn they_do_what_c_says() {
        let (from, mut to) = (*b"in this place", *b"something else");
        let at = to.as_mut_ptr();
        // SAFETY: each is as long as is said.
        unsafe {
            assert!(linked::memcpy(at.cast(), from.as_ptr().cast(), 7).cast() == at);
            assert_eq!(to, *b"in thisng else");
            assert!(linked::memmove(at.add(3).cast(), at.cast(), 11).cast() == at.add(3));
            assert_eq!(to, *b"in in thisng e");
            let (a, b) = (b"abc".as_ptr().cast(), b"abd".as_ptr().cast());
            assert!(linked::memcmp(a, b, 3) < 0 && linked::memcmp(b, a, 3) > 0);
            assert!(linked::memcmp(a, b, 2) == 0 && linked::bcmp(a, b, 2) == 0);
            assert!(linked::bcmp(a, b, 3) != 0);
        }
    }
}

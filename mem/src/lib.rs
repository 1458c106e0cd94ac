//! `memcpy`, `memmove`, `memcmp` and `bcmp` of the static binary on x86-64.
//!
//! musl's own compare byte by byte, copy a handful of bytes in as many steps, and move what overlaps (or lies where it
//! is to go, which rustls asks for with each piece of a record) backwards one byte at a time: together an eighth of
//! ipgc's CPU (docs/performance.md). A program that is linked statically takes its own. These do it with the vectors of
//! 16 bytes that each such processor has; on others musl's stay.
//!
//! All unsafe code of the project is here, and nothing else: no allocation, no state, nothing of what the bytes mean.

#![no_std]
// Else a loop that copies becomes a call of `memcpy`.
#![no_builtins]

#[cfg(test)]
extern crate std;

#[cfg(all(target_arch = "x86_64", any(test, target_env = "musl")))]
mod vectors;

#[cfg(all(target_arch = "x86_64", target_env = "musl"))]
mod exported {
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
        use core::{ffi::c_void, ptr::fn_addr_eq};

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

        type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;
        type Compare = unsafe extern "C" fn(*const c_void, *const c_void, usize) -> i32;
        type CopyBytes = unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8;
        type CompareBytes = unsafe extern "C" fn(*const u8, *const u8, usize) -> i32;

        #[test]
        fn a_program_has_these_and_not_musls() {
            let copies: [(Copy, CopyBytes); 2] = [
                (linked::memcpy, super::memcpy),
                (linked::memmove, super::memmove),
            ];
            let compares: [(Compare, CompareBytes); 2] =
                [(linked::memcmp, super::memcmp), (linked::bcmp, super::bcmp)];
            assert!(
                copies
                    .into_iter()
                    .all(|(linked, ours)| fn_addr_eq(linked, ours))
            );
            assert!(
                compares
                    .into_iter()
                    .all(|(linked, ours)| fn_addr_eq(linked, ours))
            );
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
}

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
}

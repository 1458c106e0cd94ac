//! `memcpy`, `memmove`, `memcmp` and `bcmp` of the static binary on x86-64.
//!
//! musl's own compare byte by byte, copy a handful of bytes in as many steps, and move what overlaps (or lies where it
//! is to go, which rustls asks for with each piece of a record) backwards one byte at a time: together a sixth of
//! ipgc's CPU (docs/performance.md). A program that is linked statically takes its own. These do it with the vectors of
//! 16 bytes that each such processor has; on others musl's stay.
//!
//! All unsafe code of the project is here, and nothing else: no allocation, no state, nothing of what the bytes mean.
//! It is compiled with optimization always: without, its reads and writes become calls of `memcpy`, which is itself.

#![no_std]
// Else a loop that copies becomes a call of `memcpy`.
#![no_builtins]

#[cfg(test)]
extern crate std;

#[cfg(all(target_arch = "x86_64", any(test, target_env = "musl")))]
mod vectors;

#[cfg(all(target_arch = "x86_64", target_env = "musl"))]
mod exported;

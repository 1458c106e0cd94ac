//! Copying and comparing, 16 bytes at a time.
//!
//! The ends of what is shorter than a few vectors overlap, so that each length takes the same few steps.

use core::{
    arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8},
    cmp::Ordering,
    ffi::c_int,
    mem::MaybeUninit,
};

/// Bytes of a vector.
const VECTOR: usize = size_of::<__m128i>();
/// Two of them.
type Pair = [__m128i; 2];
/// Their bytes.
const PAIR: usize = size_of::<Pair>();
/// [`_mm_movemask_epi8`] of bytes that are the same.
const SAME: c_int = 0xffff;

/// Copies `length` bytes, which may overlap where they go.
///
/// # Safety
/// So many can be read at `from` and written at `to`.
#[inline]
pub unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: each piece lies within `length`.
    unsafe {
        match length {
            0 => {}
            1..4 => {
                let (to, from) = (to.cast::<MaybeUninit<u8>>(), from.cast::<MaybeUninit<u8>>());
                let middle = length / 2;
                let (a, b) = (from.read(), from.add(middle).read());
                let c = from.add(length - 1).read();
                to.write(a);
                to.add(middle).write(b);
                to.add(length - 1).write(c);
            }
            4..8 => copy_ends::<u32>(to, from, length),
            8..16 => copy_ends::<u64>(to, from, length),
            16..=PAIR => copy_ends::<__m128i>(to, from, length),
            _ => copy_many(to, from, length),
        }
    }
}

/// The first and the last `T`, both read before one is written. What they hold need not be set: padding is copied too.
///
/// # Safety
/// As [`copy`]; a `T` is no longer than `length`, nor shorter than half of it.
#[inline]
unsafe fn copy_ends<T>(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: both lie within `length`.
    unsafe {
        let last = length - size_of::<T>();
        let (begin, end) = (load::<T>(from), load::<T>(from.add(last)));
        store(to, begin);
        store(to.add(last), end);
    }
}

/// # Safety
/// As [`copy`], with a `length` above [`PAIR`].
unsafe fn copy_many(to: *mut u8, from: *const u8, length: usize) {
    let ahead = to.addr().wrapping_sub(from.addr());
    let last = length - PAIR;
    // SAFETY: each pair begins at `last` at the latest.
    unsafe {
        if ahead == 0 {
            // It is there.
        } else if ahead < length {
            // What is written lies behind what is still to be read, but for the first pair.
            let begin = load::<Pair>(from);
            let mut at = last;
            while at > 0 {
                store(to.add(at), load::<Pair>(from.add(at)));
                at = at.saturating_sub(PAIR);
            }
            store(to, begin);
        } else {
            let end = load::<Pair>(from.add(last));
            let mut at = 0;
            while at < last {
                store(to.add(at), load::<Pair>(from.add(at)));
                at += PAIR;
            }
            store(to.add(last), end);
        }
    }
}

/// # Safety
/// A `T` can be read.
#[inline]
unsafe fn load<T>(from: *const u8) -> MaybeUninit<T> {
    // SAFETY: as said; it need not be aligned.
    unsafe { from.cast::<MaybeUninit<T>>().read_unaligned() }
}

/// # Safety
/// A `T` can be written.
#[inline]
unsafe fn store<T>(to: *mut u8, it: MaybeUninit<T>) {
    // SAFETY: as said; it need not be aligned.
    unsafe { to.cast::<MaybeUninit<T>>().write_unaligned(it) }
}

/// Less than, equal to or greater than 0, as the first byte that differs is in `a`.
///
/// # Safety
/// `length` bytes can be read at both.
#[inline]
pub unsafe fn compare(a: *const u8, b: *const u8, length: usize) -> c_int {
    // SAFETY: each piece ends at `length` at the latest.
    unsafe {
        if length < VECTOR {
            return compare_few(a, b, length);
        }
        let last = length - VECTOR;
        let mut at = 0;
        loop {
            let piece = |of: *const u8| _mm_loadu_si128(of.add(at).cast());
            let same = _mm_movemask_epi8(_mm_cmpeq_epi8(piece(a), piece(b)));
            if same != SAME {
                let at = at + same.trailing_ones() as usize;
                return c_int::from(a.add(at).read()) - c_int::from(b.add(at).read());
            }
            if at == last {
                return 0;
            }
            // The last piece ends where all ends, whatever of it was compared before.
            at = last.min(at + VECTOR);
        }
    }
}

/// # Safety
/// As [`compare`], with a `length` below [`VECTOR`].
#[inline]
unsafe fn compare_few(a: *const u8, b: *const u8, length: usize) -> c_int {
    // Of two numbers whose first byte weighs most, the greater is the one whose first byte that differs is.
    // SAFETY: both ends lie within `length`.
    let order = unsafe {
        match length {
            0..4 => {
                let mut order = Ordering::Equal;
                let mut at = 0;
                while at < length && order.is_eq() {
                    order = a.add(at).read().cmp(&b.add(at).read());
                    at += 1;
                }
                order
            }
            4..8 => {
                let read = |of: *const u8| u32::from_be(of.cast::<u32>().read_unaligned());
                let ends = |of: *const u8| (read(of), read(of.add(length - 4)));
                ends(a).cmp(&ends(b))
            }
            _ => {
                let read = |of: *const u8| u64::from_be(of.cast::<u64>().read_unaligned());
                let ends = |of: *const u8| (read(of), read(of.add(length - 8)));
                ends(a).cmp(&ends(b))
            }
        }
    };
    order as c_int
}

#[cfg(test)]
mod tests {
    use std::{vec, vec::Vec};

    use super::*;

    /// Lengths around each that is a case of its own, and some that are many steps.
    fn lengths() -> impl Iterator<Item = usize> {
        (0..140).chain([255, 256, 257, 1_000, 4_095, 4_096, 16_389])
    }

    /// Bytes of which no two that are near are the same.
    fn bytes(length: usize) -> Vec<u8> {
        let byte = |at: usize| u8::try_from(at * 7 % 251).unwrap_or_default();
        (0..length).map(byte).collect()
    }

    /// Nothing else is written.
    #[test]
    fn copies_are_whole_wherever_they_lie() {
        for length in lengths() {
            for (before, into) in [(0, 0), (1, 0), (0, 1), (3, 5), (8, 3), (15, 15)] {
                let from = bytes(before + length);
                let mut to = vec![255; into + length + 40];
                // SAFETY: both are at least so long.
                unsafe { copy(to[into..].as_mut_ptr(), from[before..].as_ptr(), length) };
                assert_eq!(to[into..into + length], from[before..], "{length}");
                let rest = to[..into].iter().chain(&to[into + length..]);
                assert!(rest.into_iter().all(|byte| *byte == 255), "{length}");
            }
        }
    }

    #[test]
    fn what_overlaps_is_moved_as_it_was() {
        let shifts = (0..70).chain([100, 255, 1_000, 5_000]);
        for (length, shift) in lengths().flat_map(|it| shifts.clone().map(move |by| (it, by))) {
            for (from, to) in [(0, shift), (shift, 0)] {
                let mut all = bytes(length + shift);
                let mut expected = all.clone();
                expected[to..to + length].copy_from_slice(&all[from..from + length]);
                let start = all.as_mut_ptr();
                // SAFETY: both lie within `all`.
                unsafe { copy(start.add(to), start.add(from), length) };
                assert!(all == expected, "{length} bytes from {from} to {to}");
            }
        }
    }

    #[test]
    fn the_first_byte_that_differs_decides() {
        // SAFETY: both are so long.
        let compared = |a: &[u8], b: &[u8]| unsafe { compare(a.as_ptr(), b.as_ptr(), a.len()) };
        for length in lengths() {
            let a = bytes(length + 1);
            for begin in [0, 1] {
                let a = &a[begin..begin + length];
                let same = a.to_vec();
                assert_eq!(compared(a, &same), 0, "{length}");
                for at in (0..length).filter(|at| length < 300 || at % 97 == 0) {
                    let mut b = a.to_vec();
                    b[at] = !b[at];
                    // What comes after it says the opposite.
                    for later in &mut b[at + 1..] {
                        *later = if a[at] < !a[at] { 0 } else { 255 };
                    }
                    let expected = a[at].cmp(&!a[at]);
                    assert_eq!(compared(a, &b).cmp(&0), expected, "{length}, {at}");
                    assert_eq!(compared(&b, a).cmp(&0), expected.reverse());
                }
            }
        }
    }
}

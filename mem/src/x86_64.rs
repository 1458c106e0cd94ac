//! With the vectors that each such processor has.

use core::{
    arch::{
        asm,
        x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_storeu_si128},
    },
    cmp::Ordering,
    ffi::c_int,
};

const V: usize = 16;

unsafe fn load(from: *const u8) -> __m128i {
    unsafe { _mm_loadu_si128(from.cast()) }
}
unsafe fn store(to: *mut u8, v: __m128i) {
    unsafe { _mm_storeu_si128(to.cast(), v) }
}

/// Copies, also where the two overlap.
#[inline(always)]
pub unsafe fn copy(to: *mut u8, from: *const u8, n: usize) {
    unsafe {
        if n <= V {
            small(to, from, n);
        } else if n <= 2 * V {
            let (a, b) = (load(from), load(from.add(n - V)));
            store(to, a);
            store(to.add(n - V), b);
        } else if n <= 4 * V {
            let (a, b) = (load(from), load(from.add(V)));
            let (c, d) = (load(from.add(n - 2 * V)), load(from.add(n - V)));
            store(to, a);
            store(to.add(V), b);
            store(to.add(n - 2 * V), c);
            store(to.add(n - V), d);
        } else {
            large(to, from, n);
        }
    }
}

#[inline(always)]
unsafe fn small(to: *mut u8, from: *const u8, n: usize) {
    unsafe {
        if n >= 8 {
            let a = from.cast::<u64>().read_unaligned();
            let b = from.add(n - 8).cast::<u64>().read_unaligned();
            to.cast::<u64>().write_unaligned(a);
            to.add(n - 8).cast::<u64>().write_unaligned(b);
        } else if n >= 4 {
            let a = from.cast::<u32>().read_unaligned();
            let b = from.add(n - 4).cast::<u32>().read_unaligned();
            to.cast::<u32>().write_unaligned(a);
            to.add(n - 4).cast::<u32>().write_unaligned(b);
        } else if n > 0 {
            let a = from.read();
            let b = from.add(n / 2).read();
            let c = from.add(n - 1).read();
            to.write(a);
            to.add(n / 2).write(b);
            to.add(n - 1).write(c);
        }
    }
}

#[inline(never)]
unsafe fn large(to: *mut u8, from: *const u8, n: usize) {
    unsafe {
        let ahead = to.addr().wrapping_sub(from.addr());
        if ahead == 0 {
            return;
        }
        if ahead >= n && n >= 512 {
            asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack, preserves_flags));
            return;
        }
        if ahead >= n {
            // Forward; the last four first loaded, for the end.
            let e = from.add(n - 4 * V);
            let end = (load(e), load(e.add(V)), load(e.add(2 * V)), load(e.add(3 * V)));
            let mut i = 0;
            while i < n - 4 * V {
                let (s, t) = (from.add(i), to.add(i));
                let (a, b, c, d) = (load(s), load(s.add(V)), load(s.add(2 * V)), load(s.add(3 * V)));
                store(t, a);
                store(t.add(V), b);
                store(t.add(2 * V), c);
                store(t.add(3 * V), d);
                i += 4 * V;
            }
            let t = to.add(n - 4 * V);
            store(t, end.0);
            store(t.add(V), end.1);
            store(t.add(2 * V), end.2);
            store(t.add(3 * V), end.3);
        } else {
            let first = (load(from), load(from.add(V)), load(from.add(2 * V)), load(from.add(3 * V)));
            let mut i = n;
            while i > 4 * V {
                i -= 4 * V;
                let (s, t) = (from.add(i), to.add(i));
                let (a, b, c, d) = (load(s), load(s.add(V)), load(s.add(2 * V)), load(s.add(3 * V)));
                store(t, a);
                store(t.add(V), b);
                store(t.add(2 * V), c);
                store(t.add(3 * V), d);
            }
            store(to, first.0);
            store(to.add(V), first.1);
            store(to.add(2 * V), first.2);
            store(to.add(3 * V), first.3);
        }
    }
}

/// Which is greater, by its first byte that differs.
#[inline(always)]
pub unsafe fn compare(a: *const u8, b: *const u8, n: usize) -> c_int {
    unsafe {
        let mut i = 0;
        while i + V <= n {
            let same = _mm_movemask_epi8(_mm_cmpeq_epi8(load(a.add(i)), load(b.add(i))));
            if same != 0xffff {
                let at = i + (!same).trailing_zeros() as usize;
                return c_int::from(a.add(at).read()) - c_int::from(b.add(at).read());
            }
            i += V;
        }
        let left = n - i;
        let (a, b) = (a.add(i), b.add(i));
        let order = |x: u64, y: u64| match x.cmp(&y) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        };
        if left >= 8 {
            let at = |p: *const u8, o: usize| u64::from_be(p.add(o).cast::<u64>().read_unaligned());
            let first = order(at(a, 0), at(b, 0));
            if first != 0 {
                return first;
            }
            return order(at(a, left - 8), at(b, left - 8));
        }
        if left >= 4 {
            let at = |p: *const u8, o: usize| u64::from(u32::from_be(p.add(o).cast::<u32>().read_unaligned()));
            let both = |p| at(p, 0) << 32 | at(p, left - 4);
            return order(both(a), both(b));
        }
        if left > 0 {
            let at = |p: *const u8, o: usize| u64::from(p.add(o).read());
            let all = |p| at(p, 0) << 16 | at(p, left / 2) << 8 | at(p, left - 1);
            return order(all(a), all(b));
        }
        0
    }
}

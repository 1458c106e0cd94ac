//! Ids of sandboxes and containers, in little memory.

use std::hash::{BuildHasher, Hash};

use foldhash::quality::FixedState;

/// An id, shortened: 64 bits made of all of it, since nobody promises that any part of an id is random.
/// This is a memory, no proof: the patch that removes a row tests the whole id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Bytes, which stand beside other things without a gap.
pub struct IdTag([u8; 8]);

impl IdTag {
    /// The tag of an id; `None` where it is not 64 hexadecimal digits.
    #[must_use]
    pub fn of(id: &str) -> Option<Self> {
        let id: &[u8; 64] = id.as_bytes().try_into().ok()?;
        let (eights, _) = id.as_chunks::<8>();
        let is_id = eights.iter().all(|eight| are_hex_digits(*eight));
        is_id.then(|| Self(FixedState::default().hash_one(id).to_ne_bytes()))
    }
}

/// Whether all of these are hexadecimal digits. Asked of each row, so all eight at once.
fn are_hex_digits(bytes: [u8; 8]) -> bool {
    // Adding to a byte below 128 what is missing from a bound to 128 turns up its highest bit, and
    // that of no other byte.
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = 128 * EACH;
    let within = |bytes: u64, first: u8, last: u8| {
        let reaches_first = bytes + EACH * u64::from(128 - first);
        let exceeds_last = bytes + EACH * u64::from(127 - last);
        reaches_first & !exceeds_last
    };
    let bytes = u64::from_ne_bytes(bytes);
    let in_lower_case = bytes | (EACH * 0x20);
    let is_ascii = bytes & HIGHEST == 0;
    is_ascii && {
        let digits = within(bytes, b'0', b'9') | within(in_lower_case, b'a', b'f');
        digits & HIGHEST == HIGHEST
    }
}

#[cfg(test)]
mod tests {
    use super::are_hex_digits;

    #[test]
    fn one_byte_that_is_no_digit_is_noticed_wherever_it_is() {
        for (place, byte) in (0..8).flat_map(|place| (0..=255).map(move |byte| (place, byte))) {
            for others in *b"09afAF" {
                let mut bytes = [others; 8];
                bytes[place] = byte;
                assert_eq!(are_hex_digits(bytes), byte.is_ascii_hexdigit(), "{bytes:?}");
            }
        }
    }
}

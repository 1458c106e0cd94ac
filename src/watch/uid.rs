//! A uid in sixteen bytes.

use std::fmt;

/// Where the dashes of a UUID are.
const DASHES: [usize; 4] = [8, 13, 18, 23];
const LENGTH: usize = 36;

/// A uid as the API server makes them: a UUID in lower case.
// Bytes and not a number, which would want to stand at a multiple of sixteen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uid([u8; 16]);

impl Uid {
    /// The uid of this text; `None` where another text than this would be made of it.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != LENGTH {
            return None;
        }
        let mut number = 0_u128;
        for (place, letter) in text.bytes().enumerate() {
            let digit = match letter {
                b'-' if DASHES.contains(&place) => continue,
                _ if DASHES.contains(&place) => return None,
                b'0'..=b'9' => letter - b'0',
                b'a'..=b'f' => letter - b'a' + 10,
                _ => return None,
            };
            number = (number << 4) | u128::from(digit);
        }
        Some(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = u128::from_be_bytes(self.0);
        let part = |end: usize| (number >> (128 - 4 * end)) & 0xffff;
        let (first, last) = (number >> 96, number & 0xffff_ffff_ffff);
        let [a, b, c] = [part(12), part(16), part(20)];
        write!(f, "{first:08x}-{a:04x}-{b:04x}-{c:04x}-{last:012x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn uids_are_read_and_written(bytes: [u8; 16]) {
            let text = Uid(bytes).to_string();
            prop_assert_eq!(text.len(), LENGTH);
            prop_assert_eq!(Uid::parse(&text), Some(Uid(bytes)));
        }

        #[test]
        fn a_text_that_is_read_is_written_again(
            text in "[0-9a-f]{7,9}(-[0-9a-f]{4}){3}-[0-9a-g]{12}|[0-9a-fA-F-]{36}|\\PC{0,40}",
        ) {
            if let Some(uid) = Uid::parse(&text) {
                prop_assert_eq!(uid.to_string(), text);
            }
        }
    }
}

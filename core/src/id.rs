//! Ids of sandboxes and containers, in little memory; and other things as numbers.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use foldhash::quality::FixedState;

/// An id, shortened: 64 bits made of all of it, since nobody promises that any part of an id is random.
/// This is a memory, no proof: the patch that removes a row tests the whole id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Bytes, which stand beside other things without a gap.
pub struct IdTag([u8; 8]);

impl IdTag {
    /// The tag of an id; `None` where it is not 64 hexadecimal digits.
    pub fn of(id: &str) -> Option<Self> {
        is_id(id).then(|| Self(FixedState::default().hash_one(id).to_ne_bytes()))
    }
}

/// A thing as a number, where many are kept. Only by chance do two have the same one.
pub(crate) fn hash_of(thing: &(impl Hash + ?Sized)) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(thing)
}

/// Whether this is a uid as Kubernetes makes them (RFC 9562): 32 hexadecimal digits in five groups.
pub fn is_uid(text: &str) -> bool {
    let groups = text.split('-').map(|group| {
        let are_digits = group.bytes().all(|byte| byte.is_ascii_hexdigit());
        are_digits.then_some(group.len())
    });
    groups.eq([8, 4, 4, 4, 12].map(Some))
}

/// Whether this is the id of a sandbox or a container: 64 hexadecimal digits.
pub fn is_id(id: &str) -> bool {
    // Asked of each row, so without a branch for each digit.
    let are_digits = |are: bool, byte: u8| are & byte.is_ascii_hexdigit();
    id.len() == 64 && id.bytes().fold(true, are_digits)
}

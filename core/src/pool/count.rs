//! How many rows a name has, and of how many interfaces: a DEL is one interface's, and gives back all its addresses.

/// The number of an interface as the container runtime and multus name it: `eth0`, `net1` to `net63`.
#[must_use]
pub fn interface_number(name: &str) -> Option<u8> {
    if name == "eth0" {
        return Some(0);
    }
    let digits = name.strip_prefix("net")?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    let number: u8 = digits.parse().ok()?;
    (is_number && u32::from(number) < u64::BITS).then_some(number)
}

/// Rows of one podref.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCount {
    rows: u32,
    /// A bit for each of the interfaces that have a number.
    numbered: u64,
    /// Rows of no such interface: each may be of one of its own.
    others: u32,
}

impl RowCount {
    /// There is another row, of the interface with this [`interface_number`].
    pub fn add(&mut self, interface: Option<u8>) {
        self.rows = self.rows.saturating_add(1);
        match interface.and_then(|number| 1_u64.checked_shl(number.into())) {
            Some(bit) => self.numbered |= bit,
            None => self.others = self.others.saturating_add(1),
        }
    }

    /// Takes another count in that was made at another time.
    pub fn raise(&mut self, other: Self) {
        self.rows = self.rows.max(other.rows);
        self.numbered |= other.numbered;
        self.others = self.others.max(other.others);
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(self) -> usize {
        small(self.rows)
    }

    /// Of how many interfaces they may be.
    #[must_use]
    pub fn interfaces(self) -> usize {
        small(self.numbered.count_ones().saturating_add(self.others))
    }
}

fn small(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("eth0", Some(0))]
    #[case("net1", Some(1))]
    #[case("net63", Some(63))]
    #[case("net64", None)]
    #[case("net0", None)]
    #[case("net01", None)]
    #[case("net+1", None)]
    #[case("net", None)]
    #[case("eth1", None)]
    #[case("storage", None)]
    fn interfaces_have_the_numbers_of_their_names(#[case] name: &str, #[case] number: Option<u8>) {
        assert_eq!(interface_number(name), number);
    }

    fn count(interfaces: &[&str]) -> RowCount {
        let mut count = RowCount::default();
        let numbers = interfaces.iter().map(|name| interface_number(name));
        numbers.for_each(|number| count.add(number));
        count
    }

    #[rstest]
    #[case::both_families(&["net1", "net1", "net2", "net2"], 2)]
    #[case::three(&["eth0", "net1", "net2"], 3)]
    #[case::of_no_known_name(&["a", "a", "net1"], 3)]
    fn rows_of_one_interface_are_of_one(#[case] names: &[&str], #[case] interfaces: usize) {
        assert_eq!(count(names).interfaces(), interfaces);
        assert_eq!(count(names).rows(), names.len());
    }

    #[test]
    fn what_was_seen_at_different_times_counts_together() {
        let mut all = count(&["net1", "net2", "a", "a"]);
        all.raise(count(&["net3", "a"]));
        assert_eq!((all.rows(), all.interfaces()), (4, 5));
    }
}

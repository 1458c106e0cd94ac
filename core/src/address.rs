//! Ranges, offsets, addresses, and the object names that whereabouts derives from them.
//!
//! Addresses are compared as addresses everywhere, never as text; the texts here exist because
//! IPPools and reservations carry their identity in their names (whereabouts
//! `pkg/storage/kubernetes/ipam.go`).

use std::{
    cmp::Reverse,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnetwork::IpNetwork;

/// `spec.range` of a pool: a CIDR whose host bits are kept, since offsets count from the address
/// as written and not from the network address (whereabouts parses with `net.ParseCIDR` and takes
/// the first result).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    cidr: IpNetwork,
}

impl Range {
    /// Parses `address/length` as strictly as Go does: no netmask form, no zone, no bare address. `None` where the text
    /// is not a CIDR.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let address: IpAddr = address.parse().ok()?;
        let length: u8 = length.parse().ok()?;
        // Go takes it for the IPv4 range that it stands for.
        let (address, length) = match (address.to_canonical(), length.checked_sub(96)) {
            (v4 @ IpAddr::V4(_), Some(shorter)) if address.is_ipv6() => (v4, shorter),
            _ => (address, length),
        };
        let cidr = IpNetwork::new(address, length).ok()?;
        Some(Self { cidr })
    }

    /// The same range with its host bits cleared: what the CNI plugin writes and names pools by.
    pub fn masked(self) -> Self {
        // The prefix comes from a valid network, so it stays valid.
        let cidr = IpNetwork::new(self.cidr.network(), self.cidr.prefix()).unwrap_or(self.cidr);
        Self { cidr }
    }

    /// Whether `address` lies in the range.
    pub fn contains(self, address: IpAddr) -> bool {
        self.cidr.contains(address.to_canonical())
    }

    /// The first address, and the last one in reverse order: sorted by this, a range that contains
    /// another stands before it.
    pub fn first_and_last(self) -> (IpAddr, Reverse<IpAddr>) {
        (self.cidr.network(), Reverse(self.cidr.broadcast()))
    }

    /// Whether both have an address in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other.cidr.network()) || other.contains(self.cidr.network())
    }

    /// The address that a row with this offset holds; `None` where the sum leaves the address
    /// family. It may lie outside of the range.
    pub fn address_at(self, offset: Offset) -> Option<IpAddr> {
        let base = self.cidr.ip().to_canonical();
        let sum = number(base).checked_add(offset.0.into())?;
        let sum = IpAddr::V6(sum.into()).to_canonical();
        (base.is_ipv6() || sum.is_ipv4()).then_some(sum)
    }
}

/// As Go writes it.
impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = self.cidr.ip().to_canonical();
        write!(f, "{address}/{}", self.cidr.prefix())
    }
}

/// The bits of an address. An IPv4 address counts as the IPv6 one that stands for it.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// Distance of a row's address from the base of its range: the key of the allocations map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

impl Offset {
    /// Reads a key of the allocations map. Keys from −2^63 to 2^64−1 exist in the wild (whereabouts
    /// issues 83 and 403); a negative one is the same 64 bits, read as unsigned.
    pub fn parse(key: &str) -> Option<Self> {
        // Rust would accept a plus sign, which Go never writes.
        if key.starts_with('+') {
            return None;
        }
        let negative = || key.parse::<i64>().ok().map(i64::cast_unsigned);
        key.parse().ok().or_else(negative).map(Self)
    }
}

/// Name of the IPPool for a masked range, an optional network name, and the node where the range
/// is that node's slice. Host bits of `range` are cleared first.
pub fn pool_name(network: Option<&str>, node: Option<&str>, range: Range) -> String {
    let range = range.masked().to_string().replace([':', '/'], "-");
    [network, node, Some(&range)]
        .into_iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

/// The network name of a pool: what stands before the name that its range alone would give.
///
/// `Some(None)` is a pool without a network name; `None` a pool whose name does not end in its
/// range, which is not a name that whereabouts makes. For a node's slice the answer still carries
/// the node (`network-node`, or `node` alone).
pub fn network_of_pool(pool: &str, range: Range) -> Option<Option<&str>> {
    let bare = pool_name(None, None, range);
    let prefix = pool.strip_suffix(bare.as_str())?;
    if prefix.is_empty() {
        return Some(None);
    }
    let network = prefix.strip_suffix('-')?;
    (!network.is_empty()).then_some(Some(network))
}

/// The address that a reservation's name stands for, given the network it is looked up in.
///
/// Names are parsed, never compared: `-` may stand for `:`, and the short, the expanded and the
/// `--0` spelling of one IPv6 address all occur.
pub fn reservation_address(name: &str, network: Option<&str>) -> Option<IpAddr> {
    let text = match network {
        Some(network) => name.strip_prefix(network)?.strip_prefix('-')?,
        None => name,
    };
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(address.into());
    }
    // Go writes no IPv6 address with dots.
    let text = (!text.contains('.')).then(|| text.replace('-', ":"))?;
    let address: Ipv6Addr = text.parse().ok()?;
    Some(IpAddr::V6(address).to_canonical())
}

/// Each network and address that the name of a reservation may be of, whichever networks there are.
pub fn readings(name: &str) -> impl Iterator<Item = (Option<&str>, IpAddr)> {
    // Before the address stands nothing, or the network and a dash.
    let networks = name.match_indices('-').map(|(at, _)| Some(&name[..at]));
    let networks = [None].into_iter().chain(networks);
    networks.filter_map(|network| Some((network, reservation_address(name, network)?)))
}

/// Whether a reservation of this name may be of `address`, whatever the network.
pub fn may_reserve(name: &str, address: IpAddr) -> bool {
    readings(name).any(|(_, its)| its == address.to_canonical())
}

/// Every name under which the reservation of `address` may be stored, the usual one first.
/// An object that is found under such a name still has to be parsed.
pub fn reservation_names(address: IpAddr, network: Option<&str>) -> Vec<String> {
    let mut texts = Vec::with_capacity(3);
    match address.to_canonical() {
        IpAddr::V4(address) => texts.push(address.to_string()),
        IpAddr::V6(address) => {
            let short = address.to_string();
            if short.ends_with(':') {
                // Upstream appends a zero so that the name does not end in a dash.
                texts.push(format!("{short}0").replace(':', "-"));
            }
            texts.push(short.replace(':', "-"));
            let expanded = address.segments().map(|it| format!("{it:04x}"));
            texts.push(expanded.join("-"));
        }
    }
    // Object names begin and end with a letter or digit; others cannot exist.
    texts.retain(|text| network.is_some() || text.starts_with(|c: char| c.is_ascii_alphanumeric()));
    texts.retain(|text| text.ends_with(|c: char| c.is_ascii_alphanumeric()));
    texts.dedup();
    let Some(network) = network else { return texts };
    let texts = texts.into_iter();
    texts.map(|text| format!("{network}-{text}")).collect()
}

#[cfg(test)]
mod tests {
    // `Option<Option<_>>` is what `network_of_pool` answers.
    #![allow(clippy::unwrap_used, clippy::option_option)]
    use super::*;
    use crate::text::excerpt;
    use proptest::prelude::*;
    use rstest::rstest;

    fn range(text: &str) -> Range {
        Range::parse(text).unwrap()
    }

    #[rstest]
    #[case("10.0.0.0/24", "10.0.0.255", true)]
    #[case("10.0.0.0/24", "10.0.1.0", false)]
    #[case("10.0.0.0/24", "::ffff:10.0.0.7", true)]
    #[case("fd00::/120", "fd00::ff", true)]
    #[case("fd00::/120", "fd00::1:0", false)]
    fn an_address_lies_in_a_range_or_not(
        #[case] cidr: &str,
        #[case] address: IpAddr,
        #[case] lies: bool,
    ) {
        assert_eq!(range(cidr).contains(address), lies);
        assert_eq!(range(cidr).to_string(), cidr);
    }

    #[rstest]
    #[case("10.0.0.0/16", "10.0.7.0/24", true)]
    #[case("10.0.0.0/24", "10.0.0.0/24", true)]
    #[case("10.0.0.0/24", "10.0.1.0/24", false)]
    #[case("fd00::/64", "fd00::/120", true)]
    #[case("fd00::/64", "10.0.0.0/8", false)]
    fn ranges_overlap_or_not(#[case] wider: &str, #[case] other: &str, #[case] overlap: bool) {
        let (wider, other) = (range(wider), range(other));
        assert_eq!(wider.overlaps(other), overlap);
        assert_eq!(other.overlaps(wider), overlap);
        assert!(!overlap || wider.first_and_last() <= other.first_and_last());
    }

    #[rstest]
    #[case("10.0.0.5", &[(None, "10.0.0.5")])]
    #[case("blue-net-10.0.0.5", &[(Some("blue-net"), "10.0.0.5")])]
    #[case("n-1-2-3-4-5-6-10.0.0.5", &[(Some("n-1-2-3-4-5-6"), "10.0.0.5")])]
    #[case("fd00--5", &[(None, "fd00::5")])]
    #[case("blue-fd00--5", &[(Some("blue"), "fd00::5")])]
    #[case("f1-fd00--1", &[(None, "f1:fd00::1"), (Some("f1"), "fd00::1")])]
    #[case("fd00-a--0", &[(None, "fd00:a::"), (Some("fd00"), "a::")])]
    #[case("blue", &[])]
    #[case("", &[])]
    fn a_name_may_be_of_several_addresses(
        #[case] name: &str,
        #[case] all: &[(Option<&str>, &str)],
    ) {
        let all = all
            .iter()
            .map(|(network, address)| (*network, address.parse().unwrap()));
        assert_eq!(readings(name).collect::<Vec<_>>(), all.collect::<Vec<_>>());
    }

    #[rstest]
    #[case::itself("10.0.0.5", "10.0.0.5", true)]
    #[case::in_a_network("blue-10.0.0.5", "10.0.0.5", true)]
    #[case::another_that_ends_like_it("110.0.0.5", "10.0.0.5", false)]
    #[case::another("10.0.0.6", "10.0.0.5", false)]
    #[case::short("fd00--5", "fd00::5", true)]
    #[case::expanded("fd00-0000-0000-0000-0000-0000-0000-0005", "fd00::5", true)]
    #[case::with_a_zero("blue-fd00--0", "fd00::", true)]
    #[case::another_that_ends_like_it("1fd00--5", "fd00::5", false)]
    fn a_reservation_may_be_of_an_address(
        #[case] name: &str,
        #[case] address: IpAddr,
        #[case] may: bool,
    ) {
        assert_eq!(may_reserve(name, address), may);
    }

    #[rstest]
    #[case("192.168.2.0/24", "5", Some("192.168.2.5"))]
    #[case("192.168.2.224/28", "1", Some("192.168.2.225"))]
    #[case("fd00:0:0:10::/64", "10", Some("fd00:0:0:10::a"))]
    #[case("2001:db8:5422:5::/64", "0", Some("2001:db8:5422:5::"))]
    // Host bits count: upstream's own unit test makes such a pool.
    #[case("10.10.10.0/16", "1", Some("10.10.10.1"))]
    // Issue 83: written before the offset was unsigned.
    #[case("caa5::/64", "-3844666706890850303", Some("caa5::caa5:0:0:1"))]
    #[case("10.0.0.0/8", "4294967295", None)]
    #[case("10.0.0.0/8", "4294967296", None)]
    #[case(
        "ffff:ffff:ffff:ffff::/64",
        "18446744073709551615",
        Some("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
    )]
    #[case("ffff:ffff:ffff:ffff::1/64", "18446744073709551615", None)]
    fn a_row_holds_base_plus_offset(
        #[case] cidr: &str,
        #[case] key: &str,
        #[case] address: Option<&str>,
    ) {
        let got = range(cidr).address_at(Offset::parse(key).unwrap());
        assert_eq!(got, address.map(|a| a.parse().unwrap()));
    }

    #[rstest]
    #[case("18446744073709551615", Some(u64::MAX))]
    #[case("18446744073709551616", None)]
    #[case("-9223372036854775808", Some(1 << 63))]
    #[case("-9223372036854775809", None)]
    #[case("", None)]
    #[case("+1", None)]
    #[case("0x1", None)]
    #[case(" 1", None)]
    fn keys_are_64_bits_signed_or_unsigned(#[case] key: &str, #[case] offset: Option<u64>) {
        assert_eq!(Offset::parse(key), offset.map(Offset));
    }

    #[rstest]
    #[case("10.0.0.0")]
    #[case("10.0.0.0/255.0.0.0")]
    #[case("10.0.0.0/33")]
    #[case("10.0.0.0/")]
    #[case("10.0.0.0/+8")]
    #[case("fe80::1%eth0/64")]
    #[case("::/129")]
    #[case("")]
    fn what_go_rejects_is_no_range(#[case] text: &str) {
        assert!(Range::parse(text).is_none());
    }

    #[rstest]
    #[case("10.0.0.0-8", "10.0.0.0/8", Some(None))]
    #[case("test-10.0.0.0-8", "10.0.0.0/8", Some(Some("test")))]
    #[case("test-node-10.0.0.0-8", "10.0.0.0/8", Some(Some("test-node")))]
    #[case("test10.0.0.0-8", "10.0.0.0/8", None)]
    #[case("-10.0.0.0-8", "10.0.0.0/8", None)]
    #[case("by-hand", "10.0.0.0/8", None)]
    fn the_network_stands_before_the_range(
        #[case] pool: &str,
        #[case] cidr: &str,
        #[case] network: Option<Option<&str>>,
    ) {
        assert_eq!(network_of_pool(pool, range(cidr)), network);
    }

    #[rstest]
    #[case("10.0.0.5", None, Some("10.0.0.5"))]
    #[case("n1-10.0.0.5", Some("n1"), Some("10.0.0.5"))]
    #[case("n1-10.0.0.5", None, None)]
    #[case("10.0.0.5", Some("n1"), None)]
    #[case("n2-10.0.0.5", Some("n1"), None)]
    #[case("fd00--10-0-0-3-1", None, Some("fd00:0:0:10:0:0:3:1"))]
    #[case("2001-db8-5422-5--0", None, Some("2001:db8:5422:5::"))]
    #[case(
        "2001-0db8-5422-0005-0000-0000-0000-0000",
        None,
        Some("2001:db8:5422:5::")
    )]
    #[case("n-1-fd00--1", Some("n-1"), Some("fd00::1"))]
    #[case("", None, None)]
    #[case("not-an-address", None, None)]
    fn reservation_names_are_parsed(
        #[case] name: &str,
        #[case] network: Option<&str>,
        #[case] address: Option<&str>,
    ) {
        assert_eq!(
            reservation_address(name, network),
            address.map(|a| a.parse().unwrap())
        );
    }

    #[rstest]
    #[case("10.0.0.5", None, &["10.0.0.5"])]
    #[case("10.0.0.5", Some("n1"), &["n1-10.0.0.5"])]
    #[case("2001:db8:5422:5::", None, &["2001-db8-5422-5--0", "2001-0db8-5422-0005-0000-0000-0000-0000"])]
    #[case("fd00::1", None, &["fd00--1", "fd00-0000-0000-0000-0000-0000-0000-0001"])]
    #[case("::1", None, &["0000-0000-0000-0000-0000-0000-0000-0001"])]
    fn every_spelling_is_looked_for(
        #[case] address: &str,
        #[case] network: Option<&str>,
        #[case] names: &[&str],
    ) {
        assert_eq!(reservation_names(address.parse().unwrap(), network), names);
    }

    proptest! {
        #[test]
        fn every_name_leads_back_to_its_address(bits: u128, v4: bool, network in proptest::option::of("[a-z][a-z0-9-]{0,8}[a-z0-9]")) {
            let address = if v4 { IpAddr::V4(Ipv4Addr::from((bits >> 96) as u32)) } else { IpAddr::V6(bits.into()).to_canonical() };
            for name in reservation_names(address, network.as_deref()) {
                prop_assert_eq!(reservation_address(&name, network.as_deref()), Some(address));
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,60}", network in proptest::option::of("\\PC{0,8}")) {
            let _ = Range::parse(&text);
            let _ = Offset::parse(&text);
            let _ = reservation_address(&text, network.as_deref());
            let _ = readings(&text).count();
            let _ = network_of_pool(&text, range("10.0.0.0/8"));
            prop_assert!(excerpt(&text).len() <= 80);
        }

        #[test]
        fn a_pool_name_leads_back_to_its_network(bits: u32, length in 0u8..=32, network in "[a-z][a-z0-9-]{0,8}") {
            let range = range(&format!("{}/{length}", Ipv4Addr::from(bits)));
            let name = pool_name(Some(&network), None, range);
            prop_assert_eq!(network_of_pool(&name, range), Some(Some(network.as_str())));
        }
    }
}

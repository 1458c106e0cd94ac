//! The addresses that a range entry hands out, and how many these are.

use std::{cmp::Reverse, net::IpAddr};

use crate::address::{Range, number};

/// The part of a range that addresses are handed out of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The range, masked.
    pub range: Range,
    /// The first address, where it is not the first of the range that can be used.
    pub first: Option<IpAddr>,
    /// The last address, in the same way.
    pub last: Option<IpAddr>,
    /// `exclude`: what is passed over.
    pub excluded: Box<[Range]>,
}

impl Span {
    /// As whereabouts reads it: a first or last address that cannot be given out, or a last one before the first, does
    /// not count.
    pub(super) fn new(
        range: Range,
        first: Option<IpAddr>,
        last: Option<IpAddr>,
        excluded: Box<[Range]>,
    ) -> Self {
        let (lowest, highest) = usable(range);
        let between = |address: Option<IpAddr>, lowest| {
            let address = address.map(|address| address.to_canonical());
            address.filter(|it| (lowest..=highest).contains(&number(*it)))
        };
        let first = between(first, lowest);
        Self {
            range,
            first,
            last: between(last, first.map_or(lowest, number)),
            excluded,
        }
    }

    /// Whether an address of its range is in this part of it.
    pub fn has(&self, address: IpAddr) -> bool {
        self.first.is_none_or(|first| first <= address)
            && self.last.is_none_or(|last| address <= last)
            && !self.excluded.iter().any(|it| it.contains(address))
    }
}

/// The numbers of the first and the last address of a range that whereabouts gives out.
fn usable(range: Range) -> (u128, u128) {
    let (first, last) = ends(range);
    (first.saturating_add(1), last.saturating_sub(1))
}

fn ends(range: Range) -> (u128, u128) {
    let (first, Reverse(last)) = range.first_and_last();
    (number(first), number(last))
}

/// Whether whereabouts hands out this address, as one of the parts of a range or, without parts, of all of it. A row of
/// another address takes no room.
pub fn hands_out<'s>(
    range: Range,
    spans: impl IntoIterator<Item = &'s Span>,
    address: IpAddr,
) -> bool {
    let (lowest, highest) = usable(range);
    let mut spans = spans.into_iter().peekable();
    range.contains(address)
        && (lowest..=highest).contains(&number(address))
        && (spans.peek().is_none() || spans.any(|span| span.has(address)))
}

/// How many addresses of a range are handed out at the most by these parts of it; by none, all of it is. None where
/// whereabouts hands out nothing of it at all, as of a range of two.
pub fn handed_out<'s>(range: Range, spans: impl IntoIterator<Item = &'s Span>) -> Option<u128> {
    let (lowest, highest) = usable(range);
    // whereabouts refuses ranges of fewer than four.
    if highest <= lowest {
        return None;
    }
    let mut parts = Vec::new();
    let mut spans = spans.into_iter().peekable();
    if spans.peek().is_none() {
        parts.push((lowest, highest));
    }
    for span in spans {
        let mut next = span.first.map_or(lowest, number);
        let end = span.last.map_or(highest, number);
        let excluded = span.excluded.iter();
        // Numbers of the other family would be those of other addresses.
        let excluded = excluded.filter(|excluded| range.overlaps(**excluded));
        let mut gaps: Vec<_> = excluded.map(|excluded| ends(*excluded)).collect();
        gaps.sort_unstable();
        for (from, to) in gaps {
            if next < from {
                parts.push((next, end.min(from - 1)));
            }
            next = next.max(to.saturating_add(1));
        }
        parts.push((next, end));
    }
    parts.sort_unstable();
    // An address that two of them hand out counts once.
    let (mut count, mut next) = (0_u128, 0);
    for (begin, end) in parts {
        let begin = begin.max(next);
        if begin <= end {
            count += end - begin + 1;
            next = end + 1;
        }
    }
    Some(count)
}

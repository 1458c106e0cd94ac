//! The addresses of a pod: their octets in one place and, as few as they mostly are, without a pointer to
//! it. It holds what it is given, and never looks further.

use std::net::IpAddr;

/// So many octets are few: seven addresses of IPv4, or three and one of IPv6.
const FEW: usize = 29;

/// Addresses in an order that only they know who gave them: see [`Addresses::fill`].
#[derive(Clone, Debug)]
pub struct Addresses(Octets);

/// First those of IPv4, then those of IPv6.
#[derive(Clone, Debug)]
enum Octets {
    Few { v4: u8, v6: u8, octets: [u8; FEW] },
    Many { v4: usize, octets: Box<[u8]> },
}

impl Addresses {
    /// These addresses.
    pub fn new<'a>(addresses: impl Iterator<Item = &'a IpAddr> + Clone) -> Self {
        let v4 = addresses.clone().filter_map(|address| match address {
            IpAddr::V4(v4) => Some(v4.octets()),
            IpAddr::V6(_) => None,
        });
        let v6 = addresses.filter_map(|address| match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) => Some(v6.octets()),
        });
        let (count_v4, count_v6) = (v4.clone().count(), v6.clone().count());
        let all = v4.flatten().chain(v6.flatten());
        Self(match (count_v4.try_into(), count_v6.try_into()) {
            (Ok(v4), Ok(v6)) if 4 * count_v4 + 16 * count_v6 <= FEW => {
                let mut octets = [0; FEW];
                for (octet, place) in all.zip(&mut octets) {
                    *place = octet;
                }
                Octets::Few { v4, v6, octets }
            }
            _ => Octets::Many {
                v4: count_v4,
                octets: all.collect(),
            },
        })
    }

    /// Those of IPv4, and those of IPv6.
    fn families(&self) -> (&[[u8; 4]], &[[u8; 16]]) {
        let (v4, octets) = match &self.0 {
            Octets::Few { v4, v6, octets } => {
                let v4 = usize::from(*v4);
                (v4, &octets[..4 * v4 + 16 * usize::from(*v6)])
            }
            Octets::Many { v4, octets } => (*v4, &**octets),
        };
        let (v4, v6) = octets.split_at(4 * v4);
        (v4.as_chunks().0, v6.as_chunks().0)
    }

    /// Whether they lie elsewhere in memory. Told without a look there.
    pub fn are_many(&self) -> bool {
        matches!(self.0, Octets::Many { .. })
    }

    /// Reads both ends of them. The number means nothing.
    pub fn touch(&self) -> u8 {
        let end = |octet: Option<&u8>| octet.copied().unwrap_or_default();
        match &self.0 {
            Octets::Few { v4, .. } => *v4,
            Octets::Many { octets, .. } => end(octets.first()) ^ end(octets.last()),
        }
    }

    /// Where this one is, if it is one of them: those of IPv4 come first.
    pub fn place_of(&self, address: IpAddr) -> Option<usize> {
        let (v4, v6) = self.families();
        match address {
            IpAddr::V4(address) => v4.iter().position(|known| *known == address.octets()),
            IpAddr::V6(address) => {
                let place = v6.iter().position(|known| *known == address.octets());
                place.map(|place| v4.len() + place)
            }
        }
    }

    /// Those of IPv4, then those of IPv6, each in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> {
        let (v4, v6) = self.families();
        let v4 = v4.iter().map(|octets| IpAddr::from(*octets));
        v4.chain(v6.iter().map(|octets| IpAddr::from(*octets)))
    }

    /// Puts them in the places of others, which are of the same families in the same order as they
    /// were.
    pub fn fill<'a>(&self, places: impl Iterator<Item = &'a mut IpAddr>) {
        let (v4, v6) = self.families();
        let (mut v4, mut v6) = (v4.iter(), v6.iter());
        for place in places {
            let address = match place {
                IpAddr::V4(_) => v4.next().map(|octets| IpAddr::from(*octets)),
                IpAddr::V6(_) => v6.next().map(|octets| IpAddr::from(*octets)),
            };
            *place = address.unwrap_or(*place);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn addresses_are_found_and_put_back(own: Vec<IpAddr>, few in vec(any::<IpAddr>(), 0..6), other: IpAddr) {
            for all in [own, few] {
                let addresses = Addresses::new(all.iter());
                prop_assert_eq!(addresses.place_of(other).is_some(), all.contains(&other));
                for address in &all {
                    let place = addresses.place_of(*address).unwrap();
                    prop_assert_eq!(addresses.iter().nth(place), Some(*address));
                }
                let blank = |address: &IpAddr| match address {
                    IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let mut places: Vec<IpAddr> = all.iter().map(blank).collect();
                addresses.fill(places.iter_mut());
                prop_assert_eq!(places, all);
            }
        }
    }
}

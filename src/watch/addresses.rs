//! The addresses of a pod, few as they mostly are, in one place and without a pointer to it.

use std::net::IpAddr;

/// So many bytes of addresses are few: seven of IPv4, or three and one of IPv6.
const FEW: usize = 29;

/// Addresses in an order that only they know who gave them: see [`Addresses::fill`].
#[derive(Clone, Debug)]
pub enum Addresses {
    /// First those of IPv4, then those of IPv6.
    Few {
        v4: u8,
        v6: u8,
        octets: [u8; FEW],
    },
    Many(Box<[IpAddr]>),
}

impl Addresses {
    /// These addresses.
    pub fn new<'a>(addresses: impl Iterator<Item = &'a IpAddr> + Clone) -> Self {
        let v4 = addresses.clone().filter_map(|address| match address {
            IpAddr::V4(v4) => Some(v4.octets()),
            IpAddr::V6(_) => None,
        });
        let v6 = addresses.clone().filter_map(|address| match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) => Some(v6.octets()),
        });
        let (count_v4, count_v6) = (v4.clone().count(), v6.clone().count());
        let mut octets = [0; FEW];
        match (count_v4.try_into(), count_v6.try_into()) {
            (Ok(few_v4), Ok(few_v6)) if 4 * count_v4 + 16 * count_v6 <= FEW => {
                let all = v4.flatten().chain(v6.flatten());
                for (octet, place) in all.zip(&mut octets) {
                    *place = octet;
                }
                Self::Few {
                    v4: few_v4,
                    v6: few_v6,
                    octets,
                }
            }
            _ => Self::Many(addresses.copied().collect()),
        }
    }

    /// Whether this is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self, address) {
            (Self::Few { v4, v6, octets }, IpAddr::V4(address)) => {
                let (addresses, _) = split(*v4, *v6, octets);
                addresses.contains(&address.octets())
            }
            (Self::Few { v4, v6, octets }, IpAddr::V6(address)) => {
                let (_, addresses) = split(*v4, *v6, octets);
                addresses.contains(&address.octets())
            }
            (Self::Many(addresses), address) => addresses.contains(&address),
        }
    }

    /// Puts them in the places of others, which are of the same families in the same order as they
    /// were.
    pub fn fill<'a>(&self, places: impl Iterator<Item = &'a mut IpAddr>) {
        match self {
            Self::Few { v4, v6, octets } => {
                let (v4, v6) = split(*v4, *v6, octets);
                let (mut v4, mut v6) = (v4.iter(), v6.iter());
                for place in places {
                    let address = match place {
                        IpAddr::V4(_) => v4.next().map(|octets| IpAddr::from(*octets)),
                        IpAddr::V6(_) => v6.next().map(|octets| IpAddr::from(*octets)),
                    };
                    *place = address.unwrap_or(*place);
                }
            }
            Self::Many(addresses) => {
                for (place, address) in places.zip(addresses) {
                    *place = *address;
                }
            }
        }
    }
}

fn split(v4: u8, v6: u8, octets: &[u8; FEW]) -> (&[[u8; 4]], &[[u8; 16]]) {
    let (first, rest) = octets.split_at(4 * usize::from(v4));
    let (v6, _) = rest.split_at(16 * usize::from(v6));
    (first.as_chunks().0, v6.as_chunks().0)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn addresses_are_found_and_put_back(own: Vec<IpAddr>, few in vec(any::<IpAddr>(), 0..6), other: IpAddr) {
            for all in [own, few] {
                let addresses = Addresses::new(all.iter());
                prop_assert_eq!(addresses.contains(other), all.contains(&other));
                prop_assert!(all.iter().all(|address| addresses.contains(*address)));
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

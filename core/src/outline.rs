//! The items of a dump, as fast as they can be stepped over.
//!
//! A dump of a large cluster is a gigabyte, nine tenths of which decide nothing. What most of it is, pods,
//! reservations and pools, is read here to what is kept of it; of all else only the length is found. It lives in this
//! crate because code is made fast here, and small in the other.

use std::{ops::Range, sync::Arc};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::{
    pod::{
        PodState,
        wire::{Metadata, PodStatus, Spec, Wire},
    },
    pool::{self, LeanPool},
    reservation::{LeanReservation, Typed},
    text::{Interner, Text},
};

/// One item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A pod that can be read.
    Pod(Arc<PodState>),
    /// A reservation that can be read.
    Reservation(LeanReservation),
    /// A pool that can be read.
    Pool(Box<LeanPool>),
    /// Whatever else: its text tells.
    Other,
}

/// Reads items, one after the other. Those of one list are mostly alike.
#[derive(Debug, Default)]
pub struct Items {
    /// A pod is an [`Item::Other`] too.
    whole_pods: bool,
    /// What the last one was read by: how it comes to be known that an item is of some other kind takes as long as
    /// reading a small one.
    last: usize,
    texts: Interner,
}

/// Reads the first value of a text as an item of one kind; `None` where it is none of that kind, or where something is
/// wrong with it that whoever reads it as a whole finds out.
type Reader = fn(&mut Items, &[u8]) -> serde_json::Result<Option<(Item, usize)>>;

impl Items {
    const READERS: [Reader; 3] = [Self::pod, Self::reservation, Self::pool];

    /// Of texts that none was read of. A pod is an [`Item::Other`] too if `whole_pods`.
    #[must_use]
    pub fn new(whole_pods: bool) -> Self {
        Self {
            whole_pods,
            ..Self::default()
        }
    }

    /// Reads the first value of a text; with its length, and that of what precedes it.
    ///
    /// # Errors
    /// When it is none, or when the text ends within it.
    pub fn first(&mut self, text: &[u8]) -> serde_json::Result<(Item, usize)> {
        for at in 0..Self::READERS.len() {
            let reader = (self.last + at) % Self::READERS.len();
            if let Some(read) = Self::READERS[reader](self, text)? {
                self.last = reader;
                return Ok(read);
            }
        }
        first_length(text).map(|length| (Item::Other, length))
    }

    /// Reads what should be items, each with a comma behind it, to the end of the text; with their places in it. `None`
    /// if it is anything else.
    #[must_use]
    pub fn all(&mut self, text: &[u8]) -> Option<Vec<(Item, Range<usize>)>> {
        let mut items = Vec::new();
        let mut at = 0;
        loop {
            at += space(&text[at..]);
            if at == text.len() {
                return Some(items);
            }
            let (item, length) = self.first(&text[at..]).ok()?;
            items.push((item, at..at + length));
            at += length;
            at += space(&text[at..]);
            if text.get(at) != Some(&b',') {
                return None;
            }
            at += 1;
        }
    }

    fn pod(&mut self, text: &[u8]) -> serde_json::Result<Option<(Item, usize)>> {
        if self.whole_pods {
            return Ok(None);
        }
        let read = first::<Pod<'_>>(text)?;
        Ok(read
            .and_then(|(pod, length)| Some((Item::Pod(pod.into_wire().state()?.into()), length))))
    }

    fn reservation(&mut self, text: &[u8]) -> serde_json::Result<Option<(Item, usize)>> {
        let read = first::<Typed<'_>>(text)?;
        Ok(read.and_then(|(typed, length)| {
            let reservation = typed.lean(&mut self.texts)?;
            Some((Item::Reservation(reservation), length))
        }))
    }

    fn pool(_: &mut Self, text: &[u8]) -> serde_json::Result<Option<(Item, usize)>> {
        let read = first::<pool::Typed<'_>>(text)?;
        Ok(read.and_then(|(pool, length)| Some((Item::Pool(pool.lean()?.into()), length))))
    }
}

/// How much white space a text begins with.
#[must_use]
pub fn space(text: &[u8]) -> usize {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    text.iter().position(is_text).unwrap_or(text.len())
}

/// The length of the first value of a text, with what precedes it.
///
/// # Errors
/// When it is none, or when the text ends within it.
pub fn first_length(text: &[u8]) -> serde_json::Result<usize> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<&RawValue>();
    match values.next() {
        Some(value) => value.map(|_| values.byte_offset()),
        None => serde_json::from_slice::<&RawValue>(b"").map(|_| 0),
    }
}

/// The first value if it is a `T`. An error where the text ends within it.
fn first<'t, T: Deserialize<'t>>(text: &'t [u8]) -> serde_json::Result<Option<(T, usize)>> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<T>();
    match values.next().transpose() {
        Ok(value) => Ok(value.map(|value| (value, values.byte_offset()))),
        Err(error) if error.is_eof() => Err(error),
        Err(_) => Ok(None),
    }
}

/// The type of a pod. Where it stands first, what is no pod is given up at once.
#[derive(Deserialize)]
enum Version {
    #[serde(rename = "v1")]
    V1,
}

#[derive(Deserialize)]
enum Kind {
    Pod,
}

/// A pod with its type.
#[derive(Deserialize)]
struct Pod<'t> {
    #[serde(rename = "apiVersion")]
    _version: Version,
    #[serde(rename = "kind")]
    _kind: Kind,
    #[serde(borrow)]
    metadata: Option<Metadata<Text<'t>, IgnoredAny>>,
    #[serde(borrow)]
    spec: Option<Spec<Text<'t>>>,
    #[serde(borrow)]
    status: Option<PodStatus<Text<'t>>>,
}

impl<'t> Pod<'t> {
    fn into_wire(self) -> Wire<Text<'t>, IgnoredAny> {
        let Self {
            metadata,
            spec,
            status,
            ..
        } = self;
        Wire {
            metadata,
            spec,
            status,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::reservation::Reservation;

    const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p\u0061","namespace":"d","uid":"u","labels":{"a":"b"},"annotations":{"x":"y","k8s.v1.cni.cncf.io/networks":"net"}},"spec":{"containers":[{"env":[]}],"nodeName":"n"},"status":{"phase":"Running","containerStatuses":[{"name":"c","image":"i","state":{"running":{}}}]}}"#;
    const RESERVATION: &str = r#"{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"OverlappingRangeIPReservation","metadata":{"name":"10.0.0.1","namespace":"k","uid":"r","resourceVersion":"7"},"spec":{"podref":"d/p"}}"#;

    const POOL: &str = r#"{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool","metadata":{"name":"p","namespace":"k","uid":"r","managedFields":[]},"spec":{"range":"10.0.0.0/24","allocations":{"1":{"id":"x","podref":"d/p"}}}}"#;

    #[test]
    fn pods_and_reservations_are_read() {
        let text = format!("  {POD}, {{");
        let (item, length) = Items::default().first(text.as_bytes()).unwrap();
        let Item::Pod(pod) = item else {
            panic!("{item:?}")
        };
        let wire: Wire<String, String> = serde_json::from_str(POD).unwrap();
        assert_eq!(Some(pod), wire.state().map(Arc::new));
        assert_eq!(length, POD.len() + 2);
        assert_eq!(first_length(text.as_bytes()).unwrap(), POD.len() + 2);
        let whole = Items::new(true).first(text.as_bytes()).unwrap();
        assert_eq!(whole, (Item::Other, length));
        let (item, length) = Items::default().first(RESERVATION.as_bytes()).unwrap();
        let known = Reservation::parse(RESERVATION).unwrap();
        let known = LeanReservation::of(known, &mut Interner::default());
        assert_eq!(item, Item::Reservation(known));
        assert_eq!(length, RESERVATION.len());
    }

    #[rstest]
    #[case::without_a_podref(r#"{"containerid":"abc","poduid":"u"}"#)]
    #[case::unknown_field(r#"{"podref":"d/p","ifname":"net1","claim":{"name":"c"}}"#)]
    #[case::empty("{}")]
    fn a_lean_reservation_says_what_the_whole_one_says(#[case] spec: &str) {
        let text = RESERVATION.replace(r#"{"podref":"d/p"}"#, spec);
        let (item, _) = Items::default().first(text.as_bytes()).unwrap();
        let Item::Reservation(lean) = item else {
            panic!("{item:?}")
        };
        let mut whole = Reservation::parse(&text).unwrap();
        whole.resource_version.clear();
        assert_eq!(lean.whole(), whole);
        assert_eq!(
            whole.extra.as_deref(),
            spec.contains("claim").then_some("claim")
        );
        assert_eq!(whole.sandbox.is_some(), spec.contains("abc"));
    }

    #[test]
    fn pools_are_made_lean() {
        let (item, length) = Items::default().first(POOL.as_bytes()).unwrap();
        let Item::Pool(pool) = item else {
            panic!("{item:?}")
        };
        assert_eq!(*pool, LeanPool::parse(POOL).unwrap());
        assert_eq!(length, POOL.len());
    }

    #[rstest]
    #[case::another(r#"{"apiVersion":"v1","kind":"Node"}"#)]
    #[case::of_another_group(
        r#"{"apiVersion":"v2","kind":"Pod","metadata":{"name":"p","namespace":"d","uid":"u"}}"#
    )]
    #[case::no_object("7 ")]
    #[case::odd(r#"{"apiVersion":"v1","kind":"Pod","metadata":7}"#)]
    #[case::nameless(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"uid":"u"}}"#)]
    #[case::nobodys(r#"{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"OverlappingRangeIPReservation","metadata":{"name":"10.0.0.1","uid":"r","resourceVersion":"7"}}"#)]
    #[case::uidless(r#"{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool","metadata":{"name":"p"},"spec":{}}"#)]
    #[case::untyped("{}")]
    fn what_cannot_be_read_is_left_alone(#[case] text: &str) {
        let (item, length) = Items::default().first(text.as_bytes()).unwrap();
        assert_eq!((item, length), (Item::Other, text.trim_end().len()));
    }

    #[test]
    fn a_text_that_ends_too_early_says_so() {
        for text in [POD, RESERVATION, POOL] {
            for length in 0..text.len() {
                let text = &text.as_bytes()[..length];
                assert!(first_length(text).unwrap_err().is_eof(), "{length}");
                assert!(
                    Items::default().first(text).unwrap_err().is_eof(),
                    "{length}"
                );
            }
        }
    }

    #[test]
    fn items_are_those_of_a_whole_text() {
        let text = format!("\n {POD} , {RESERVATION},{{}},\n ");
        let items_of = Items::default().all(text.as_bytes()).unwrap();
        let texts: Vec<_> = items_of.iter().map(|(_, at)| &text[at.clone()]).collect();
        assert_eq!(texts, [POD, RESERVATION, "{}"]);
        assert!(matches!(items_of[0].0, Item::Pod(_)));
        for wrong in [POD, "{},,", "{} {},", "{", ",", "{},]", "{},x"] {
            assert!(Items::default().all(wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert_eq!(Items::default().all(b" ").unwrap(), []);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), like in "[{}\":,a-zP1 ]{0,60}") {
            for bytes in [&*bytes, like.as_bytes()] {
                let _ = Items::default().first(bytes);
                let _ = Items::default().all(bytes);
                let _ = first_length(bytes);
            }
        }
    }
}

//! The owner of a row: `namespace/name` of a pod, and globs over such owners.
//!
//! Upstream writes exactly one slash and never a uid (whereabouts `pkg/types`), so a podref names
//! a pod of any incarnation.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

/// Namespace and name of the pod that a row or a reservation belongs to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef(Arc<str>);

impl PodRef {
    /// A podref of its two parts, where they can be those of one.
    pub fn new(namespace: &str, name: &str) -> Option<Self> {
        format!("{namespace}/{name}").parse().ok()
    }

    /// The namespace of the pod.
    pub fn namespace(&self) -> &str {
        self.parts().0
    }

    /// The name of the pod.
    pub fn name(&self) -> &str {
        self.parts().1
    }

    /// The text as whereabouts writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parts(&self) -> (&str, &str) {
        // There is a slash in each.
        self.0.split_once('/').unwrap_or((&self.0, ""))
    }

    /// Whether the text is a podref.
    pub fn is_valid(text: &str) -> bool {
        text.split_once('/').is_some_and(|(namespace, name)| {
            is_name(namespace, LONGEST_NAMESPACE)
                && !namespace.contains('.')
                && is_object_name(name)
        })
    }
}

impl FromStr for PodRef {
    type Err = ();

    /// Only what can name a pod is one: other characters would change the meaning of a request.
    fn from_str(text: &str) -> Result<Self, ()> {
        Self::is_valid(text).then(|| Self(text.into())).ok_or(())
    }
}

/// Longest name of a namespace (a DNS label), and of a pod (a DNS subdomain).
const LONGEST_NAMESPACE: usize = 63;
const LONGEST_NAME: usize = 253;

/// Whether an object, a pod or a pool, can have this name.
pub fn is_object_name(text: &str) -> bool {
    is_name(text, LONGEST_NAME)
}

/// So it is neither `.` nor `..` either, which a proxy takes for a way through the path of a request.
fn is_name(text: &str, longest: usize) -> bool {
    let is_end = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9');
    let mut ends = text.bytes().take(1).chain(text.bytes().next_back());
    let mut all = text.bytes();
    (1..=longest).contains(&text.len())
        && ends.all(is_end)
        && all.all(|c| is_end(c) || matches!(c, b'-' | b'.'))
}

/// It has the hash of its text, so that maps can be asked with a text.
impl Borrow<str> for PodRef {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A glob over podrefs: `*` is any text (slashes too), `?` any one character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Vec<char>);

impl Glob {
    /// A glob of this pattern; every text is one.
    pub fn new(pattern: &str) -> Self {
        Self(pattern.chars().collect())
    }

    /// Whether the whole `text` fits. Costs at most pattern length times text length.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (&self.0, text.chars().collect::<Vec<_>>());
        let (mut at, mut place) = (0, 0);
        // The last star, and where the text goes on after what it stands for.
        let mut star = None;
        while place < text.len() {
            match (pattern.get(at), star) {
                (Some('*'), _) => {
                    star = Some((at, place));
                    at += 1;
                }
                (Some(c), _) if *c == '?' || *c == text[place] => {
                    at += 1;
                    place += 1;
                }
                // It stands for one more.
                (_, Some((of, after))) => {
                    star = Some((of, after + 1));
                    (at, place) = (of + 1, after + 1);
                }
                (_, None) => return false,
            }
        }
        pattern[at..].iter().all(|c| *c == '*')
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("default/web-0", Some(("default", "web-0")))]
    #[case("", None)]
    #[case("web-0", None)]
    #[case("/web-0", None)]
    #[case("default/", None)]
    #[case("a/b/c", None)]
    #[case("default/web?x=y", None)]
    #[case("default/Web", None)]
    #[case("default/web 0", None)]
    #[case(" default/web", None)]
    #[case("default/<b>web", None)]
    #[case("default/~1web~0", None)]
    #[case("default/web\u{0}", None)]
    #[case("default/.", None)]
    #[case("default/..", None)]
    #[case("../default", None)]
    #[case("default/-web", None)]
    #[case("default/web.", None)]
    #[case("example.com/router", None)]
    #[case("kube-system/etcd-node.example.org", Some(("kube-system", "etcd-node.example.org")))]
    fn a_podref_has_exactly_one_slash(#[case] text: &str, #[case] parts: Option<(&str, &str)>) {
        let podref = text.parse::<PodRef>().ok();
        assert_eq!(podref.as_ref().map(|p| (p.namespace(), p.name())), parts);
    }

    #[test]
    fn what_is_longer_than_any_name_is_none() {
        let long = |namespace: usize, name: usize| {
            let text = format!("{}/{}", "n".repeat(namespace), "p".repeat(name));
            PodRef::is_valid(&text)
        };
        assert!(long(63, 253));
        assert!(!long(64, 1) && !long(1, 254));
    }

    proptest! {
        #[test]
        fn what_names_a_pod_is_a_podref(namespace in "[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", name in "[a-z0-9]([-.a-z0-9]{0,8}[a-z0-9])?") {
            let podref = PodRef::new(&namespace, &name).unwrap();
            prop_assert_eq!(podref.namespace(), namespace);
            prop_assert_eq!(podref.name(), name);
            prop_assert!(Glob::new("*").matches(podref.as_str()));
        }
    }

    #[rstest]
    #[case("dranet/*", "dranet/claim-1", true)]
    #[case("dranet/*", "default/claim-1", false)]
    #[case("*", "a/b", true)]
    #[case("*/web-?", "x/web-0", true)]
    #[case("*/web-?", "x/web-10", false)]
    #[case("a/**b", "a/b", true)]
    #[case("", "a/b", false)]
    fn globs(#[case] pattern: &str, #[case] text: &str, #[case] fits: bool) {
        assert_eq!(Glob::new(pattern).matches(text), fits);
    }
}

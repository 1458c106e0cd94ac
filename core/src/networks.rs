//! The two multus annotations of a pod: what it asked for and what it got.
//!
//! Both parsers are total and linear. A status that cannot be read is [`Status::Malformed`], which
//! is evidence of nothing; it is never treated as an empty one.

use std::{net::IpAddr, sync::Arc};

use serde::{Deserialize, Deserializer, de::Error as _};

use crate::text::{Text, excerpt};

/// The interface of the cluster's own network, in every pod.
pub const FIRST_INTERFACE: &str = "eth0";
/// The network of an entry that tells what the kubelet reports in `status.podIPs`.
const POD_IPS: &str = "status.podIPs";

/// The network-status annotation of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Status {
    /// There is no such annotation (yet).
    #[default]
    Missing,
    /// It does not parse; the reason names the place.
    Malformed(Box<str>),
    /// One entry for each interface that multus knows of, the default network's included.
    Valid(Reported),
}

/// The interfaces of a pod that multus reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reported {
    /// The interfaces. Those of pods of one controller are equal, so that one list can serve all of them.
    pub interfaces: Arc<[Interface]>,
    /// The addresses of the first interface, then those of the second one, and so on.
    addresses: Box<[IpAddr]>,
}

/// An interface in a network-status.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Interface {
    network: Box<str>,
    name: Box<str>,
    /// How many addresses it has.
    addresses: usize,
}

/// One entry of a network-status: an interface with its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusEntry<'a> {
    /// The network as multus names it: `namespace/nad`, or a bare name for the cluster default.
    pub network: &'a str,
    /// The interface inside the pod; empty where multus does not know it.
    pub interface: &'a str,
    /// The addresses on it.
    pub addresses: &'a [IpAddr],
}

impl Status {
    /// Reads the annotation's text.
    pub fn parse(annotation: &str) -> Self {
        if annotation.trim().is_empty() {
            return Self::Malformed("empty text".into());
        }
        let raw: Vec<RawEntry> = match serde_json::from_str(annotation) {
            Ok(raw) => raw,
            Err(error) => return Self::Malformed(excerpt(&error.to_string()).into()),
        };
        Self::of(raw.iter().map(|entry| {
            let network = entry.name.as_deref().unwrap_or_default();
            let interface = entry.interface.as_deref().unwrap_or_default();
            // Calico names no interface of the cluster's own network, and OVN-Kubernetes a second one.
            let is_own = entry.default == Some(true) && !network.contains('/');
            StatusEntry {
                network,
                interface: if is_own { FIRST_INTERFACE } else { interface },
                addresses: &entry.ips,
            }
        }))
    }

    /// A status of these entries.
    pub fn of<'a>(entries: impl Iterator<Item = StatusEntry<'a>> + Clone) -> Self {
        let addresses = entries.clone().flat_map(|entry| entry.addresses).copied();
        let addresses = addresses.collect();
        let interface = |entry: StatusEntry<'_>| Interface {
            network: entry.network.into(),
            name: entry.interface.into(),
            addresses: entry.addresses.len(),
        };
        Self::Valid(Reported {
            interfaces: entries.map(interface).collect(),
            addresses,
        })
    }

    /// Adds what the kubelet reports of the pod's first interface, where no entry tells it: multus
    /// writes none for a configuration without `cniVersion`. Without a valid status nothing is known
    /// of the other interfaces, and it stays as it is.
    pub fn with_pod_ips(self, addresses: impl Iterator<Item = IpAddr>) -> Self {
        if !matches!(self, Self::Valid(_)) {
            return self;
        }
        let missing = addresses.filter(|address| !self.has_address(*address));
        let addresses: Box<[_]> = missing.collect();
        if addresses.is_empty() {
            return self;
        }
        let first = StatusEntry {
            network: POD_IPS,
            interface: FIRST_INTERFACE,
            addresses: &addresses,
        };
        Self::of(self.entries().chain([first]))
    }

    /// The entries, none unless the status is valid.
    pub fn entries(&self) -> impl Iterator<Item = StatusEntry<'_>> + Clone {
        let interfaces = match self {
            Self::Valid(reported) => &*reported.interfaces,
            Self::Missing | Self::Malformed(_) => &[],
        };
        let mut rest = self.addresses();
        interfaces.iter().map(move |interface| {
            let (addresses, behind) = rest.split_at(interface.addresses);
            rest = behind;
            StatusEntry {
                network: &interface.network,
                interface: &interface.name,
                addresses,
            }
        })
    }

    /// The addresses of all entries, in their order.
    pub fn addresses(&self) -> &[IpAddr] {
        match self {
            Self::Valid(reported) => &reported.addresses,
            Self::Missing | Self::Malformed(_) => &[],
        }
    }

    /// The entries of all interfaces but that of the cluster's own network.
    pub fn further(&self) -> impl Iterator<Item = StatusEntry<'_>> + Clone {
        let all = self.entries();
        all.filter(|entry| entry.interface != FIRST_INTERFACE)
    }

    /// How many DELs of whereabouts a kubelet may have to do for a pod that asked for these networks: one for each
    /// interface with an address that multus reported, or that was asked for and not reported. The cluster's own
    /// network is left out.
    pub fn dels(&self, request: &Request) -> usize {
        let reported = self.further().filter(|entry| !entry.addresses.is_empty());
        let asked = request.networks().len();
        reported.count() + asked.saturating_sub(self.further().count())
    }

    /// Whether any entry has this address.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.addresses().contains(&address)
    }

    /// The entry that has this address on this interface: what the pod *reports*.
    pub fn reported(&self, interface: &str, address: IpAddr) -> Option<StatusEntry<'_>> {
        self.entries()
            .find(|entry| entry.interface == interface && entry.addresses.contains(&address))
    }

    /// Whether every network asked for has an entry of its own (one network asked for twice needs
    /// two). An incomplete status proves nothing about what is missing: multus writes no entry for
    /// a configuration without `cniVersion`.
    pub fn is_complete_for(&self, request: &Request) -> bool {
        let (Self::Valid(_), Request::Valid(wanted)) = (self, request) else {
            return false;
        };
        let mut got: Vec<&str> = self.entries().map(|entry| entry.network).collect();
        got.sort_unstable();
        let mut asked: Vec<&str> = wanted.iter().map(AsRef::as_ref).collect();
        asked.sort_unstable();
        // Both are sorted: walk them together.
        let mut got = got.into_iter().peekable();
        asked.into_iter().all(|name| {
            while got.next_if(|entry| *entry < name).is_some() {}
            got.next_if_eq(&name).is_some()
        })
    }
}

#[derive(Deserialize)]
struct RawEntry {
    name: Option<Box<str>>,
    interface: Option<Box<str>>,
    default: Option<bool>,
    #[serde(default, deserialize_with = "addresses")]
    ips: Box<[IpAddr]>,
}

fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[IpAddr]>, D::Error> {
    let texts = Option::<Vec<Text<'_>>>::deserialize(deserializer)?.unwrap_or_default();
    let address = |text: &Text<'_>| {
        let reason = || D::Error::custom(format!("not an address: {:?}", excerpt(text)));
        parse_address(text).ok_or_else(reason)
    };
    texts.iter().map(address).collect()
}

/// An address, with or without a prefix length behind it.
pub(crate) fn parse_address(text: &str) -> Option<IpAddr> {
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    Some(address.parse::<IpAddr>().ok()?.to_canonical())
}

/// The networks annotation of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// It does not parse; multus would not have started the pod.
    Malformed(Box<str>),
    /// The networks asked for, as status entries name them; none if there is no annotation.
    Valid(Arc<[Box<str>]>),
}

impl Default for Request {
    fn default() -> Self {
        Self::Valid(Arc::default())
    }
}

impl Request {
    /// Reads the annotation of a pod in `namespace`: a JSON list, or `[ns/]name[@interface]`
    /// separated by commas.
    pub fn parse(annotation: &str, namespace: &str) -> Self {
        let text = annotation.trim();
        if text.is_empty() {
            return Self::default();
        }
        let wanted = if text.starts_with('[') || text.starts_with('{') {
            Self::parse_json(text, namespace)
        } else {
            let parts = text.split(',').map(str::trim);
            parts.map(|part| parse_short(part, namespace)).collect()
        };
        match wanted {
            Ok(wanted) => Self::Valid(wanted),
            Err(reason) => Self::Malformed(reason.into()),
        }
    }

    /// The networks asked for, none where the request is malformed.
    pub fn networks(&self) -> &[Box<str>] {
        match self {
            Self::Valid(networks) => networks,
            Self::Malformed(_) => &[],
        }
    }

    fn parse_json(text: &str, namespace: &str) -> Result<Arc<[Box<str>]>, String> {
        #[derive(Deserialize)]
        struct Element {
            name: String,
            namespace: Option<String>,
            #[serde(rename = "interface")]
            _interface: Option<String>,
        }
        let elements: Vec<Element> =
            serde_json::from_str(text).map_err(|e| excerpt(&e.to_string()).to_owned())?;
        let named = elements.iter().map(|element| {
            let own = element.namespace.as_deref().filter(|ns| !ns.is_empty());
            requested(own.unwrap_or(namespace), &element.name)
        });
        named.collect()
    }
}

fn parse_short(text: &str, namespace: &str) -> Result<Box<str>, String> {
    // Behind it may stand the name of the interface.
    let network = text.split_once('@').map_or(text, |(network, _)| network);
    let (namespace, name) = network.split_once('/').unwrap_or((namespace, network));
    requested(namespace.trim(), name.trim())
}

fn requested(namespace: &str, name: &str) -> Result<Box<str>, String> {
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err(format!("not a network: {:?}", excerpt(name)));
    }
    Ok(format!("{namespace}/{name}").into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::{Duration, Instant};

    use super::*;
    use rstest::rstest;

    const STATUS: &str = r#"[
        {"name":"kindnet","interface":"eth0","ips":["10.244.0.7"],"mac":"aa","default":true,"dns":{}},
        {"name":"default/a","interface":"net1","ips":["10.0.0.1","fd00:0:0::0001"],"dns":{}},
        {"name":"default/b","interface":"net2","dns":{}}]"#;

    #[rstest]
    #[case("")]
    #[case("{}")]
    #[case("null")]
    #[case("[null]")]
    #[case(r#"[{"name":1}]"#)]
    #[case(r#"[{"name":"a/b","ips":"10.0.0.1"}]"#)]
    #[case(r#"[{"name":"a/b","ips":["10.0.0.999"]}]"#)]
    #[case(r#"[{"name":"a/b","ips":["10.0.0.1"]}"#)]
    fn what_cannot_be_read_is_malformed_not_empty(#[case] text: &str) {
        assert!(
            matches!(Status::parse(text), Status::Malformed(_)),
            "{text}"
        );
    }

    #[test]
    fn null_and_missing_addresses_are_none() {
        let status = Status::parse(r#"[{"name":"a/b","interface":null,"ips":null}]"#);
        assert_eq!(status.entries().count(), 1);
        assert!(status.addresses().is_empty());
    }

    #[rstest]
    #[case("a", &["ns/a"])]
    #[case("a, other/b@eth1 ,a", &["ns/a", "other/b", "ns/a"])]
    #[case(r#"[{"name":"a"},{"name":"b","namespace":"o","interface":"x","ips":["1.2.3.4"]}]"#, &["ns/a", "o/b"])]
    #[case("", &[])]
    fn requests(#[case] text: &str, #[case] wanted: &[&str]) {
        let request = Request::parse(text, "ns");
        assert!(matches!(request, Request::Valid(_)));
        let got: Vec<_> = request.networks().iter().map(AsRef::as_ref).collect();
        assert_eq!(got, wanted);
    }

    #[rstest]
    #[case("a,,b")]
    #[case("a/b/c")]
    #[case("[{}]")]
    #[case("{\"name\":\"a\"}")]
    #[case("[")]
    fn malformed_requests(#[case] text: &str) {
        assert!(
            matches!(Request::parse(text, "ns"), Request::Malformed(_)),
            "{text}"
        );
    }

    #[rstest]
    #[case("default/a,default/b", true)]
    #[case("default/a", true)]
    #[case("", true)]
    #[case("default/a,default/a", false)]
    #[case("default/c", false)]
    #[case("a/b/c", false)]
    fn a_status_is_complete_when_each_network_asked_for_has_an_entry(
        #[case] request: &str,
        #[case] complete: bool,
    ) {
        let request = Request::parse(request, "default");
        assert_eq!(Status::parse(STATUS).is_complete_for(&request), complete);
        assert!(!Status::Missing.is_complete_for(&request));
    }

    #[test]
    fn a_megabyte_is_read_in_milliseconds() {
        let entry = r#"{"name":"default/a","interface":"net1","ips":["10.0.0.1"]}"#;
        let status = format!("[{}]", vec![entry; 1_000_000 / entry.len()].join(","));
        let request = vec!["default/a"; 100_000].join(",");
        let commas = ",".repeat(1_000_000);
        let begun = Instant::now();
        let status = Status::parse(&status);
        let request = Request::parse(&request, "default");
        assert!(!status.is_complete_for(&request));
        assert!(matches!(Status::parse(&commas), Status::Malformed(_)));
        assert!(matches!(
            Request::parse(&commas, "x"),
            Request::Malformed(_)
        ));
        // A quadratic parser needs minutes here; the bound is wide for slow, unoptimised builds.
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
    }
}

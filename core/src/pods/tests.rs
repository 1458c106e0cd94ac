//! Tests of the ends that the index keeps, gives out and forgets.

#![allow(clippy::unwrap_used)]
use rstest::rstest;
use testkit::fixtures::{PodBuilder, pod, sandbox, starting_status};

use super::*;
use crate::{definitions::Networks, pod::wire::Wire, pool::PoolKey};

const CLAIM: &str = "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f";
/// Nothing is known of the pool, so each report counts.
pub(super) const ANY_SCOPE: Scope<'static> = Scope {
    networks: &Networks::new(),
    range: None,
    definitions: &Definitions::new(),
};

pub(super) fn at(seconds: u64) -> Moment {
    Moment::new(Duration::from_secs(seconds))
}

fn web(uid: &str) -> PodBuilder {
    pod("d", "web-0").uid(uid).node("n").networks("net")
}

pub(super) fn state(pod: PodBuilder) -> PodState {
    state_of(&pod.build())
}

pub(super) fn state_of(pod: &serde_json::Value) -> PodState {
    let text = pod.to_string();
    let pod: Wire = serde_json::from_str(&text).unwrap();
    pod.state().unwrap()
}

/// A row of this owner, without an id.
pub(super) fn row(podref: &str, address: Option<IpAddr>) -> Glance<'_> {
    static POOL: PoolKey = PoolKey {
        namespace: String::new(),
        name: String::new(),
    };
    Glance {
        pool: &POOL,
        range: None,
        address,
        podref: Some(podref),
        sandbox: None,
        interface: None,
    }
}

fn uids(ended: &[Arc<Ended>]) -> Vec<&str> {
    ended.iter().map(|e| &*e.last.uid).collect()
}

/// A StatefulSet makes a pod anew as often as its kubelet rejects it.
#[test]
fn of_pods_that_several_nodes_rejected_one_end_is_kept_for_each_node() {
    let mut index = PodIndex::default();
    for second in 1..1_000 {
        let node = if second % 2 == 0 { "n" } else { "m" };
        let mut pod = web(&second.to_string()).node(node).build();
        pod["status"] = serde_json::json!({"phase": "Failed"});
        index.apply(state_of(&pod), at(second));
    }
    let ended = index.ended(&PodRef::new("d", "web-0").unwrap());
    assert_eq!(uids(&ended), ["997", "998"]);
}

#[test]
fn of_pods_that_were_rejected_one_after_the_other_one_end_is_kept() {
    let mut index = PodIndex::default();
    index.apply(state(web("first").running()), at(0));
    index.delete(state(web("first").running()), at(1));
    let rejected = |uid: &str| {
        let mut pod = web(uid).build();
        pod["status"] = serde_json::json!({"phase": "Failed"});
        state_of(&pod)
    };
    index.begin_list(at(2));
    index.apply(rejected("listed"), at(2));
    index.end_list(at(2));
    for second in 3..1_000 {
        let next = rejected(&second.to_string());
        index.apply(next, at(second)).unwrap();
    }
    let podref = PodRef::new("d", "web-0").unwrap();
    let ended = index.ended(&podref);
    // Nobody saw the births of those in the list.
    assert_eq!(uids(&ended), ["first", "998"]);
    assert_eq!(ended[1].at, at(999));
    assert_eq!(ended[1].listed_at, Some(at(2)));
    // One that had a container may have had a sandbox.
    index.apply(state(web("began").status(starting_status())), at(1_000));
    index.apply(state(web("last").running()), at(1_001));
    index.delete(state(web("last").running()), at(1_002));
    assert_eq!(
        uids(&index.ended(&podref)),
        ["first", "999", "began", "last"]
    );
}

/// The list may show a state from before the sandbox went down.
#[test]
fn a_list_after_the_data_went_back_says_nothing_of_the_sandbox() {
    for went_back in [false, true] {
        let mut index = PodIndex::default();
        if went_back {
            index.distrust(at(0));
        }
        index.begin_list(at(0));
        index.apply(state(web("a").running()), at(1));
        index.end_list(at(1));
        index.apply(state(web("a").ended("Failed")), at(2));
        let ended = index.delete(state(web("a").ended("Failed")), at(3));
        assert_eq!(ended.unwrap().settled, !went_back);
        // A watch shows what the kubelet says now.
        index.apply(state(web("b").running()), at(4));
        let ended = index.delete(state(web("b").ended("Failed")), at(5));
        assert!(ended.unwrap().settled);
    }
}

#[test]
fn old_evidence_goes_unless_its_pod_is_in_work() {
    let mut index = PodIndex::default();
    index.apply(state(web("a").running()), at(0));
    index.delete(state(web("a").running()), at(0));
    let podref = "d/web-0".parse().unwrap();
    index.forget(at(60), at(3_600), KEEP, |end| &*end.last.uid == "a");
    assert_eq!(index.ended(&podref).len(), 1);
    index.forget(at(60), at(599), KEEP, |_| false);
    assert_eq!(index.ended(&podref).len(), 1);
    index.forget(at(0), at(3_600), KEEP, |_| false);
    assert_eq!(index.ended(&podref).len(), 1, "no sweep has looked since");
    index.forget(at(60), at(3_600), KEEP, |_| false);
    assert!(index.ended(&podref).is_empty());
}

/// The doubt about an incarnation of `web-0` that is born at this second and killed at once.
fn doubt(index: &mut PodIndex, second: u64) -> Option<Moment> {
    let born = || web(&second.to_string());
    index.apply(state(born().running()), at(second));
    let ended = index.delete(state(born().running()), at(second));
    ended.unwrap().listed_at
}

/// A sweep sees a row of this owner.
fn see_row(index: &mut PodIndex, podref: &str, second: u64) {
    let row = row(podref, None);
    assert!(!index.glance(&row, ANY_SCOPE, true, at(second)));
}

/// A sweep that found a row of `found`.
fn sweep(index: &mut PodIndex, begun: u64, found: Option<&str>) {
    index.begin_sweep();
    if let Some(podref) = found {
        see_row(index, podref, begun);
    }
    index.end_sweep(at(begun), Duration::from_secs(100));
}

/// Listed at second 10.
fn listed() -> PodIndex {
    let mut index = PodIndex::default();
    index.begin_list(at(0));
    index.end_list(at(10));
    index
}

/// What is done after the list, when the pod is born, and since when there may have been another that nobody saw.
#[rstest]
#[case::after_the_list(|_: &mut PodIndex| {}, 20, Some(10))]
#[case::a_sweep_found_no_row_of_its_name(|it: &mut PodIndex| sweep(it, 110, Some("d/web-1")), 120, None)]
#[case::a_row_of_its_name_may_be_a_predecessors(|it: &mut PodIndex| sweep(it, 110, Some("d/web-0")), 120, Some(10))]
#[case::the_row_is_gone_by_the_next_sweep(|it: &mut PodIndex| { sweep(it, 110, Some("d/web-0")); sweep(it, 130, None); }, 140, None)]
#[case::a_sweep_soon_after_the_list_may_come_before_a_late_add(|it: &mut PodIndex| sweep(it, 109, None), 300, Some(10))]
#[case::a_sweep_that_was_cut_off_counts_for_nothing(|it: &mut PodIndex| { it.begin_sweep(); see_row(it, "d/web-1", 110); }, 120, Some(10))]
#[case::nor_does_what_it_found_count_in_the_next_one(|it: &mut PodIndex| { it.begin_sweep(); see_row(it, "d/web-0", 110); sweep(it, 130, None); }, 140, None)]
// The first of them had the row when the sweep looked.
#[case::a_successor_inherits_it(|it: &mut PodIndex| { doubt(it, 20); sweep(it, 110, None); }, 120, Some(10))]
#[case::after_another_list(|it: &mut PodIndex| { sweep(it, 110, None); it.begin_list(at(115)); it.end_list(at(120)); }, 130, Some(120))]
fn who_is_born_may_have_had_a_predecessor_that_nobody_saw(
    #[case] before: fn(&mut PodIndex),
    #[case] born: u64,
    #[case] since: Option<u64>,
) {
    let mut index = listed();
    before(&mut index);
    assert_eq!(doubt(&mut index, born), since.map(at));
}

#[test]
fn a_row_under_the_name_of_a_pod_without_networks_is_found_too() {
    let mut index = listed();
    let plain = pod("d", "web-0").uid("p").node("n").running();
    index.apply(state(plain.clone()), at(20));
    index.begin_sweep();
    see_row(&mut index, "d/web-0", 110);
    index.end_sweep(at(110), Duration::from_secs(100));
    assert!(index.delete(state(plain), at(115)).is_none());
    assert_eq!(doubt(&mut index, 120), Some(at(10)));
}

/// How long ends are kept in these tests.
const KEEP: Duration = Duration::from_mins(10);

#[test]
fn as_long_as_a_successor_lives_only_ends_that_prove_nothing_are_kept() {
    let mut index = listed();
    for (second, uid, last) in [
        (20, "a", web("a").ended("Succeeded")),
        (30, "b", web("b").running()),
        (40, "c", web("c").ended("Succeeded")),
    ] {
        index.apply(state(web(uid).running()), at(second));
        index.delete(state(last), at(second));
    }
    index.apply(state(web("d").running()), at(50));
    let podref = "d/web-0".parse().unwrap();
    index.forget(at(3_000), at(3_600), KEEP, |end| &*end.last.uid == "c");
    assert_eq!(uids(&index.ended(&podref)), ["b", "c"], "one is needed");
    index.forget(at(3_000), at(3_600), KEEP, |_| false);
    let ended = index.ended(&podref);
    assert_eq!(uids(&ended), ["b"], "its sandbox may run");
    assert_eq!(ended[0].listed_at, Some(at(10)));
}

#[test]
fn the_doubt_of_a_forgotten_end_goes_to_whoever_came_later() {
    let mut index = listed();
    assert_eq!(doubt(&mut index, 20), Some(at(10)));
    let podref: PodRef = "d/web-0".parse().unwrap();
    // Its end was no good one; make it one that was.
    let ends = index.ended.get_mut(&podref).unwrap();
    Arc::make_mut(&mut ends[0]).settled = true;
    sweep(&mut index, 110, None);
    index.apply(state(web("b").running()), at(120));
    index.live.get_mut(podref.as_str()).unwrap().listed_at = None;
    index.forget(at(3_000), at(3_600), KEEP, |_| false);
    assert!(index.ended(&podref).is_empty());
    let ended = index.delete(state(web("b").running()), at(3_700)).unwrap();
    assert_eq!(ended.listed_at, Some(at(10)));
}

/// A name that has only rows of ResourceClaims is no new one: whose they are, nobody knows.
#[test]
fn rows_of_resource_claims_are_no_interfaces() {
    let mut index = PodIndex::default();
    index.begin_sweep();
    for (name, id, interface) in [
        ("d/web-0", sandbox(1), "net1"),
        ("d/web-0", sandbox(1), "net2"),
        ("d/web-0", CLAIM.to_owned(), "dra1"),
        ("d/dra", CLAIM.to_owned(), "dra1"),
    ] {
        let row = Glance {
            sandbox: Some(&id),
            interface: Some(interface),
            ..row(name, None)
        };
        index.glance(&row, ANY_SCOPE, true, at(1));
    }
    index.end_sweep(at(1), Duration::ZERO);
    let counts = ["d/web-0", "d/dra"].map(|name| index.count(name).interfaces());
    assert_eq!(counts, [2, 0]);
    assert!(!index.census.is_first("d/dra"));
}

#[test]
fn an_address_is_reported_by_a_pod_that_lives() {
    let has = |index: &PodIndex, address: &str| {
        let address: IpAddr = address.parse().unwrap();
        index.reports("d/web-0", |its, _| its == address)
    };
    let both = || web("a").reports("net", "net1", &["10.0.0.5", "fd00::5"]);
    let mut index = PodIndex::default();
    assert!(!has(&index, "10.0.0.5"), "nobody is there");
    index.apply(state(both().running()), at(0));
    assert!(has(&index, "10.0.0.5"));
    assert!(has(&index, "fd00::5"));
    assert!(!has(&index, "10.0.0.6"));
    index.apply(state(both().ended("Succeeded")), at(1));
    assert!(!has(&index, "10.0.0.5"), "it ended");
}

#[test]
fn a_pod_of_which_nothing_is_kept_may_report_any_address() {
    let mut index = PodIndex::default();
    index.apply(state(pod("d", "web-0").uid("a").node("n").running()), at(0));
    assert_eq!(index.count_live(), 0);
    assert!(index.reports("d/web-0", |_, _| false));
    assert!(!index.reports("d/web-1", |_, _| true));
}

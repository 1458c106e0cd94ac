//! Rows of ResourceClaims, whose id is the uid of the claim.

// The helpers build what a list answers.
#![allow(clippy::unnecessary_wraps)]

use ipgc_core::{
    breaker::Limits,
    known::Evidence,
    pool::RowCount,
    proof::{KnownResourceClaims, Proof, ResourceClaims},
};

use crate::common::prelude::*;

const CLAIM: &str = "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f";
const OTHER: &str = "ffffffff-0a1b-0a1b-0a1b-0a1b2c3d4e5f";
/// DRANET 1.4 writes this podref for each claim.
const PLACEHOLDER: &str = "default/pod-whereabouts";

/// W of three DELs.
const CLAIM_W: u64 = W + 120;

/// A pool with the row of [`CLAIM`] for 10.0.0.5.
fn pool(owner: &str) -> ObservedPool {
    let rows = [("5", row_value(owner, CLAIM, "net1"))];
    let mut pool = observe(&pool_document("10.0.0.0/24", &rows));
    pool.read_resource_claims();
    pool
}

fn listed(claims: &[(&str, &[&str])]) -> KnownResourceClaims {
    let mut all = ResourceClaims::default();
    for (uid, addresses) in claims {
        all.add(uid, addresses.iter().map(|address| ip(address)));
    }
    Ok(all)
}

fn proof(pool: &ObservedPool, pod: Presence, claims: KnownResourceClaims) -> Proof<'_> {
    let owner = pool.rows()[0].content().unwrap().podref.clone();
    let presence = [(owner, pod)].into();
    pool.begin_proof()
        .conclude(presence)
        .with_resource_claims(claims)
}

/// The verdict at `now`, if the row may not go.
fn judged(proof: &Proof<'_>, known: &Known, now: u64) -> Option<Verdict> {
    let row = &proof.observed().rows()[0];
    let policy = Policy::default();
    proof.release(row, &known.facts(&policy, now)).err()
}

/// The same for a row of this owner, of which neither a pod nor a claim is there.
fn judged_absent(owner: &str, known: &Known, now: u64) -> Option<Verdict> {
    let pool = pool(owner);
    judged(&proof(&pool, Presence::Absent, listed(&[])), known, now)
}

/// Proven absent at 100, with nodes at work until 10,000.
fn long_absent() -> Known {
    Known::default()
        .seen(10)
        .absent(100)
        .on(working(&["node-1", "node-2"], 10_000))
}

#[test]
fn a_row_of_a_sandbox_stays_one() {
    let rows = [("5", row_value(POD, &sandbox(1), "net1"))];
    let mut pool = observe(&pool_document("10.0.0.0/24", &rows));
    pool.read_resource_claims();
    assert_eq!(pool.rows()[0].content().unwrap().resource_claim(), None);
    // It needs no list of claims.
    let nobody_asked = Err("not asked".into());
    let verdict = judged(
        &proof(&pool, Presence::Absent, nobody_asked),
        &long_absent(),
        9_000,
    );
    assert_eq!(verdict, None);
}

#[rstest]
#[case::it_is_there(listed(&[(CLAIM, &[])]), Presence::Absent)]
#[case::another_reports_the_address(listed(&[(OTHER, &["10.0.0.5"])]), Presence::Absent)]
#[case::a_pod_of_its_name_is_there(listed(&[]), Presence::Present(None))]
#[case::with_its_state(listed(&[]), present(pod(PLACEHOLDER)))]
fn it_is_held(#[case] claims: KnownResourceClaims, #[case] pod: Presence) {
    let pool = pool(PLACEHOLDER);
    let verdict = judged(&proof(&pool, pod, claims), &long_absent(), 9_000);
    assert_eq!(verdict, Some(Verdict::Held(Held::ResourceClaim)));
}

#[rstest]
#[case::the_list_failed(Err("503".into()), Presence::Absent)]
#[case::the_pod_could_not_be_read(listed(&[]), Presence::Unknown("503".into()))]
fn an_error_is_no_absence(#[case] claims: KnownResourceClaims, #[case] pod: Presence) {
    let pool = pool(PLACEHOLDER);
    let verdict = judged(&proof(&pool, pod, claims), &long_absent(), 9_000);
    assert_eq!(
        verdict,
        Some(Verdict::Unknown(Unknown::NoProof("503".into())))
    );
}

#[test]
fn a_proof_that_did_not_ask_for_claims_frees_none() {
    let pool = pool(PLACEHOLDER);
    let presence = [(podref(PLACEHOLDER), Presence::Absent)].into();
    let proof = pool.begin_proof().conclude(presence);
    let verdict = judged(&proof, &long_absent(), 9_000);
    assert!(
        matches!(verdict, Some(Verdict::Unknown(Unknown::NoProof(_)))),
        "{verdict:?}"
    );
}

#[test]
fn it_goes_w_after_its_absence_was_proven() {
    let pool = pool(PLACEHOLDER);
    let proof = proof(&pool, Presence::Absent, listed(&[(OTHER, &["10.0.0.6"])]));
    let known = long_absent();
    let early = judged(&proof, &known, 100 + TWO_BEATS + CLAIM_W - 1);
    let stale = stale(early.expect("it went too early"));
    assert_eq!(stale.cause, Cause::Deleted);
    assert_eq!(stale.clearance.grade, Grade::Unwitnessed);
    assert!(!stale.clearance.watched, "the breaker concerns it");
    assert_eq!(stale.clearance.wait, until(100 + TWO_BEATS + CLAIM_W));
    assert_eq!(judged(&proof, &known, 100 + TWO_BEATS + CLAIM_W), None);
}

#[test]
fn its_wait_begins_with_the_proof_of_its_absence() {
    let known = Known::default().seen(10).on(working(&["node-1"], 10_000));
    let verdict = judged_absent(PLACEHOLDER, &known, 9_000);
    let stale = stale(verdict.expect("it went without a wait"));
    assert_eq!(stale.clearance.wait, until(9_000 + TWO_BEATS + CLAIM_W));
}

/// Node-1 at work, and node-2 in this state, whose Lease does not change.
fn beside(state: NodeState) -> Nodes {
    let mut nodes = nodes_with(&[("node-1", node_state()), ("node-2", state)]);
    beat(&mut nodes, "node-1", 0, 10_000);
    hear_nothing(&mut nodes, "node-2", 0, 10_000);
    nodes
}

#[rstest]
#[case::a_silent_node(beside(not_ready()), None, true)]
#[case::a_node_whose_lease_is_old(beside(node_state()), None, true)]
#[case::a_fenced_node(beside(fenced()), None, false)]
#[case::one_that_was_not_heard_yet(nodes_with(&[("node-1", node_state())]), None, true)]
#[case::nodes_are_not_known(Nodes::default(), None, true)]
#[case::no_node(no_nodes(), None, false)]
#[case::the_slice_of_another_node_counts_for_nothing(beside(not_ready()), Some("node-1"), true)]
#[case::the_silent_node_has_the_slice(beside(not_ready()), Some("node-2"), true)]
fn each_node_may_still_run_its_pods(
    #[case] nodes: Nodes,
    #[case] slice: Option<&str>,
    #[case] holds: bool,
) {
    let known = Known::default()
        .seen(10)
        .absent(100)
        .on(nodes)
        .but(|it| it.slice = slice.map(Into::into));
    let verdict = judged_absent(PLACEHOLDER, &known, 9_000);
    assert_eq!(verdict.is_some(), holds);
}

#[test]
fn a_node_that_went_holds_it_for_w() {
    let mut nodes = beside(not_ready());
    nodes.remove("node-2", at(1_000));
    let known = Known::default().seen(10).absent(100).on(nodes);
    let judged = |now| judged_absent(PLACEHOLDER, &known, now);
    assert!(judged(1_000 + CLAIM_W - 1).is_some());
    assert_eq!(judged(1_000 + CLAIM_W), None);
}

/// Newer versions of DRANET write the podref of one of the pods that use the claim. Its end tells nothing of the others.
#[test]
fn the_clean_end_of_one_pod_is_not_enough() {
    let end = ended(reporting(POD, "net1", "10.0.0.5"), 0, true);
    let known = |nodes| {
        Known::of(std::slice::from_ref(&end))
            .seen(10)
            .absent(100)
            .on(nodes)
    };
    let silent = known(beside(not_ready()));
    assert!(judged_absent(POD, &silent, 9_000).is_some());
    let (works, wait) = (known(working(&["node-1"], 10_000)), TWO_BEATS + CLAIM_W);
    assert!(judged_absent(POD, &works, 100 + wait - 1).is_some());
    assert_eq!(judged_absent(POD, &works, 100 + wait), None);
}

/// The row does not tell which pod used the claim: it may be one whose kubelet pulls an image for long.
#[test]
fn a_pod_that_may_outlast_w_holds_it_until_its_node_is_booted_anew() {
    let mut nodes = nodes_with(&[("node-1", booted("m", "a", "1"))]);
    beat(&mut nodes, "node-1", 0, 10_000);
    nodes.note_outlasting("node-1", at(90));
    let known = Known::default().seen(10).absent(100).on(nodes);
    let stale = stale(judged_absent(PLACEHOLDER, &known, 9_000).expect("it went"));
    assert_eq!(stale.clearance.wait, waits_for(&["node-1"]));
    assert_eq!(stale.clearance.endless, Some(at(100 + TWO_BEATS + CLAIM_W)));
    let known = known.but(|it| {
        it.nodes.confirm_boot("node-1", "1", at(4_000), secs(120));
        it.nodes.apply("node-1", booted("m", "b", "2"), at(4_010));
    });
    assert_eq!(judged_absent(PLACEHOLDER, &known, 9_000), None);
}

/// Rows of a ResourceClaim take no DEL of a pod, whether or not they are read.
#[test]
fn they_are_no_interfaces_of_a_pod() {
    let rows = [
        ("5", row_value(POD, &sandbox(1), "net1")),
        ("6", row_value(POD, CLAIM, "dra1")),
        ("7", row_value("default/dra", CLAIM, "dra1")),
    ];
    let mut pool = observe(&pool_document("10.0.0.0/24", &rows));
    for _ in 0..2 {
        let count = RowCount::by_podref(pool.rows());
        assert_eq!(count.len(), 1);
        assert_eq!((count[POD].rows(), count[POD].interfaces()), (1, 1));
        pool.read_resource_claims();
    }
}

#[rstest]
#[case::waits(true, WAITING, true)]
#[case::runs(true, RUNNING, false)]
#[case::has_no_claim(false, WAITING, false)]
fn such_a_pod_is_known_by_its_end(
    #[case] has_claims: bool,
    #[case] container: ContainerState,
    #[case] outlasts: bool,
    #[values(false, true)] in_a_gap: bool,
) {
    let nodes = nodes_with(&[("node-1", node_state())]);
    let mut evidence = Evidence::new(Policy::default(), Limits::default(), nodes);
    let last = pod("default/dra").but(|it| {
        it.has_resource_claims = has_claims;
        it.containers = containers(&[("main", container)]);
    });
    evidence.apply_pod(last.clone(), at(10));
    if in_a_gap {
        evidence.pods.begin_list(at(15));
        evidence.end_pod_list(at(20));
    } else {
        evidence.delete_pod(last, at(20));
    }
    assert_eq!(evidence.nodes.has_outlasting("node-1"), outlasts);
    assert_eq!(evidence.nodes.any_outlasting(), outlasts);
}

#[test]
fn its_node_is_not_made_up() {
    let mut nodes = no_nodes();
    nodes.note_outlasting("node-9", at(10));
    let standing = nodes.standing("node-9", at(10), at(20));
    assert_eq!(standing, Standing::Gone(at(10)));
    // However long the last gap is over, this is not forgotten.
    let (hour, mut nodes) = (3_600, no_nodes());
    nodes.gap(at(0));
    nodes.suspect([], at(0));
    nodes.note_outlasting("node-9", at(50 * hour));
    nodes.forget(secs(48 * hour), secs(W), at(50 * hour + 1));
    nodes.apply("node-9", booted("m", "a", "1"), at(50 * hour + 2));
    assert!(nodes.has_outlasting("node-9"));
    // Before the first list of nodes it may be there, and is then.
    let mut nodes = Nodes::default();
    nodes.note_outlasting("node-9", at(10));
    nodes.apply("node-9", booted("m", "a", "1"), at(20));
    assert!(nodes.has_outlasting("node-9"));
    // Its kubelet reads another name of the machine: it is the same one. But it may be another container on it.
    nodes.apply("node-9", booted("another name", "a", "2"), at(25));
    assert!(nodes.has_outlasting("node-9"));
    assert_eq!(nodes.booted("node-9"), Some(at(25)));
    nodes.apply("node-9", booted("another machine", "b", "3"), at(30));
    assert!(!nodes.has_outlasting("node-9"));
}

/// DRANET 1.4 gives all claims one podref: however many rows it has, none waits for the DELs of others.
#[test]
fn the_rows_of_other_claims_do_not_make_it_wait() {
    let known = Known {
        rows: 200,
        interfaces: 200,
        ..long_absent()
    };
    let verdict = judged_absent(PLACEHOLDER, &known, 100 + TWO_BEATS + CLAIM_W);
    assert_eq!(verdict, None);
}

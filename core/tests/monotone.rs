//! More evidence of life never frees a row, nor brings a free forward; and a wait that may end does.

use crate::common::prelude::*;

/// The present: after everything that the generators make up.
const NOW: u64 = 6_000;
const NEVER: Moment = Moment::new(Duration::MAX);

fn verdict(presence: &Presence, known: &Known, now: u64) -> Verdict {
    known.judge(&pool_with("5"), presence, &Policy::default(), now)
}

/// When the row goes if nothing happens; never where it is held, unknown, or waits for a node.
fn goes(presence: &Presence, known: &Known) -> Moment {
    match verdict(presence, known, NOW) {
        Verdict::Stale(Stale { clearance, .. }) => clearance.wait.until.unwrap_or(NEVER),
        _ => NEVER,
    }
}

/// Any knowledge in which none of the names may be a mirror pod's.
fn plain() -> impl Strategy<Value = Known> {
    any_known_on(&NODES[..2]).prop_map(|mut known| {
        known.longest_grace = known.longest_grace.min(secs(100));
        known.rows = known.rows.min(5);
        for end in &mut known.ended {
            *end = but(end, |end| {
                end.last.mirror = false;
                if end.last.node.is_none() {
                    // Nobody writes the status of a pod that was not scheduled.
                    end.last.status = Status::Missing;
                }
            });
        }
        known
    })
}

/// The same, and node-1 is in this state by now.
fn with_node(known: &Known, state: NodeState) -> Known {
    let known = known.clone();
    known.but(|it| it.nodes.apply("node-1", state, at(NOW)))
}

/// The effect of a gap.
fn gap(nodes: &mut Nodes) {
    let names: Vec<_> = nodes.existing().map(|(name, _)| name.to_owned()).collect();
    nodes.gap(at(NOW));
    nodes.suspect(names.iter().map(String::as_str), at(NOW));
}

/// What is known, and the same with less certain evidence, by any number; nothing where it makes no difference.
type Doubt = fn(Known, u64) -> Option<[Known; 2]>;

#[rstest]
#[case::a_node_that_is_not_fenced(|it: Known, _: u64| Some([with_node(&it, fenced()), with_node(&it, not_ready())]))]
#[case::a_node_that_falls_silent(|mut it: Known, number: u64| {
    it.nodes.apply("node-1", node_state(), at(3_000));
    beat(&mut it.nodes, "node-1", 3_000 + number % 200 * 10, NOW);
    let silent = with_node(&it, not_ready());
    Some([it, silent])
})]
#[case::a_gap(|it: Known, _: u64| {
    let mut after = it.clone();
    gap(&mut after.nodes);
    for end in &mut after.ended {
        *end = but(end, |end| end.gap_at = Some(at(NOW)));
    }
    // Until the nodes after a gap are known, all of them block.
    it.nodes.pending_gap().is_none().then_some([it, after])
})]
#[case::a_watch_that_is_not_heard(|it: Known, _: u64| Some([true, false].map(|fresh| Known { fresh, ..it.clone() })))]
#[case::an_end_that_is_less_certain(|it: Known, number: u64| {
    // A fence is better than the kubelet's word.
    let known = with_node(&it, node_state());
    let mut doubtful = known.clone();
    let which = usize::try_from(number / 2).unwrap() % known.ended.len().max(1);
    let end = doubtful.ended.get_mut(which)?;
    *end = but(end, |end| match number % 2 {
        0 => end.listed_at = end.listed_at.max(Some(end.at)),
        _ => end.settled = false,
    });
    Some([known, doubtful])
})]
#[case::a_row_seen_later(|it: Known, number: u64| {
    let seen = it.sighting.unwrap_or(Sighting { first: at(100), while_absent: None });
    let later = secs(number % 1_000);
    let late = Sighting { first: seen.first + later, while_absent: seen.while_absent.map(|absent| absent + later) };
    Some([seen, late].map(|sighting| Known { sighting: Some(sighting), ..it.clone() }))
})]
#[case::a_row_that_was_not_seen(|it: Known, _: u64| {
    let never = Known { sighting: None, ..it.clone() };
    Some([it, never])
})]
#[case::more_rows_and_longer_graces(|it: Known, number: u64| {
    let more = Known {
        rows: it.rows + usize::try_from(number % 4).unwrap(),
        longest_grace: it.longest_grace + secs(number % 500),
        ..it.clone()
    };
    Some([it, more])
})]
fn less_certain_evidence_never_frees_earlier(#[case] doubt: Doubt) {
    let config = ProptestConfig::with_cases(256);
    let number = any::<u64>();
    proptest!(config, |(known in plain(), presence in any_presence(), number in number)| {
        if let Some([sure, doubtful]) = doubt(known, number) {
            prop_assert!(goes(&presence, &doubtful) >= goes(&presence, &sure));
        }
    });
}

fn any_presence() -> impl Strategy<Value = Presence> {
    prop_oneof![Just(Presence::Absent), any_present()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_pod_that_is_there_never_frees_before_one_that_is_not(known in plain(), state in any_pod()) {
        // Its own end is evidence of another kind.
        let known = Known { living: None, ..known };
        let there = goes(&present(state), &known);
        prop_assert!(there >= goes(&Presence::Absent, &known));
        prop_assert!(goes(&Presence::Present(None), &known) >= there);
    }

    #[test]
    fn a_pod_that_reports_the_address_never_frees_before_one_that_does_not(
        known in plain(),
        state in any_pod(),
    ) {
        let reports = state.clone().but(|it| it.status = status(&[("net1", &["10.0.0.5"])]));
        prop_assert!(goes(&present(reports), &known) >= goes(&present(state), &known));
    }

    #[test]
    fn a_container_that_runs_never_frees(known in plain(), state in any_pod()) {
        let runs = state.clone().but(|it| it.containers = containers(&[("main", RUNNING)]));
        prop_assert!(goes(&present(runs), &known) >= goes(&present(state), &known));
    }

    #[test]
    fn a_node_that_exists_never_frees_before_one_that_is_gone(
        known in plain(),
        presence in any_presence(),
        gone_at in 3_000u64..NOW,
    ) {
        let mut gone = known;
        gone.nodes.remove("node-1", at(gone_at));
        let mut back = gone.clone();
        back.nodes.apply("node-1", node_state(), at(NOW));
        // Where it was gone for the whole wait, nothing is left to wait for.
        prop_assume!(goes(&presence, &gone) > at(NOW));
        prop_assert!(goes(&presence, &back) >= goes(&presence, &gone));
    }

    #[test]
    fn one_more_incarnation_that_did_not_report_the_row_never_frees(
        known in plain(),
        presence in any_presence(),
        more in any_end(),
    ) {
        let more = but(&more, |end| {
            end.last.status = status(&[("net1", &["10.0.0.6"])]);
            end.last.mirror = false;
            end.last.name_may_return = true;
            // Had the row been seen with it, that would be evidence of its own: the row is older than it looks.
            end.sandboxes = Sandboxes::default();
        });
        let mut longer = known.clone();
        longer.ended.push(more);
        prop_assert!(goes(&presence, &longer) >= goes(&presence, &known));
    }

    #[test]
    fn a_mirror_never_frees_before_a_plain_pod(
        known in plain(),
        which in any::<prop::sample::Index>(),
    ) {
        prop_assume!(!known.ended.is_empty());
        let mut known = known;
        // A fence is better than the kubelet's word.
        known.nodes.apply("node-1", node_state(), at(NOW));
        let mut mirror = known.clone();
        let end = &mut mirror.ended[which.index(known.ended.len())];
        *end = but(end, |end| end.last.mirror = true);
        prop_assert!(goes(&Presence::Absent, &mirror) >= goes(&Presence::Absent, &known));
    }

    #[test]
    fn a_sibling_that_the_pod_reports_with_this_sandbox_never_frees(
        known in plain(),
        state in any_pod(),
        sibling in any_sibling(),
    ) {
        let state = PodState { status: status(&[("net1", &["10.0.0.6"])]), ..state };
        let own = RowContent {
            address: ip("10.0.0.6"),
            sandbox: sandbox(1).into(),
            ..sibling
        };
        let mut more = known.clone();
        more.siblings.get_or_insert_default().push(own);
        let presence = present(state);
        prop_assert!(goes(&presence, &more) >= goes(&presence, &known));
    }

    /// Where the kubelets of all nodes are at work, the watch is heard and the row does not change,
    /// every row of an absent pod goes whose DELs a kubelet gets through, and the moment that was named for it never recedes.
    #[test]
    fn a_wait_that_may_end_does(known in plain(), first in 0u64..NOW, step in 1u64..300) {
        let interfaces = known.interfaces.min(2);
        let mut known = Known { fresh: true, living: None, interfaces, ..known };
        known.sighting = Some(Sighting { first: at(first), while_absent: Some(at(first)) });
        for end in &mut known.ended {
            let grace = &mut Arc::make_mut(end).last.termination_grace;
            *grace = grace.map(|grace| grace.min(secs(3_600)));
        }
        known.nodes.retain(|_| true, at(NOW));
        gap(&mut known.nodes);
        let names: Vec<_> = known.nodes.existing().map(|(name, _)| name.to_owned()).collect();
        let mut named = None;
        let mut freed = false;
        for now in (NOW..NOW + 12_000).step_by(10) {
            for name in &names {
                known.nodes.apply(name, node_state(), at(now));
                known.nodes.note_lease(name, Some(&now.to_string()), at(now), at(now));
            }
            if (now / 10) % step != 0 || now < NOW + 30 {
                continue;
            }
            let Verdict::Stale(stale) = verdict(&Presence::Absent, &known, now) else {
                panic!("not stale");
            };
            if stale.clearance.endless.is_some() {
                prop_assert!(named.is_none());
                return Ok(());
            }
            let wait = stale.clearance.wait;
            prop_assert!(wait.is_timed(), "waits for a node at work");
            let moment = wait.until.unwrap();
            prop_assert!(named.is_none_or(|named| moment <= named), "{:?} {:?}", named, moment);
            named = Some(moment);
            freed |= moment <= at(now);
        }
        prop_assert!(freed, "{:?}", named);
    }
}

fn spellings(address: std::net::Ipv6Addr) -> Vec<String> {
    let segments = address.segments();
    let join = |format: fn(&u16) -> String| {
        let segments: Vec<_> = segments.iter().map(format).collect();
        segments.join(":")
    };
    vec![
        address.to_string(),
        address.to_string().to_uppercase(),
        join(|segment| format!("{segment:x}")),
        join(|segment| format!("{segment:04X}")),
        format!("{address}/64"),
    ]
}

proptest! {
    #[test]
    fn the_spelling_of_an_address_never_changes_a_verdict(
        known in any_known(),
        net: u16,
        offset: u64,
        reported in prop::option::of(any::<u64>()),
        is_there: bool,
    ) {
        let base = std::net::Ipv6Addr::from(u128::from(net) << 112);
        let at_offset = |offset: u64| (u128::from(base) + u128::from(offset)).into();
        // Its own address, or another one.
        let reports: std::net::Ipv6Addr = at_offset(reported.unwrap_or(offset));
        let mut verdicts = Vec::new();
        for range in spellings(base).into_iter().filter(|range| !range.contains('/')) {
            for key in [offset.to_string(), offset.cast_signed().to_string()] {
                let row = row_value(POD, &sandbox(1), "net1");
                let pool = observe(&pool_document(&format!("{range}/64"), &[(&key, row)]));
                for spelling in spellings(reports) {
                    let state = reporting(POD, "net1", &spelling);
                    let mut known = known.clone();
                    for end in &mut known.ended {
                        *end = but(end, |end| end.last.status = state.status.clone());
                    }
                    let presence = if is_there { present(state) } else { Presence::Absent };
                    verdicts.push(known.judge(&pool, &presence, &Policy::default(), NOW));
                }
            }
        }
        verdicts.dedup();
        prop_assert_eq!(verdicts.len(), 1);
    }
}

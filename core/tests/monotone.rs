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

/// The effect of a gap.
fn gap(nodes: &mut Nodes) {
    let names: Vec<_> = nodes.existing().map(|(name, _)| name.to_owned()).collect();
    nodes.gap(at(NOW));
    nodes.suspect(names.iter().map(String::as_str), at(NOW));
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
    fn a_node_that_is_not_fenced_never_frees_before_one_that_is(
        known in plain(),
        presence in any_presence(),
    ) {
        let (mut with, mut without) = (known.clone(), known);
        with.nodes.apply("node-1", fenced(), at(NOW));
        without.nodes.apply("node-1", not_ready(), at(NOW));
        prop_assert!(goes(&presence, &without) >= goes(&presence, &with));
    }

    #[test]
    fn a_node_that_falls_silent_never_frees_before_one_at_work(
        known in plain(),
        presence in any_presence(),
        begin in 0u64..200,
    ) {
        let mut works = known;
        works.nodes.apply("node-1", node_state(), at(3_000));
        beat(&mut works.nodes, "node-1", 3_000 + begin * 10, NOW);
        let mut silent = works.clone();
        silent.nodes.apply("node-1", not_ready(), at(NOW));
        prop_assert!(goes(&presence, &silent) >= goes(&presence, &works));
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
    fn a_gap_never_frees(known in plain(), presence in any_presence()) {
        // Until the nodes after a gap are known, all of them block.
        prop_assume!(known.nodes.pending_gap().is_none());
        let mut after = known.clone();
        gap(&mut after.nodes);
        for end in &mut after.ended {
            *end = but(end, |end| end.gap_at = Some(at(NOW)));
        }
        prop_assert!(goes(&presence, &after) >= goes(&presence, &known));
    }

    #[test]
    fn a_watch_that_is_not_heard_never_frees(known in plain(), presence in any_presence()) {
        let heard = Known { fresh: true, ..known };
        let silent = Known { fresh: false, ..heard.clone() };
        prop_assert!(goes(&presence, &silent) >= goes(&presence, &heard));
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
    fn an_end_that_is_less_certain_never_frees(
        known in plain(),
        presence in any_presence(),
        which in any::<prop::sample::Index>(),
        listed in any::<bool>(),
    ) {
        prop_assume!(!known.ended.is_empty());
        let mut known = known;
        // A fence is better than the kubelet's word.
        known.nodes.apply("node-1", node_state(), at(NOW));
        let mut doubtful = known.clone();
        let end = &mut doubtful.ended[which.index(known.ended.len())];
        *end = but(end, |end| {
            if listed {
                end.listed_at = end.listed_at.max(Some(end.at));
            } else {
                end.settled = false;
            }
        });
        prop_assert!(goes(&presence, &doubtful) >= goes(&presence, &known));
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
    fn a_row_seen_later_never_frees_earlier(
        known in plain(),
        presence in any_presence(),
        later in 0u64..1_000,
    ) {
        let seen = known.sighting.unwrap_or(Sighting { first: at(100), while_absent: None });
        let early = Known { sighting: Some(seen), ..known };
        let late = Sighting {
            first: seen.first + secs(later),
            while_absent: seen.while_absent.map(|absent| absent + secs(later)),
        };
        let late = Known { sighting: Some(late), ..early.clone() };
        let never = Known { sighting: None, ..early.clone() };
        prop_assert!(goes(&presence, &late) >= goes(&presence, &early));
        prop_assert!(goes(&presence, &never) >= goes(&presence, &early));
    }

    #[test]
    fn more_rows_and_longer_graces_never_free_earlier(
        known in plain(),
        presence in any_presence(),
        rows in 0usize..4,
        grace in 0u64..500,
    ) {
        let more = Known {
            rows: known.rows + rows,
            longest_grace: known.longest_grace + secs(grace),
            ..known.clone()
        };
        prop_assert!(goes(&presence, &more) >= goes(&presence, &known));
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

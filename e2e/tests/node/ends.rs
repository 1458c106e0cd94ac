//! How pods end on nodes that live: graceful, forced, completed, evicted, with and without DEL.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use e2e::{
    Result,
    audit::Request,
    cluster::create,
    node::install::ACCOUNT,
    wait::{self, patiently},
};
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::StatefulSet, batch::v1::Job};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use rand::RngExt as _;
use serde_json::json;

use crate::{
    stage::Stage,
    support::{Apart, COOLDOWN, LEASE, LOST_DEL, PATIENCE, SWEEP, Scene, witnessed},
    wanted::Wanted,
};

/// A graceful end of which nothing goes wrong: the kubelet's DEL frees all, ipgc nothing.
pub async fn graceful_delete_leaves_nothing_to_do(stage: Arc<Stage>) -> Result<()> {
    let scene = Scene::new(&stage, "graceful").await?;
    scene.network("net-a", "10.101.0.0/24").await?;
    let audit = stage.tier.plane().audit();
    let mark = audit.mark()?;
    let names: Vec<String> = (0..6).map(|number| format!("web-{number}")).collect();
    let starting = names.iter().map(|name| {
        let wanted = Wanted::pod(name, &["net-a"]);
        let scene = &scene;
        async move { scene.run(&wanted).await }
    });
    let addresses = try_join_all(starting).await?.concat();
    assert_eq!(addresses.len(), names.len());
    let findings = scene.findings().await?;
    assert!(findings.is_empty(), "of pods that live: {findings:#?}");
    for name in &names {
        scene.namespace.delete_pod(name, None).await?;
    }
    for name in &names {
        scene.namespace.pod_gone(name, PATIENCE).await?;
    }
    for address in addresses {
        scene.silent(address).await?;
    }
    let over = Timestamp::now();
    // The row of a lost DEL waits for W, if its pod was there before ipgc: another one of its name may have been, too.
    scene.ends_clean(witnessed(1) + LEASE + PATIENCE).await?;
    let ours = |line: &str| line.contains(ACCOUNT) && line.contains("10.101.0.");
    let (mut asked, _) = audit.follow(mark, ours)?;
    asked.retain(|one| !["get", "list", "watch"].contains(&one.verb.as_str()));
    let early = |received: &str| !received.parse::<Timestamp>().is_ok_and(|at| at > over);
    // An event frees nothing: a node may be silent for a while under that load, and hold the row of a lost DEL.
    let is_event = |one: &&Request| one.resource == "events";
    let mut premature = asked.iter().filter(|one| early(&one.received));
    for event in premature.clone().filter(is_event) {
        println!("     graceful: told early: {}", event.body["note"]);
    }
    let premature = premature.any(|one| !is_event(&one));
    assert!(!premature, "DEL was there for that: {asked:#?}");
    // All scenarios begin at once, and whereabouts does one thing at a time for all nodes: under that load it may lose
    // a DEL. The rows that the lost DEL left are freed once no sandbox has their addresses.
    let left = asked.iter().filter(|one| one.resource == "ippools").count();
    println!("     graceful: DEL left {left} of {} rows", names.len());
    assert!(left <= 1, "DEL was there for that: {asked:#?}");
    Ok(())
}

/// The plugin cannot reach the server when the pod ends: DEL burns its minute and reports success. The
/// sandbox is stopped by then, as the pod's end shows, and the row goes after the cooldown. The pods are a
/// ReplicaSet's, whose names never return: it makes no difference how long ipgc has been there.
pub async fn lost_del_is_freed_after_the_cooldown(stage: Arc<Stage>) -> Result<()> {
    const PODS: usize = 3;
    let scene = Scene::new(&stage, "lost").await?;
    let network = scene.network_apart("net-a", "10.102.0.0/24").await?;
    let wanted = Wanted::pod("web", &["net-a"]);
    scene.replicas(&wanted, PODS).await?;
    let mut addresses: Vec<_> = scene.rows().await?.into_iter().map(|row| row.0).collect();
    assert_eq!(addresses.len(), PODS);
    for address in &addresses {
        scene.answers(*address).await?;
    }
    network.lose()?;
    scene.scale(0).await?;
    let none = || scene.pods();
    wait::until_state("the pods to be gone", LOST_DEL + PATIENCE, none, |pods| {
        *pods == (0, 0)
    })
    .await?;
    let gone = Instant::now();
    tokio::time::sleep(COOLDOWN + Duration::from_secs(8)).await;
    let slow = scene.rows().await?.len();
    println!(
        "     lost DEL: {} of {PODS} free within 10 s of the last pod's end",
        PODS - slow
    );
    // A kubelet on a busy machine may tell of a sandbox that is down before the pod is at its end, and then
    // nothing proves that it is the last one: such a row waits for W.
    let is_quick = slow < PODS || stage.under_fire();
    assert!(is_quick, "not one went after the cooldown");
    scene.empty(witnessed(1) + LEASE + PATIENCE).await?;
    println!(
        "     lost DEL: the last one after {:.0} s",
        gone.elapsed().as_secs_f64()
    );
    let mut freed = scene.freed().await?;
    freed.sort();
    addresses.sort();
    assert_eq!(freed, addresses);
    // They are given out again.
    network.mend()?;
    let again = scene.run(&Wanted::pod("late", &["net-a"])).await?;
    assert!(addresses.contains(&again[0]), "{again:?}");
    scene.namespace.delete_pod("late", None).await?;
    scene.ends_clean(PATIENCE).await
}

/// By force, and the kubelet lives: it stops the sandbox by itself. Where DEL is lost, the row waits for
/// all of W; where it is not, DEL frees it and ipgc nothing.
pub async fn forced_delete_with_a_live_kubelet(stage: Arc<Stage>) -> Result<()> {
    let scene = Scene::new(&stage, "forced").await?;
    let network = scene.network_apart("net-a", "10.103.0.0/24").await?;
    scene.network("net-b", "10.104.0.0/24").await?;
    let lost = scene.run(&Wanted::pod("lost", &["net-a"])).await?;
    let heard = scene.run(&Wanted::pod("heard", &["net-b"])).await?;
    network.lose()?;
    let deleted = Instant::now();
    scene.namespace.delete_pod("lost", Some(0)).await?;
    scene.namespace.delete_pod("heard", Some(0)).await?;
    for address in lost.iter().chain(&heard) {
        scene.silent(*address).await?;
    }
    // Not before its time, though no sandbox has the address any more.
    scene.keeps_rows(("lost", 1), deleted, witnessed(1)).await?;
    // The kubelet's Lease has to be seen to change first.
    scene.ends_clean(LEASE + PATIENCE).await?;
    println!(
        "     forced: free {:.0} s after the deletion",
        deleted.elapsed().as_secs_f64()
    );
    assert_eq!(scene.freed().await?, lost, "the other one was DEL's");
    Ok(())
}

/// Three DELs are lost, each takes its minute, and the kubelet gives a try two: it tries again and again, and
/// the first interface answers, also when the pod is deleted by force in the middle of that. Its rows are held
/// until the plugin reaches the server again and DEL frees them.
pub async fn forced_while_the_kubelet_tries_again(stage: Arc<Stage>) -> Result<()> {
    let scene = Scene::new(&stage, "again").await?;
    let network = scene.network_apart("net-a", "10.129.0.0/24").await?;
    for (name, range) in [("net-b", "10.130.0.0/24"), ("net-c", "10.132.0.0/24")] {
        let ipam = json!({
            "type": "whereabouts", "range": range, "kubernetes": {"kubeconfig": network.path()},
        });
        let config = Scene::config(name, &ipam);
        scene.namespace.network_attachment(name, &config).await?;
    }
    // The kubelet of the other node is restarted by a scenario beside this one.
    let node = &stage.tier.nodes()[0];
    let wanted = Wanted::pod("web", &["net-a", "net-b", "net-c"]).on(node);
    let addresses = scene.run(&wanted).await?;
    assert_eq!(addresses.len(), 3);
    network.lose()?;
    scene.namespace.delete_pod("web", None).await?;
    let first = || async { Ok(stage.detector.holders(addresses[0])) };
    let answers = |holders: &Vec<_>| holders.len() == 1;
    let second_try = LOST_DEL * 2 + Duration::from_secs(30);
    wait::holds_for("the first interface", second_try, first, answers).await?;
    scene.namespace.delete_pod("web", Some(0)).await?;
    let gone = Instant::now();
    let both = || async { Ok((first().await?, scene.rows().await?.len())) };
    let held = |(holders, rows): &(Vec<_>, usize)| answers(holders) && *rows == 3;
    let beyond = witnessed(3) + LEASE + Duration::from_secs(60);
    wait::holds_for("the first interface and its row", beyond, both, held).await?;
    println!(
        "     three lost DELs: the first interface answers {:.0} s after its pod went",
        gone.elapsed().as_secs_f64()
    );
    // Told once W is over for the copy that writes, which may have been killed.
    let pod = format!("{}/web", scene.namespace.name);
    let told = || scene.told("IPAddressHeldUnfenced");
    let patience = PATIENCE + stage.delay();
    wait::until_state("an event", patience, told, |told| {
        told.iter().any(|note| note.contains(&pod))
    })
    .await?;
    network.mend()?;
    scene.ends_clean(LOST_DEL * 4 + PATIENCE).await?;
    assert!(scene.freed().await?.is_empty(), "it was not ipgc's to free");
    Ok(())
}

/// A pod is deleted by force while its postStart hook runs. The kubelet does not break that off, and the sandbox keeps its
/// address for longer than W. Then DEL frees the row.
pub async fn forced_while_a_hook_runs(stage: Arc<Stage>) -> Result<()> {
    let scene = Scene::new(&stage, "hook").await?;
    scene.network("net-a", "10.133.0.0/24").await?;
    // The kubelet of the other node is restarted by a scenario beside this one.
    let node = &stage.tier.nodes()[0];
    let mut wanted = Wanted::pod("web", &["net-a"]).on(node);
    let hook = witnessed(1) + LEASE + Duration::from_secs(120);
    let hook = ["/pause", "exit", &hook.as_secs().to_string()];
    let container = &mut wanted.template["spec"]["containers"][0];
    container["lifecycle"] = json!({"postStart": {"exec": {"command": hook}}});
    scene.create(&wanted).await?;
    let address = scene.first_address(PATIENCE).await?;
    // Multus reports the address a moment later.
    tokio::time::sleep(Duration::from_secs(10)).await;
    scene.namespace.delete_pod("web", Some(0)).await?;
    let both = || async {
        let holders = stage.detector.holders(address);
        Ok((holders.len(), scene.rows().await?.len()))
    };
    let beyond = witnessed(1) + LEASE + Duration::from_secs(30);
    wait::holds_for("the sandbox and its row", beyond, both, |held| {
        *held == (1, 1)
    })
    .await?;
    scene
        .ends_clean(Duration::from_secs(120) + PATIENCE)
        .await?;
    assert!(scene.freed().await?.is_empty(), "it was not ipgc's to free");
    Ok(())
}

/// A Job completes, and its pod stays. DEL is lost: the pod holds its address until it has been at its
/// end for long enough.
pub async fn completed_job_gives_its_address_back(stage: Arc<Stage>) -> Result<()> {
    let scene = Scene::new(&stage, "job").await?;
    let network = scene.network_apart("net-a", "10.105.0.0/24").await?;
    let wanted = Wanted::pod("work", &["net-a"]).args(&["exit", "8"]);
    let mut template = wanted.template;
    template["spec"]["restartPolicy"] = "Never".into();
    let job = json!({"metadata": {"name": "work"}, "spec": {"template": template}});
    let jobs: &Api<Job> = &scene.namespace.api();
    create(jobs, job).await?;
    let done = || async move {
        let job = jobs.get("work").await?;
        Ok(job.status.and_then(|status| status.succeeded) == Some(1))
    };
    ended_pod_gives_its_address_back(&scene, &network, "the job to be done", done).await
}

/// The scenario's pod, whose DEL is lost, ends and stays.
async fn ended_pod_gives_its_address_back<F: Future<Output = Result<bool>>>(
    scene: &Scene,
    network: &Apart,
    end: &str,
    has_come: impl Fn() -> F,
) -> Result<()> {
    let address = scene.first_address(PATIENCE).await?;
    network.lose()?;
    wait::until_state(end, LOST_DEL + PATIENCE * 2, has_come, |it| *it).await?;
    // `--grace` from the end.
    scene
        .ends_clean(Duration::from_secs(120) + SWEEP + PATIENCE)
        .await?;
    assert_eq!(scene.freed().await?, [address]);
    assert_eq!(scene.pods().await?, (0, 1), "ipgc deletes no pods");
    Ok(())
}

/// The kubelet evicts a pod that writes too much, and its object stays as Failed. DEL is lost.
pub async fn evicted_pod_gives_its_address_back(stage: Arc<Stage>) -> Result<()> {
    let scene = Scene::new(&stage, "evicted").await?;
    let network = scene.network_apart("net-a", "10.106.0.0/24").await?;
    // The kubelet of the other node is restarted by a scenario beside this one, and measures volumes once a minute.
    let node = &stage.tier.nodes()[0];
    let wanted = Wanted::pod("greedy", &["net-a"]).on(node);
    let mut wanted = wanted.args(&["fill", "/data/file", "20"]);
    let spec = &mut wanted.template["spec"];
    spec["volumes"] = json!([{"name": "data", "emptyDir": {"sizeLimit": "5Mi"}}]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    scene.create(&wanted).await?;
    let pods = &scene.namespace.pods();
    let evicted = || async move {
        let pod = pods.get("greedy").await?;
        let reason = pod.status.and_then(|status| status.reason);
        Ok(reason.as_deref() == Some("Evicted"))
    };
    ended_pod_gives_its_address_back(&scene, &network, "the eviction", evicted).await
}

/// A pod is deleted, and its kubelet restarted, while the second interface is still being set up: the first
/// address stays in use, though the kubelet knows of no sandbox and lets the pod go. The detector reports every
/// row that is freed while its address is in use.
pub async fn deleted_while_it_is_set_up(stage: Arc<Stage>) -> Result<()> {
    let scene = Scene::new(&stage, "setup").await?;
    scene.network("net-a", "10.109.0.0/24").await?;
    let network = scene.network_apart("net-b", "10.110.0.0/24").await?;
    // Its ADD gives up after a minute or two.
    network.lose()?;
    let node = &stage.tier.nodes()[1];
    scene
        .create(&Wanted::pod("web", &["net-a", "net-b"]).on(node))
        .await?;
    let address = scene.first_address(PATIENCE * 2).await?;
    scene.namespace.delete_pod("web", None).await?;
    node.kill_kubelet().await?;
    node.start_kubelet().await?;
    scene
        .namespace
        .pod_gone("web", LOST_DEL * 3 + PATIENCE)
        .await?;
    let gone = Instant::now();
    let holders = stage.detector.holders(address);
    assert_eq!(holders.len(), 1, "nothing was left that could be harmed");
    // The kubelet has forgotten it; the runtime waits for the plugin's ADD and then for its DEL.
    scene.silent_within(address, LOST_DEL * 4).await?;
    println!(
        "     set-up cut: the first interface answered for {:.0} s after the pod was gone",
        gone.elapsed().as_secs_f64()
    );
    network.mend()?;
    scene.ends_clean(witnessed(2) + LEASE + PATIENCE).await
}

/// A StatefulSet goes up and down, and some of its pods go by force. Each address is some pod's own, pods
/// never hang, and in the end nothing is left.
pub async fn stateful_set_up_and_down(stage: Arc<Stage>) -> Result<()> {
    let scene = Scene::new(&stage, "churn").await?;
    scene.network("net-a", "10.107.0.0/24").await?;
    scene.network("net-b", "10.108.0.0/24").await?;
    churn(&scene, 6, Rows::Stay).await?;
    // Rows that a forced deletion left wait for the W of two rows.
    scene.ends_clean(witnessed(2) + LEASE + PATIENCE).await
}

/// Whether somebody beside ipgc removes rows of pods that live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    Stay,
    MayGo,
}

/// Up and down this many times, on the networks `net-a` and `net-b`.
pub async fn churn(scene: &Scene, rounds: usize, live_rows: Rows) -> Result<()> {
    const REPLICAS: usize = 4;
    let set = json!({
        "metadata": {"name": "web"},
        "spec": {
            "serviceName": "web", "replicas": 0, "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "web"}},
            "template": Wanted::pod("web", &["net-a", "net-b"]).template,
        },
    });
    let sets: &Api<StatefulSet> = &scene.namespace.api();
    create(sets, set).await?;
    let scale = |replicas: usize| async move {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let (parameters, patch) = (&PatchParams::default(), &patch);
        patiently(PATIENCE, || async move {
            Ok(sets.patch("web", parameters, patch).await?)
        })
        .await?;
        // Of the pods themselves: the set's status does not know at once that one was deleted by force.
        let ready = || patiently(PATIENCE, || scene.pods());
        let what = format!("{replicas} pods of the set");
        let wanted = (replicas, replicas);
        wait::until_state(&what, PATIENCE * 2, ready, |counts| *counts == wanted).await
    };
    for round in 0..rounds {
        scale(REPLICAS).await?;
        let rows = patiently(PATIENCE, || scene.rows()).await?;
        let live = 2 * REPLICAS;
        let all_there = rows.len() >= live || live_rows == Rows::MayGo;
        assert!(all_there, "round {round}: {rows:?}");
        // One or two by force; their successors come under the same names.
        let victims: Vec<usize> = {
            let mut rng = rand::rng();
            let first = rng.random_range(0..REPLICAS);
            let both = rng.random_bool(0.5);
            std::iter::once(first)
                .chain(both.then_some((first + 1) % REPLICAS))
                .collect()
        };
        for victim in victims {
            let name = &format!("web-{victim}");
            patiently(PATIENCE, || scene.namespace.delete_pod(name, Some(0))).await?;
        }
        if round % 2 == 0 {
            scale(REPLICAS).await?;
        }
        scale(0).await?;
    }
    sets.delete("web", &DeleteParams::default()).await?;
    Ok(())
}

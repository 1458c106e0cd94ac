//! The binary `ipgc`, as the manifests run it: its own process, its own rights.

use std::{process::Command, time::Duration};

use e2e::{
    Cluster, ControlPlane, Result,
    access::Access,
    cluster::unique,
    control_plane::Options,
    node::install::NAMESPACE,
    ours::{Ipgc, account, build, clean, program},
    pods::End,
    process::{fed, within},
    wait,
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, api::PostParams};
use tokio::sync::OnceCell;

use crate::support::{COOLDOWN, Scene};

/// Promised time from SIGTERM to the end.
pub const SHUTDOWN: Duration = Duration::from_secs(10);

/// The output and the exit code of a command.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// `ipgc` with these arguments and a clean environment, told this on standard input, to its end.
pub async fn ipgc(args: &[&str], typed: &str) -> Result<Said> {
    let mut command = clean(Command::new(program().await?));
    command.args(args);
    // In a cluster where no pod changes, the watch is heard first by a bookmark, a minute after the start.
    let patience = wait::PATIENCE * 2 + Duration::from_mins(2);
    let output = fed(&format!("ipgc {args:?}"), command, typed, patience).await?;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ok(Said {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    })
}

/// Ends it as the kubelet does, in the time that is promised. Returns its log.
pub async fn terminated(ipgc: Ipgc) -> Result<String> {
    let (status, took, log) = ipgc.terminate(SHUTDOWN * 2).await?;
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(took < SHUTDOWN, "{took:?}\n{log}");
    Ok(log)
}

/// `ipgc run` as its own process.
pub async fn run(cluster: &Cluster, access: &Access, args: &[&str]) -> Result<Ipgc> {
    Ipgc::start(cluster, access, args, &[]).await
}

/// The manifests as people apply them, once for all tests.
pub async fn applied() -> Result<&'static ControlPlane> {
    static APPLIED: OnceCell<()> = OnceCell::const_new();
    let cluster = Cluster::get().await?;
    APPLIED
        .get_or_try_init(|| async {
            let said = cluster.apply_manifests().await?;
            let lines = said.lines();
            let refused: Vec<_> = lines.filter(|line| !line.ends_with(" created")).collect();
            assert_eq!(refused, [""; 0], "{said}");
            account(ControlPlane::shared().await?).await.map(drop)
        })
        .await?;
    ControlPlane::shared().await
}

/// With many pods between their end and their free, and a watch of everything open.
#[tokio::test]
async fn sigterm_while_addresses_wait_ends_it_in_time_and_frees_nothing_early() -> Result<()> {
    let plane = applied().await?;
    let (scene, network) = Scene::with_network("waiting").await?;
    let account = plane.service_account(NAMESPACE, "ipgc").await?;
    let args = ["--pool-namespace", &scene.namespace.name, "--cooldown=1h"];
    let ipgc = run(scene.namespace.cluster(), &account, &args).await?;
    ipgc.is_ready().await?;
    scene.start("web-0", &network).await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    tokio::time::sleep(COOLDOWN).await;
    terminated(ipgc).await?;
    scene.only(&[1]).await
}

/// Also of those that it does not know by their names.
#[tokio::test]
async fn upstreams_programs_are_told_of_at_the_start() -> Result<()> {
    let plane = applied().await?;
    let (scene, _) = Scene::with_network("beside").await?;
    let cluster = scene.namespace.cluster();
    let name = &*scene.namespace.name;
    let pod = "run theirs --image=i --labels=app=whereabouts --command -- /ip-reconciler";
    let pod: Vec<_> = pod.split(' ').collect();
    scene.namespace.kubectl(&pod).await?;
    let account = plane.service_account(NAMESPACE, "ipgc").await?;
    let args = ["--pool-namespace", name];
    let ipgc = run(cluster, &account, &args).await?;
    ipgc.says(&format!(
        "whereabouts' reconciler runs beside ipgc (pod {name}/theirs)"
    ))
    .await?;
    // The counters are told at the end, as /metrics has them.
    let log = terminated(ipgc).await?;
    assert!(log.contains("start_warnings"), "{log}");
    Ok(())
}

/// Admission of its namespace is `restricted`: it takes the Deployment's pods, and no others.
#[tokio::test]
async fn the_deployments_pods_are_admitted_where_only_restricted_ones_are() -> Result<()> {
    let plane = applied().await?;
    let client = plane.admin().await?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let deployment = deployments.get("ipgc").await.unwrap();
    let template = deployment.spec.unwrap().template;
    let mut pod = Pod {
        metadata: kube::api::ObjectMeta {
            name: Some("ipgc".to_owned()),
            ..template.metadata.unwrap_or_default()
        },
        spec: template.spec,
        status: None,
    };
    let pods: Api<Pod> = Api::namespaced(client, NAMESPACE);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    pods.create(&dry, &pod).await.unwrap();
    pod.spec.as_mut().unwrap().host_network = Some(true);
    let refused = pods.create(&dry, &pod).await.unwrap_err().to_string();
    assert!(refused.contains("violates PodSecurity"), "{refused}");
    Ok(())
}

/// The story takes 13 s, a busy machine several times that.
const THE_STORY: Duration = Duration::from_secs(90);

#[tokio::test]
async fn the_demo_plays_on_a_real_cluster_and_leaves_nothing_behind() -> Result<()> {
    // The namespace goes only where the namespace controller empties it.
    let plane = ControlPlane::start(Options::default().with_controllers()).await?;
    let cluster = Cluster::of(&plane).await?;
    let kubeconfig = cluster
        .dir()
        .join(unique("demo"))
        .with_extension("kubeconfig");
    cluster.access().write(&kubeconfig)?;
    let mut command = clean(Command::new(build("demo").await?));
    command.arg("--kubeconfig").arg(&kubeconfig);
    let output = within("the demo", command, THE_STORY).await?;
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{told}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(told.contains("Writes tried outside of namespace"), "{told}");
    let namespace = told
        .lines()
        .find_map(|line| line.trim().strip_prefix("namespace "))
        .map(|rest| rest.trim().to_owned());
    let namespace = namespace.expect("the demo names its namespace");
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(cluster.client().clone());
    let left = namespaces.get_opt(&namespace).await?;
    let going = left.is_none_or(|left| left.metadata.deletion_timestamp.is_some());
    assert!(going, "namespace {namespace} is still there");
    Ok(())
}

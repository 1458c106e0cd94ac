//! The chart in a real API server: installed, changed, and removed.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use e2e::{
    Result,
    cluster::{Cluster, create},
    ours::workspace,
    wait,
};
use k8s_openapi::api::{authorization::v1::SubjectAccessReview, core::v1::Pod};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::{chart, helm};

/// A cluster, and helm's way to it.
#[derive(Clone)]
struct Site {
    cluster: Cluster,
    home: PathBuf,
    kubeconfig: PathBuf,
}

impl Site {
    async fn new(name: &str) -> Result<Self> {
        let cluster = Cluster::get().await?;
        let home = cluster.dir().join(name);
        std::fs::create_dir_all(&home).unwrap();
        let kubeconfig = home.join("kubeconfig");
        cluster.access().write(&kubeconfig)?;
        Ok(Self {
            cluster,
            home,
            kubeconfig,
        })
    }

    fn helm(&self, args: &[&str]) -> Result<String> {
        let kubeconfig = self.kubeconfig.to_str().unwrap();
        helm(&self.home, &[&["--kubeconfig", kubeconfig], args].concat())
    }

    /// All objects of the release, by kind, namespace and name.
    async fn objects(&self, release: &str) -> Result<Vec<String>> {
        const KINDS: &str = "deployments,serviceaccounts,services,configmaps,secrets,clusterroles,\
            clusterrolebindings,roles,rolebindings,poddisruptionbudgets,networkpolicies,pods,leases";
        let label = format!("app.kubernetes.io/instance={release}");
        let columns = "custom-columns=K:.kind,S:.metadata.namespace,N:.metadata.name";
        let args = [
            "get",
            KINDS,
            "-A",
            "-l",
            &label,
            "-o",
            columns,
            "--no-headers",
            "--ignore-not-found",
        ];
        let text = self.cluster.kubectl(args).await?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Whether the account of a release may do that with pools.
    async fn may(&self, release: &str, verb: &str) -> bool {
        let review = json!({"spec": {
            "user": format!("system:serviceaccount:{release}:{release}"),
            "resourceAttributes": {
                "group": "whereabouts.cni.cncf.io", "resource": "ippools", "verb": verb,
            },
        }});
        let reviews: Api<SubjectAccessReview> = Api::all(self.cluster.client().clone());
        let answer = create(&reviews, review).await.unwrap();
        answer.status.unwrap().allowed
    }

    /// What `helm test` says, with the kubelet's part done: the audit's pod ends in this phase.
    async fn test(&self, release: &str, phase: &str) -> Result<String> {
        let pods: Api<Pod> = Api::namespaced(self.cluster.client().clone(), release);
        let (site, release) = (self.clone(), release.to_owned());
        let name = format!("{release}-audit");
        let test = tokio::task::spawn_blocking(move || {
            site.helm(&["test", &release, "-n", &release, "--timeout", "60s"])
        });
        let there = || async { Ok(pods.get_opt(&name).await?.is_some()) };
        wait::until_state("the audit's pod", Duration::from_secs(60), there, |it| *it).await?;
        let status = Patch::Merge(json!({"status": {"phase": phase}}));
        pods.patch_status(&name, &PatchParams::default(), &status)
            .await?;
        test.await?
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_begins_dry_becomes_real_and_leaves_nothing() -> Result<()> {
    let site = Site::new("helm-life").await?;
    let chart = chart();
    let chart = chart.to_str().unwrap();
    let (one, other) = ("chart-one", "chart-other");
    for release in [one, other] {
        let said = site.helm(&[
            "install",
            release,
            chart,
            "-n",
            release,
            "--create-namespace",
            "--set",
            "dryRun=true,podDisruptionBudget.enabled=true,networkPolicy.enabled=true,dashboard.enabled=true",
        ])?;
        assert!(said.contains("frees nothing"), "{said}");
        assert!(!site.may(release, "patch").await && site.may(release, "list").await);
    }
    let said = site.helm(&[
        "upgrade",
        one,
        chart,
        "-n",
        one,
        "--reuse-values",
        "--set",
        "dryRun=false",
    ])?;
    assert!(said.contains("frees addresses of all pools"), "{said}");
    assert!(site.may(one, "patch").await && !site.may(other, "patch").await);
    let made = site.objects(one).await?;
    let kinds: BTreeSet<_> = made
        .iter()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(kinds.len(), 10, "{made:#?}");
    for (phase, passes) in [("Succeeded", true), ("Failed", false)] {
        let said = site.test(one, phase).await;
        assert_eq!(said.is_ok(), passes, "{said:?}");
    }
    site.helm(&["uninstall", one, "-n", one])?;
    assert_eq!(site.objects(one).await?, Vec::<String>::new());
    assert!(!site.may(one, "list").await, "a binding is left");
    assert_eq!(
        site.objects(other).await?.len(),
        made.len() - 3,
        "a dry run has no Lease, and no Role for it"
    );
    site.helm(&["uninstall", other, "-n", other])?;
    assert_eq!(site.objects(other).await?, Vec::<String>::new());
    Ok(())
}

/// The API server takes each object of kustomizations and chart; a typo in a field is an error.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_takes_all_objects() -> Result<()> {
    let site = Site::new("dry-run").await?;
    for namespace in ["ipgc-system", "openshift-multus"] {
        let args = ["create", "namespace", namespace];
        site.cluster.kubectl(args).await?;
    }
    let dry = [
        "apply",
        "--dry-run=server",
        "--validate=strict",
        "--warnings-as-errors",
    ];
    let chart = chart();
    let all = "podDisruptionBudget.enabled=true,networkPolicy.enabled=true,dashboard.enabled=true";
    let (release, name) = ("ipgc", "ipgc-system");
    let rendered = site.helm(&[
        "template",
        release,
        chart.to_str().unwrap(),
        "-n",
        name,
        "--set",
        all,
    ])?;
    let file = site.home.join("rendered.yaml");
    std::fs::write(&file, rendered).unwrap();
    let manifests = workspace().join("manifests");
    for (flag, path) in [
        ("-k", manifests.join("base")),
        ("-k", manifests.join("overlays/other-namespace")),
        ("-f", file),
    ] {
        let args = [&dry[..], &[flag, path.to_str().unwrap()]].concat();
        let said = site.cluster.kubectl(args).await?;
        let taken = said
            .lines()
            .filter(|line| line.ends_with("(server dry run)"));
        assert!(taken.count() >= 11, "{said}");
    }
    Ok(())
}

//! The chart in a real API server: installed, changed, and removed.

use std::path::PathBuf;

use e2e::{Result, cluster::Cluster};

use crate::{chart, helm, said};

/// A cluster, and helm's way to it.
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

    fn helm(&self, args: &[&str]) -> String {
        let kubeconfig = self.kubeconfig.to_str().unwrap();
        let all = [&["--kubeconfig", kubeconfig], args].concat();
        said(&helm(&self.home, &all)).unwrap()
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
        let account = format!("system:serviceaccount:{release}:{release}");
        let args = [
            "auth",
            "can-i",
            verb,
            "ippools.whereabouts.cni.cncf.io",
            "-A",
            "--as",
            &account,
        ];
        self.cluster.kubectl(args).await.is_ok()
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
            "dryRun=true,podDisruptionBudget.enabled=true,networkPolicy.enabled=true",
        ]);
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
    ]);
    assert!(said.contains("frees addresses of all pools"), "{said}");
    assert!(site.may(one, "patch").await && !site.may(other, "patch").await);
    let made = site.objects(one).await?;
    assert!(made.len() >= 11, "{made:#?}");
    site.helm(&["uninstall", one, "-n", one]);
    assert_eq!(site.objects(one).await?, Vec::<String>::new());
    assert!(!site.may(one, "list").await, "a binding is left");
    assert_eq!(
        site.objects(other).await?.len(),
        made.len() - 3,
        "a dry run has no Lease, and no Role for it"
    );
    site.helm(&["uninstall", other, "-n", other]);
    assert_eq!(site.objects(other).await?, Vec::<String>::new());
    Ok(())
}

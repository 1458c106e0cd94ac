//! How each tool is built: the table of names, folders, modules and packages.

use super::Tool;

/// How one tool is built.
pub(super) struct Recipe {
    /// Name of the binary.
    pub(super) name: &'static str,
    /// Folder in `e2e/tools` whose go.mod pins it.
    pub(super) folder: String,
    /// The Go module whose version is the tool's version.
    pub(super) module: &'static str,
    /// The main package.
    pub(super) package: &'static str,
    /// How long it takes on two cores, for the person who waits.
    pub(super) duration: &'static str,
    /// Whether `KUBEBUILDER_ASSETS` may hold it.
    pub(super) in_assets: bool,
}

pub(super) const KUBERNETES: &str = "k8s.io/kubernetes";
pub(super) const WHEREABOUTS: &str = "github.com/k8snetworkplumbingwg/whereabouts";
pub(super) const PROMETHEUS: &str = "github.com/prometheus/prometheus";
pub(super) const MULTUS: &str = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4";

impl Tool {
    /// Its line of the table.
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub(super) fn recipe(self) -> Recipe {
        let (name, folder, module, package, duration) = match self {
            Self::Etcd => (
                "etcd",
                "etcd",
                "go.etcd.io/etcd/server/v3",
                "go.etcd.io/etcd/server/v3",
                "half a minute",
            ),
            Self::KubeApiserver => (
                "kube-apiserver",
                "kubernetes",
                KUBERNETES,
                "k8s.io/kubernetes/cmd/kube-apiserver",
                "4 minutes",
            ),
            Self::KubeControllerManager => (
                "kube-controller-manager",
                "kubernetes",
                KUBERNETES,
                "k8s.io/kubernetes/cmd/kube-controller-manager",
                "1 minute",
            ),
            Self::Whereabouts => (
                "whereabouts",
                "whereabouts",
                WHEREABOUTS,
                "github.com/k8snetworkplumbingwg/whereabouts/cmd",
                "1 minute",
            ),
            Self::IpControlLoop => (
                "ip-control-loop",
                "whereabouts",
                WHEREABOUTS,
                "github.com/k8snetworkplumbingwg/whereabouts/cmd/controlloop",
                "20 seconds",
            ),
            Self::IpReconciler => (
                "ip-reconciler",
                "whereabouts",
                WHEREABOUTS,
                "github.com/k8snetworkplumbingwg/whereabouts/cmd/reconciler",
                "20 seconds",
            ),
            Self::Definitions => (
                "definitions",
                "whereabouts",
                WHEREABOUTS,
                "ipgc.dev/e2e/tools/whereabouts/definitions",
                "20 seconds",
            ),
            Self::Kubectl => (
                "kubectl",
                "kubernetes",
                KUBERNETES,
                "k8s.io/kubernetes/cmd/kubectl",
                "half a minute",
            ),
            Self::Promtool => (
                "promtool",
                "prometheus",
                PROMETHEUS,
                "github.com/prometheus/prometheus/cmd/promtool",
                "1.5 minutes",
            ),
            Self::Helm => (
                "helm",
                "helm",
                "helm.sh/helm/v4",
                "helm.sh/helm/v4/cmd/helm",
                "1 minute",
            ),
            Self::KubeScheduler => (
                "kube-scheduler",
                "kubernetes",
                KUBERNETES,
                "k8s.io/kubernetes/cmd/kube-scheduler",
                "1 minute",
            ),
            Self::Kubelet => (
                "kubelet",
                "kubernetes",
                KUBERNETES,
                "k8s.io/kubernetes/cmd/kubelet",
                "2 minutes",
            ),
            Self::Multus => (
                "multus",
                "multus",
                MULTUS,
                "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus",
                "1 minute",
            ),
            Self::Crane => (
                "crane",
                "crane",
                "github.com/google/go-containerregistry",
                "github.com/google/go-containerregistry/cmd/crane",
                "20 seconds",
            ),
            Self::Syft => (
                "syft",
                "syft",
                "github.com/anchore/syft",
                "github.com/anchore/syft/cmd/syft",
                "4 minutes",
            ),
            Self::Cosign => (
                "cosign",
                "cosign",
                "github.com/sigstore/cosign/v3",
                "github.com/sigstore/cosign/v3/cmd/cosign",
                "3 minutes",
            ),
            Self::ValidateKrewManifest => (
                "validate-krew-manifest",
                "krew",
                "sigs.k8s.io/krew",
                "sigs.k8s.io/krew/cmd/validate-krew-manifest",
                "1 minute",
            ),
            Self::Actionlint => (
                "actionlint",
                "actionlint",
                "github.com/rhysd/actionlint",
                "github.com/rhysd/actionlint/cmd/actionlint",
                "20 seconds",
            ),
            Self::KubeScore => (
                "kube-score",
                "kube-score",
                "github.com/zegl/kube-score",
                "github.com/zegl/kube-score/cmd/kube-score",
                "1 minute",
            ),
        };
        Recipe {
            name,
            folder: self.folder(folder),
            module,
            package,
            duration,
            in_assets: matches!(
                self,
                Self::Etcd | Self::KubeApiserver | Self::KubeControllerManager
            ),
        }
    }
}

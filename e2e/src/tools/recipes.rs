//! The tools, and how each is built: the table of names, folders, modules and packages.

/// How one tool is built.
pub(super) struct Recipe {
    /// Name of the binary.
    pub(super) name: &'static str,
    /// Folder in `e2e/tools` whose go.mod pins it.
    pub(super) folder: String,
    /// The Go module whose version is the tool's version.
    pub(super) module: &'static str,
    /// The main package.
    pub(super) package: String,
    /// How long it takes on two cores, for the person who waits.
    pub(super) duration: &'static str,
}

pub(super) const KUBERNETES: &str = "k8s.io/kubernetes";
pub(super) const WHEREABOUTS: &str = "github.com/k8snetworkplumbingwg/whereabouts";
pub(super) const PROMETHEUS: &str = "github.com/prometheus/prometheus";

/// Declares them: the name, the folder, the module, the main package behind the module's path (whole, if it does not
/// begin with a slash), the duration.
macro_rules! tools {
    ($($(#[$doc:meta])* $tool:ident $name:literal $folder:literal $module:tt $main:literal $duration:literal;)*) => {
        /// A program that the harness runs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Tool {
            $($(#[$doc])* $tool,)*
        }

        impl Tool {
            /// All of them, in the order in which a cold start needs them.
            pub const ALL: &[Self] = &[$(Self::$tool),*];

            /// Its line of the table.
            pub(super) fn recipe(self) -> Recipe {
                let (name, folder, module, main, duration) = match self {
                    $(Self::$tool => ($name, $folder, $module, $main, $duration),)*
                };
                let package = match main {
                    "" => module.to_owned(),
                    main if main.starts_with('/') => format!("{module}{main}"),
                    main => main.to_owned(),
                };
                Recipe { name, folder: self.folder(folder), module, package, duration }
            }
        }
    };
}

tools! {
    /// The store below the API server.
    Etcd "etcd" "etcd" "go.etcd.io/etcd/server/v3" "" "half a minute";
    /// The whereabouts CNI plugin.
    Whereabouts "whereabouts" "whereabouts" WHEREABOUTS "/cmd" "1 minute";
    /// Upstream's per-node collector.
    IpControlLoop "ip-control-loop" "whereabouts" WHEREABOUTS "/cmd/controlloop" "20 seconds";
    /// Upstream's cron collector.
    IpReconciler "ip-reconciler" "whereabouts" WHEREABOUTS "/cmd/reconciler" "20 seconds";
    /// Says how whereabouts reads definitions; a program of ours around its code.
    Definitions "definitions" "whereabouts" WHEREABOUTS "ipgc.dev/e2e/tools/whereabouts/definitions" "20 seconds";
    /// The API server.
    KubeApiserver "kube-apiserver" "kubernetes" KUBERNETES "/cmd/kube-apiserver" "4 minutes";
    /// The controllers: namespace deletion, pod garbage collection.
    KubeControllerManager "kube-controller-manager" "kubernetes" KUBERNETES "/cmd/kube-controller-manager" "1 minute";
    /// The command line client: scenarios use it as a person does.
    Kubectl "kubectl" "kubernetes" KUBERNETES "/cmd/kubectl" "half a minute";
    /// Checks rules and metrics.
    Promtool "promtool" "prometheus" PROMETHEUS "/cmd/promtool" "1.5 minutes";
    /// Installs the chart.
    Helm "helm" "helm" "helm.sh/helm/v4" "/cmd/helm" "1 minute";
    /// Gives pods their nodes; for the node tier, like the two below.
    KubeScheduler "kube-scheduler" "kubernetes" KUBERNETES "/cmd/kube-scheduler" "1 minute";
    /// The node's agent.
    Kubelet "kubelet" "kubernetes" KUBERNETES "/cmd/kubelet" "2 minutes";
    /// The CNI plugin that calls the others.
    Multus "multus" "multus" "gopkg.in/k8snetworkplumbingwg/multus-cni.v4" "/cmd/multus" "1 minute";
    /// A registry, and its client; for releases, like all below.
    Crane "crane" "crane" "github.com/google/go-containerregistry" "/cmd/crane" "20 seconds";
    /// Lists the dependencies of a binary.
    Syft "syft" "syft" "github.com/anchore/syft" "/cmd/syft" "4 minutes";
    /// Signs images.
    Cosign "cosign" "cosign" "github.com/sigstore/cosign/v3" "/cmd/cosign" "3 minutes";
    /// Checks the manifest of the kubectl plugin.
    ValidateKrewManifest "validate-krew-manifest" "krew" "sigs.k8s.io/krew" "/cmd/validate-krew-manifest" "1 minute";
    /// Checks workflows.
    Actionlint "actionlint" "actionlint" "github.com/rhysd/actionlint" "/cmd/actionlint" "20 seconds";
    /// Checks manifests.
    KubeScore "kube-score" "kube-score" "github.com/zegl/kube-score" "/cmd/kube-score" "1 minute";
}

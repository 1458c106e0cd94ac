//! The configuration files of a node: containerd, kubelet, multus, whereabouts.

use serde_json::{Value, json};

use super::{hub::REGISTRY, image::PAUSE};

/// containerd's, with the paths that it has by itself; they are the node's own.
pub(super) fn containerd(snapshotter: &str) -> String {
    format!(
        r#"version = 2

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  # What the machine cannot do, or does not let a namespace do.
  disable_apparmor = true
  restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "/etc/containerd/certs.d"

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "{snapshotter}"
"#
    )
}

/// How containerd reaches the registry of the run, which speaks plain HTTP.
pub(super) fn registry() -> (String, String) {
    let path = format!("/etc/containerd/certs.d/{REGISTRY}/hosts.toml");
    // containerd 1.6 reads no file without a section of a host.
    let text = format!("server = \"http://{REGISTRY}\"\n[host.\"http://{REGISTRY}\"]\n");
    (path, text)
}

/// The kubelet's.
pub(super) fn kubelet(cgroup_root: &str) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup_root,
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "failCgroupV1": false,
        // There is no DNS here.
        "resolvConf": "",
        // It listens in a namespace that only the run can reach.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        // The machine's disk may be nearly full, and that is none of the tests' business.
        "evictionHard": {
            "memory.available": "1Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
            "imagefs.available": "0%", "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "imageMinimumGCAge": "24h",
        "maxPods": 250,
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
    })
}

/// The file in the folder of CNI configurations: multus, whose default network is a bridge.
pub(super) fn multus(pods: &str) -> Value {
    json!({
        "cniVersion": "0.3.1",
        "name": "multus-cni-network",
        "type": "multus",
        "kubeconfig": "/etc/cni/net.d/multus.d/multus.kubeconfig",
        "delegates": [{
            "cniVersion": "0.3.1",
            "name": "default",
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": true,
            "hairpinMode": true,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": pods}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    })
}

/// whereabouts' flat file, as its installer writes it.
pub(super) fn whereabouts() -> Value {
    json!({
        "datastore": "kubernetes",
        "kubernetes": {"kubeconfig": "/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig"},
        "log_file": "/var/log/whereabouts.log",
        "log_level": "debug",
        "configuration_path": "/etc/cni/net.d/whereabouts.d",
    })
}

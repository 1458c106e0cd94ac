//! One node: a machine made of namespaces, with containerd and a kubelet of its own.
//!
//! In its mount namespace `/etc`, `/opt` and `/var` are layers over the machine's, in memory, `/run` is its
//! own, and containerd's and the kubelet's data lie in the folder of the run. So every program has the
//! paths that it has on a real node, and writes nothing outside of the run.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::Node;
use kube::Api;

use super::{
    cgroups::Cgroups,
    hub::{API_SERVER, Hub},
    image,
    namespaces::{Inside, Kind, Namespaces, run},
    settings,
};
use crate::{ControlPlane, Error, Result, access::write_private, process::lock, tools::Tool, wait};

/// Ready in 10 s; this is for a machine that compiles at the same time.
const START: Duration = Duration::from_secs(180);

/// The user as whom multus and whereabouts ask; the audit log tells them from all others.
pub const CNI_USER: &str = "cni";

/// `$1` the node's folder, `$2` the unpacked packages, `$3` the folder of built tools, `$4` the node's name.
const SETUP: &str = r#"
mount --make-rshared /
folder="$1" packages="$2" tools="$3" name="$4"
mount --bind "$folder" /mnt
mount --bind "$packages" /mnt/packages
mount --bind "$tools" /mnt/tools
mount -t tmpfs tmpfs /mnt/layers
for place in etc opt var; do
  mkdir "/mnt/layers/$place" "/mnt/layers/$place.work"
  mount -t overlay overlay -o "lowerdir=/$place,upperdir=/mnt/layers/$place,workdir=/mnt/layers/$place.work" "/$place"
done
mount -t tmpfs tmpfs /run
mkdir -p /run/lock /run/netns /run/cni
for data in containerd kubelet; do
  mkdir -p "/var/lib/$data"
  mount --bind "/mnt/$data" "/var/lib/$data"
done
rm -rf /etc/cni /opt/cni /var/lib/cni /var/log/pods /var/log/containers
mkdir -p /etc/cni/net.d/multus.d /etc/cni/net.d/whereabouts.d /opt/cni/bin /var/log/pods
hostname "$name"
echo "$name" > /etc/hostname
echo "127.0.0.1 localhost $name" > /etc/hosts
"#;

/// Programs inside: the packages' before the machine's.
const PATH: &str = "/mnt/packages/usr/bin:/mnt/packages/usr/sbin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The standard plugins that are linked into the folder of CNI plugins.
const PLUGINS: [&str; 7] = [
    "bridge",
    "host-local",
    "loopback",
    "macvlan",
    "portmap",
    "static",
    "tuning",
];

/// The folders in the folder of a node.
const FOLDERS: [&str; 6] = [
    "packages",
    "tools",
    "layers",
    "containerd",
    "kubelet",
    "images",
];

/// The parts that a node is made from.
pub(super) struct Parts<'a> {
    pub(super) plane: &'a ControlPlane,
    pub(super) hub: &'a Hub,
    pub(super) packages: &'a Path,
    /// Archives of images that the node gets.
    pub(super) images: &'a [PathBuf],
}

/// A node.
#[derive(Debug)]
pub struct Machine {
    // The order matters: its cgroups can go when its processes are gone.
    kubelet: Mutex<Option<Inside>>,
    containerd: Mutex<Option<Inside>>,
    /// None: it is powered off.
    namespaces: Mutex<Option<Arc<Namespaces>>>,
    cgroups: Cgroups,
    name: String,
    number: usize,
    folder: PathBuf,
    packages: PathBuf,
    images: Vec<PathBuf>,
}

impl Machine {
    /// The name of a node.
    pub fn name_of(number: usize) -> String {
        format!("node-{number}")
    }

    /// The user as whom its kubelet asks.
    pub fn user_of(number: usize) -> String {
        format!("system:node:{}", Self::name_of(number))
    }

    /// Makes a node and waits until it is Ready.
    pub(super) async fn new(number: usize, parts: &Parts<'_>) -> Result<Self> {
        let name = Self::name_of(number);
        let folder = parts.plane.dir().join(&name);
        for part in FOLDERS {
            let part = folder.join(part);
            fs::create_dir_all(&part)?;
        }
        let machine = Self {
            kubelet: Mutex::new(None),
            containerd: Mutex::new(None),
            namespaces: Mutex::new(None),
            cgroups: Cgroups::new(&name)?,
            name,
            number,
            folder,
            packages: parts.packages.to_owned(),
            images: parts.images.to_owned(),
        };
        machine.power_on(parts.plane, parts.hub).await?;
        machine.ready(parts.plane).await?;
        Ok(machine)
    }

    /// Starts it, with what containerd and the kubelet have on their disk.
    pub async fn power_on(&self, plane: &ControlPlane, hub: &Hub) -> Result<()> {
        let kubelet = Tool::Kubelet.path().await?;
        let tools = kubelet.parent().unwrap_or(Path::new("/"));
        let text = |path: &Path| path.display().to_string();
        let (folder, packages) = (text(&self.folder), text(&self.packages));
        let namespaces = Namespaces::new(
            Kind::Machine,
            "node",
            SETUP,
            &[&folder, &packages, &text(tools), &self.name],
            &self.folder.join("namespaces.log"),
        )
        .await?;
        hub.connect(self.number, &namespaces).await?;
        *lock(&self.namespaces) = Some(Arc::new(namespaces));
        self.configure(plane, &self.cgroups.name()).await?;
        self.start_containerd().await?;
        for archive in &self.images {
            self.import(archive).await?;
        }
        self.start_kubelet().await
    }

    /// Ends every process of it at once, and waits for that: its sandboxes are gone for certain.
    pub async fn power_off(&self) -> Result<()> {
        let namespaces = lock(&self.namespaces).take();
        let servers = (lock(&self.kubelet).take(), lock(&self.containerd).take());
        let Some(namespaces) = namespaces else {
            return Ok(());
        };
        // It blocks, and the forwarder's connections are on the same threads.
        crate::tools::blocking(move || {
            let ended = namespaces.end();
            drop(servers);
            ended
        })
        .await
    }

    /// Its name, as the API has it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number, from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Its namespaces, unless it is powered off.
    pub fn namespaces(&self) -> Result<Arc<Namespaces>> {
        let namespaces = lock(&self.namespaces).clone();
        namespaces.ok_or_else(|| Error::Other(format!("{} is powered off", self.name)))
    }

    /// Writes all configuration.
    async fn configure(&self, plane: &ControlPlane, cgroup_root: &str) -> Result<()> {
        let snapshotter = self.snapshotter().await?;
        self.write(
            "/etc/containerd/config.toml",
            &settings::containerd(snapshotter),
        )?;
        let (path, text) = settings::registry();
        self.write(&path, &text)?;
        self.write(
            "/etc/kubelet.yaml",
            &settings::kubelet(cgroup_root).to_string(),
        )?;
        let url = format!("https://{API_SERVER}");
        let kubeconfig = |user: &str, path: &str| {
            plane
                .access_at(&url, user)?
                .in_namespace("kube-system")
                .write(&self.namespaces()?.path(path))
        };
        kubeconfig(&Self::user_of(self.number), "/etc/kubelet.kubeconfig")?;
        kubeconfig(CNI_USER, "/etc/cni/net.d/multus.d/multus.kubeconfig")?;
        kubeconfig(CNI_USER, WHEREABOUTS_KUBECONFIG)?;
        self.write(
            "/etc/cni/net.d/whereabouts.d/whereabouts.conf",
            &settings::whereabouts().to_string(),
        )?;
        let link = r#"ln -s "$1" "/opt/cni/bin/$2""#;
        for plugin in PLUGINS {
            let program = format!("/mnt/packages/usr/lib/cni/{plugin}");
            self.namespaces()?.shell(link, &[&program, plugin]).await?;
        }
        for tool in [Tool::Multus, Tool::Whereabouts] {
            let path = tool.path().await?;
            let file = path.file_name().unwrap_or_default().display();
            let program = format!("/mnt/tools/{file}");
            self.namespaces()?
                .shell(link, &[&program, tool.name()])
                .await?;
        }
        let pods = format!("10.244.{}.0/24", self.number);
        self.write(
            "/etc/cni/net.d/00-multus.conf",
            &settings::multus(&pods).to_string(),
        )
    }

    /// Layers, where the folder of the run can have them; else whole copies, which are small here.
    async fn snapshotter(&self) -> Result<&'static str> {
        let probe = "cd /var/lib/containerd; mkdir -p probe/l probe/u probe/w probe/m; \
                     mount -t overlay overlay -o lowerdir=probe/l,upperdir=probe/u,workdir=probe/w probe/m; \
                     umount probe/m; rm -r probe";
        Ok(match self.namespaces()?.shell(probe, &[]).await {
            Ok(_) => "overlayfs",
            Err(_) => "native",
        })
    }

    /// Writes a file of the node.
    pub fn write(&self, inside: &str, text: &str) -> Result<()> {
        let path = self.namespaces()?.path(inside);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        write_private(&path, text.as_bytes())
    }

    fn command(&self, program: &str) -> Result<Command> {
        let mut command = self.namespaces()?.command("env");
        command
            .args([
                "--ignore-environment",
                &format!("PATH={PATH}"),
                "HOME=/root",
                program,
            ])
            .env("PATH", super::PATH);
        Ok(command)
    }

    /// Starts containerd; after a kill of it, the shims of before are taken over.
    pub async fn start_containerd(&self) -> Result<()> {
        let command = self.command("containerd")?;
        let log = self.folder.join("containerd.log");
        let containerd = self.namespaces()?.start("containerd", command, &log)?;
        let up = || async {
            containerd.still_up()?;
            let mut version = self.command("ctr")?;
            version.arg("version");
            Ok(run("ctr version", version).await)
        };
        wait::until_state("containerd to answer", START, up, Result::is_ok)
            .await
            .map_err(|error| containerd.start_error(error))??;
        *lock(&self.containerd) = Some(containerd);
        Ok(())
    }

    /// Imports the archive of an image.
    pub async fn import(&self, archive: &Path) -> Result<()> {
        let name = archive.file_name().unwrap_or_default();
        fs::copy(archive, self.folder.join("images").join(name))?;
        let mut command = self.command("ctr")?;
        command
            .args(["--namespace=k8s.io", "image", "import"])
            .arg(Path::new("/mnt/images").join(name));
        run("import an image", command).await?;
        Ok(())
    }

    /// Starts the kubelet.
    pub async fn start_kubelet(&self) -> Result<()> {
        let program = Tool::Kubelet.path().await?;
        let file = program
            .file_name()
            .unwrap_or_default()
            .display()
            .to_string();
        let mut command = self.command(&format!("/mnt/tools/{file}"))?;
        command.args([
            "--config=/etc/kubelet.yaml",
            "--kubeconfig=/etc/kubelet.kubeconfig",
            &format!("--hostname-override={}", self.name),
            &format!("--node-ip=172.30.0.1{}", self.number),
        ]);
        let log = self.folder.join("kubelet.log");
        let kubelet = self.namespaces()?.start("kubelet", command, &log)?;
        *lock(&self.kubelet) = Some(kubelet);
        Ok(())
    }

    /// Kills the kubelet; containerd and the sandboxes live on.
    pub async fn kill_kubelet(&self) -> Result<()> {
        let kubelet = lock(&self.kubelet).take();
        match kubelet {
            Some(kubelet) => kubelet.kill().await,
            None => Ok(()),
        }
    }

    /// An error, if the kubelet or containerd has ended by itself.
    pub fn still_up(&self) -> Result<()> {
        for server in [&self.kubelet, &self.containerd] {
            if let Some(server) = lock(server).as_ref() {
                server.still_up()?;
            }
        }
        Ok(())
    }

    /// Waits until the API has the node as Ready.
    pub async fn ready(&self, plane: &ControlPlane) -> Result<()> {
        let api: &Api<Node> = &Api::all(plane.admin().await?);
        let condition = || async move {
            self.still_up()?;
            let status = api.get_opt(&self.name).await?.and_then(|node| node.status);
            let mut conditions = status.and_then(|it| it.conditions).unwrap_or_default();
            conditions.retain(|condition| condition.type_ == "Ready");
            Ok(conditions.pop())
        };
        let what = format!("{} to be Ready", self.name);
        let waited = wait::until_state(&what, START, condition, |condition| {
            condition.as_ref().is_some_and(|it| it.status == "True")
        })
        .await;
        let waited = waited.map(drop);
        waited.map_err(|error| match lock(&self.kubelet).as_ref() {
            Some(kubelet) => kubelet.start_error(error),
            None => error,
        })
    }

    /// Writes a kubeconfig of whereabouts that leads to this URL: at a closed port, DEL is lost.
    pub fn whereabouts_asks(&self, plane: &ControlPlane, path: &str, url: &str) -> Result<()> {
        let access = plane.access_at(url, CNI_USER)?.in_namespace("kube-system");
        access.write(&self.namespaces()?.path(path))
    }

    /// The image that sandboxes and workloads have.
    pub fn image() -> &'static str {
        image::PAUSE
    }
}

/// Where whereabouts finds its way to the API server.
pub const WHEREABOUTS_KUBECONFIG: &str = "/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig";

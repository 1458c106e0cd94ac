//! `cargo run -p release -- --out DIR`: all artifacts of a release.
//!
//! ```text
//!  builds ─▶ two static programs ─▶ image layout, plugin archives, SBOMs ─▶ SHA256SUMS ─▶ push, sign
//!                          chart ──────────────────────────────────────────┘
//! ```
//!
//! It writes into DIR and into the cache of the tools only. The commit decides about the bytes of programs and image: the
//! same commit gives the same bytes in each folder.

mod archives;
mod builds;
mod push;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::Parser;
use e2e::{Error, Result, oci, ours::workspace, tools::Tool};
use serde_json::json;

/// The version, which stands in Cargo.toml.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where the project is.
const HOME: &str = "https://github.com/ipgc/ipgc";

/// Builds all artifacts of a release, and pushes image and chart.
#[derive(Parser)]
struct Arguments {
    /// Folder for the artifacts; it must be missing or empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Push the image as REGISTRY/NAME, and the chart as `charts/ipgc` beside it
    #[arg(long, value_name = "REGISTRY/NAME")]
    push: Option<String>,
    /// Sign what is pushed with this private key of cosign, whose password is in `COSIGN_PASSWORD`, and attach the SBOMs
    #[arg(long, value_name = "FILE", env = "COSIGN_KEY", requires = "push")]
    key: Option<PathBuf>,
}

/// Files of a release.
struct Out {
    folder: PathBuf,
    /// Seconds since 1970 that stand in all artifacts: `SOURCE_DATE_EPOCH`, else the time of the commit.
    epoch: i64,
    revision: String,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("release: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let out = Out::new(&arguments.out)?;
    let programs = builds::programs(&out)?;
    let programs: Vec<_> = programs
        .iter()
        .map(|(architecture, path)| (*architecture, path.as_path()))
        .collect();
    let image = arguments.push.as_deref().unwrap_or("ghcr.io/ipgc/ipgc");
    let image = format!("{image}:{VERSION}");
    let index = oci::layout(&out.folder.join("image"), &content(&image, &out), &programs)?;
    let chart = package_chart(&out)?;
    for (architecture, program) in &programs {
        archives::plugin(&out, architecture, program)?;
        archives::sbom(&out, architecture, program)?;
    }
    archives::krew(&out)?;
    archives::sums(&out)?;
    println!("image {image}@{index}");
    if let Some(to) = &arguments.push {
        push::all(&out, to, &index, &chart, arguments.key.as_deref())?;
    }
    println!("all artifacts are in {}", out.folder.display());
    Ok(())
}

impl Out {
    fn new(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(Error::io(format!("create {}", folder.display())))?;
        let folder = fs::canonicalize(folder).map_err(Error::io("find the folder"))?;
        let mut inside = fs::read_dir(&folder).map_err(Error::io("read the folder"))?;
        if inside.next().is_some() {
            let why = format!("{} is not empty", folder.display());
            return Err(Error::Unsupported(why));
        }
        let git = |args: &[&str]| {
            let mut command = Command::new("git");
            said(command.args(args).current_dir(workspace())).map(|text| text.trim().to_owned())
        };
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(text) => text,
            Err(_) => git(&["log", "-1", "--format=%ct"])?,
        };
        let epoch = epoch
            .parse()
            .map_err(|_| Error::Unsupported(format!("SOURCE_DATE_EPOCH is no number: {epoch}")))?;
        let changed = git(&["status", "--porcelain"])?;
        if !changed.is_empty() {
            eprintln!("release: the tree has changes that are in no commit");
        }
        Ok(Self {
            folder,
            epoch,
            revision: git(&["rev-parse", "HEAD"])?,
        })
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).map_err(Error::io(format!("write {}", path.display())))?;
        Ok(path)
    }
}

/// As in the Dockerfile, with the labels that the OCI image specification names.
fn content<'a>(image: &'a str, out: &Out) -> oci::Content<'a> {
    let label = |name: &str| format!("org.opencontainers.image.{name}");
    oci::Content {
        image,
        program: "ipgc",
        config: json!({
            "User": "65532:65532",
            "Cmd": ["run"],
            "Labels": {
                label("title"): "ipgc",
                label("description"): "Frees IP addresses that whereabouts holds for pods that are gone",
                label("version"): VERSION,
                label("revision"): out.revision,
                label("source"): HOME,
                label("licenses"): env!("CARGO_PKG_LICENSE"),
            },
        }),
        created: out.epoch,
    }
}

/// The chart as one file.
fn package_chart(out: &Out) -> Result<PathBuf> {
    let mut helm = Command::new(Tool::Helm.path_blocking()?);
    helm.arg("package")
        .arg(workspace().join("charts/ipgc"))
        .arg("--destination")
        .arg(&out.folder);
    said(&mut helm)?;
    Ok(out.folder.join(format!("ipgc-{VERSION}.tgz")))
}

/// Runs a command; its output, or an error with all that it said.
fn said(command: &mut Command) -> Result<String> {
    let what = command.get_program().display().to_string();
    let output = command
        .output()
        .map_err(Error::io(format!("start {what}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Command {
        what: format!("{command:?}"),
        status: output.status.to_string(),
        output: [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .concat(),
    })
}

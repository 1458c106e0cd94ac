//! `cargo run -p release -- --out DIR`: all artifacts of a release. With `--push`, or later `--from DIR --push`, they are pushed
//! and signed.
//!
//! ```text
//!  builds ─▶ two static programs ─▶ image layout, plugin archives, SBOMs ─▶ SHA256SUMS ─▶ push, sign
//!                          chart ──────────────────────────────────────────┘
//! ```
//!
//! It writes into DIR, `target/artifacts` and the cache of the tools. The commit and the compiler decide about the bytes: the
//! same ones give the same bytes in each folder.

mod archives;
mod builds;
mod push;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::Parser;
use e2e::{Error, Result, oci, ours::workspace, process::said};
use serde_json::json;

/// The version, which stands in Cargo.toml.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where the project is.
const HOME: &str = "https://github.com/ipgc/ipgc";

/// Builds all artifacts of a release, and pushes image and chart.
#[derive(Parser)]
struct Arguments {
    /// Build into this folder, which must be missing or empty
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Build nothing, and push what was built into this folder
    #[arg(
        long,
        value_name = "DIR",
        requires = "push",
        required_unless_present = "out",
        conflicts_with = "out"
    )]
    from: Option<PathBuf>,
    /// Push the image as REGISTRY/NAME, and the chart as `charts/ipgc` beside it
    #[arg(long, value_name = "REGISTRY/NAME")]
    push: Option<String>,
    /// Sign what is pushed, and the checksums, with this private key of cosign: a file, or `env://VARIABLE`. Its password is in
    /// `COSIGN_PASSWORD`
    #[arg(long, value_name = "KEY", requires = "push")]
    key: Option<String>,
}

/// Files of a release.
struct Out {
    folder: PathBuf,
    /// Seconds since 1970, the only time in all artifacts: `SOURCE_DATE_EPOCH`, else the time of the commit.
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
    // All that can be wrong is found before the minutes that building takes.
    let pushing = arguments
        .push
        .as_deref()
        .map(|to| push::Place::parse(to, arguments.key.as_deref()));
    let pushing = pushing.transpose()?;
    let folder = match (&arguments.out, &arguments.from) {
        (Some(out), _) => build(out)?,
        (None, from) => from.clone().unwrap_or_default(),
    };
    if let Some(place) = &pushing {
        place.push(&folder)?;
    }
    println!("all artifacts are in {}", folder.display());
    Ok(())
}

/// Builds all artifacts.
fn build(folder: &Path) -> Result<PathBuf> {
    let out = Out::new(folder)?;
    let programs = builds::programs(&out)?;
    let programs: Vec<_> = programs
        .iter()
        .map(|(architecture, path)| (*architecture, path.as_path()))
        .collect();
    let image = format!("ghcr.io/ipgc/ipgc:{VERSION}");
    let index = oci::layout(&out.folder.join("image"), &content(&image, &out), &programs)?;
    archives::image(&out)?;
    archives::chart(&out)?;
    for (architecture, program) in &programs {
        archives::plugin(&out, architecture, program)?;
        archives::sbom(&out, architecture, program)?;
    }
    archives::krew(&out)?;
    archives::sums(&out)?;
    println!("image {index}");
    Ok(out.folder)
}

impl Out {
    fn new(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let folder = fs::canonicalize(folder)?;
        let mut inside = fs::read_dir(&folder)?;
        if inside.next().is_some() {
            let why = format!("{} is not empty", folder.display());
            return Err(Error::Other(why));
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
            .map_err(|_| Error::Other(format!("SOURCE_DATE_EPOCH is no number: {epoch}")))?;
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
        fs::write(&path, bytes)?;
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

//! The folder of one run: data, certificates, tokens, logs.
//!
//! It lies below the cache, in `runs/`. It goes when it is dropped; or, where this process is killed, by a small shell
//! that notices that by the end of a pipe. With `IPGC_E2E_KEEP=1` it stays, for the logs.

use std::{
    env,
    fs::{self, DirBuilder},
    os::unix::{fs::DirBuilderExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::{Result, cluster::unique, tools};

/// The script of the shell: wait for the end of the pipe, let killed servers end, remove.
const JANITOR: &str = r#"read -r _; sleep 0.5; rm -rf -- "$1""#;

/// The folder of one run.
#[derive(Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
    /// Its standard input is the pipe whose end it waits for. None: the folder stays.
    janitor: Option<Child>,
}

impl RunDir {
    /// Makes a folder.
    pub(crate) fn create() -> Result<Self> {
        let path = tools::cache()?.join("runs").join(unique("run"));
        let mut folder = DirBuilder::new();
        // Tokens and keys lie in it.
        folder.recursive(true).mode(0o700).create(&path)?;
        let mut janitor = None;
        if env::var_os("IPGC_E2E_KEEP").is_none_or(|keep| keep != "1") {
            let mut shell = Command::new("sh");
            shell
                .args(["-c", JANITOR, "e2e-janitor"])
                .arg(&path)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                // An interrupt from the terminal goes to the whole group, and this one must outlive it.
                .process_group(0);
            janitor = Some(shell.spawn()?);
        }
        Ok(Self { path, janitor })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if let Some(janitor) = &mut self.janitor {
            fs::remove_dir_all(&self.path).ok();
            janitor.kill().ok();
            janitor.wait().ok();
        }
    }
}

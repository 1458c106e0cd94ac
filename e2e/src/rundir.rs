//! The folder of one run: data, certificates, tokens, logs.
//!
//! It lives below the cache, in `runs/`, beside a lock file that its owner holds. Three things remove it:
//! dropping it, a small shell that notices the end of this process by the end of a pipe, and the next run
//! that finds a folder whose lock nobody holds. With `IPGC_E2E_KEEP=1` none of them does, for the logs.

use std::{
    env,
    fs::{self, File},
    os::unix::{fs::DirBuilderExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{Result, tools};

/// The script of the shell: wait for the end of the pipe, let killed servers end, remove.
const JANITOR: &str = r#"read -r _; sleep 0.5; rm -rf -- "$1" "$1.lock""#;

/// The folder of one run.
#[derive(Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
    lock_path: PathBuf,
    keep: bool,
    /// Holds the lock as long as the folder is in use.
    _lock: File,
    /// Its standard input is the pipe whose end it waits for.
    janitor: Option<Child>,
}

impl RunDir {
    /// Makes a folder, and removes those whose owners are gone.
    pub(crate) fn create() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let runs = tools::cache()?.join("runs");
        fs::create_dir_all(&runs)?;
        // Making a lock file and locking it are two steps; nobody may sweep between them.
        let gate = File::create(runs.join("sweep"))?;
        gate.lock()?;
        sweep(&runs);

        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = runs.join(format!("{}-{count}", std::process::id()));
        let lock_path = runs.join(format!("{}-{count}.lock", std::process::id()));
        let lock = File::create(&lock_path)?;
        lock.lock()?;
        // Tokens and keys lie in it.
        fs::DirBuilder::new().mode(0o700).create(&path)?;

        let keep = env::var_os("IPGC_E2E_KEEP").is_some_and(|v| v == "1");
        let janitor = if keep {
            // Without its lock file no later run takes the folder for an abandoned one.
            fs::remove_file(&lock_path).ok();
            None
        } else {
            // Where it cannot start, the next run sweeps.
            Command::new("sh")
                .args(["-c", JANITOR, "e2e-janitor"])
                .arg(&path)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                // An interrupt from the terminal goes to the whole group, and this one must outlive it.
                .process_group(0)
                .spawn()
                .ok()
        };
        Ok(Self {
            path,
            lock_path,
            keep,
            _lock: lock,
            janitor,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        fs::remove_dir_all(&self.path).ok();
        fs::remove_file(&self.lock_path).ok();
        if let Some(mut janitor) = self.janitor.take() {
            janitor.kill().ok();
            janitor.wait().ok();
        }
    }
}

/// Removes the folders whose lock can be had. A folder that cannot be read or removed waits
/// for a later run.
fn sweep(runs: &Path) {
    let Ok(entries) = fs::read_dir(runs) else {
        return;
    };
    for entry in entries.flatten() {
        let lock_path = entry.path();
        if lock_path.extension().is_none_or(|e| e != "lock") {
            continue;
        }
        if let Ok(lock) = File::open(&lock_path)
            && lock.try_lock().is_ok()
        {
            fs::remove_dir_all(lock_path.with_extension("")).ok();
            fs::remove_file(&lock_path).ok();
        }
    }
}

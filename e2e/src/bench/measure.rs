//! The cost of a process, read from `/proc`.
//!
//! Memory that is in use is read from `smaps_rollup`, which is exact; the counters in `status` are summed
//! up by the kernel in batches of pages. The peak is the kernel's own high-water mark, which can be set
//! back, so that each phase has a peak of its own. Nothing here samples.

use std::{fs, path::PathBuf, time::Duration};

use crate::{Error, Result, process::Process};

/// A running process as `/proc` shows it.
#[derive(Clone, Debug)]
pub struct Meter {
    place: PathBuf,
}

impl Meter {
    /// A meter of a process that we started.
    pub fn of(process: &Process) -> Self {
        let place = format!("/proc/{}", process.id()).into();
        Self { place }
    }

    /// CPU time of all its threads so far, user and system.
    pub fn cpu(&self) -> Result<Duration> {
        let text = self.read("stat")?;
        // The second field is the program's name in parentheses, and may hold blanks.
        let fields = text.rsplit_once(')').map(|(_, fields)| fields);
        let ticks: Option<u64> = fields.and_then(|fields| {
            let mut fields = fields.split_ascii_whitespace().skip(11);
            let user: u64 = fields.next()?.parse().ok()?;
            let system: u64 = fields.next()?.parse().ok()?;
            Some(user + system)
        });
        let ticks = ticks.ok_or_else(|| self.unreadable("stat"))?;
        let second = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_millis(ticks * 1_000 / second))
    }

    /// Bytes in memory now.
    pub fn resident(&self) -> Result<u64> {
        self.kilobytes("smaps_rollup", "Rss:")
    }

    /// Largest number of bytes in memory since the start or since the peak was set back.
    pub fn peak(&self) -> Result<u64> {
        self.kilobytes("status", "VmHWM:")
    }

    /// Sets the peak back to what is in memory now.
    pub fn reset_peak(&self) -> Result<()> {
        let path = self.place.join("clear_refs");
        Ok(fs::write(&path, "5")?)
    }

    /// Open file descriptors.
    pub fn descriptors(&self) -> Result<usize> {
        let path = self.place.join("fd");
        let open = fs::read_dir(&path)?;
        Ok(open.count())
    }

    fn kilobytes(&self, file: &str, field: &str) -> Result<u64> {
        let text = self.read(file)?;
        text.lines()
            .find_map(|line| line.strip_prefix(field))
            .and_then(|rest| rest.split_ascii_whitespace().next())
            .and_then(|number| number.parse::<u64>().ok())
            .map(|kilobytes| kilobytes * 1024)
            .ok_or_else(|| self.unreadable(file))
    }

    fn read(&self, file: &str) -> Result<String> {
        let path = self.place.join(file);
        Ok(fs::read_to_string(&path)?)
    }

    fn unreadable(&self, file: &str) -> Error {
        let path = self.place.join(file).display().to_string();
        Error::Other(format!("{path} does not look as on Linux"))
    }
}

//! `ipgc audit` of files, as large as a large cluster's: time, and memory. No server takes part.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::Path,
    time::{Duration, Instant},
};

use super::{
    Bench,
    dump::Dump,
    measure::Meter,
    table::{Amount, Line, float},
};
use crate::{
    Result,
    ours::clean,
    process::{Process, tail, tied},
    rundir::RunDir,
};

pub const NAME: &str = "audit";

/// How often each is audited; the slowest and the largest count.
const TRIES: usize = 3;

/// It took 5 s when the machine was at its worst.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often its memory is read, which the kernel forgets at its end.
const POLL: Duration = Duration::from_millis(5);

/// Most bytes of memory.
const MOST: usize = 500_000_000;
/// The part of it that the program and its buffers take, whatever the size of what is read.
const PROGRAM: usize = 10_000_000;

/// The cost of an audit.
#[derive(Default)]
struct Cost {
    time: Duration,
    cpu: Duration,
    peak: u64,
}

/// Runs it.
pub async fn run(bench: &Bench) -> Result<Vec<Line>> {
    let dir = RunDir::create()?;
    let pods = bench.size(100_000);
    // Of whole pages of kubectl, as 2,000 pods are, nothing would be stale.
    let stale = pods / 100 * 98 + 1;
    // By what is read, not by how busy the machine is.
    let most = (PROGRAM + bench.size(MOST - PROGRAM)) as u64;
    let dumps = [
        ("all live", 0, 0),
        ("98 % stale", stale, 0),
        ("the same, half of the nodes silent", stale, 500),
    ];
    let mut lines = Vec::new();
    for (what, gone, silent) in dumps {
        let dump = Dump { pods, gone, silent };
        let file = dir.path().join("dump.json");
        let size = write(&file, dump)?;
        bench.say(NAME, format!("{what}: {}", Amount::bytes(size)));
        let mut worst = Cost::default();
        for _ in 0..TRIES {
            let cost = audit(bench, &file, dir.path()).await?;
            worst.time = worst.time.max(cost.time);
            worst.cpu = worst.cpu.max(cost.cpu);
            worst.peak = worst.peak.max(cost.peak);
        }
        let rows = pods * 2;
        let line = |what: String, ours| Line::new(NAME, what, ours);
        let all = format!(
            "{rows} rows, {what}, {} of text: slowest of {TRIES}",
            Amount::bytes(size)
        );
        lines.extend([
            line(all, Amount::time(worst.time)).at_most(10.0),
            line("its CPU".into(), Amount::cpu(worst.cpu)),
            line("its peak of memory".into(), Amount::bytes(worst.peak))
                .at_most(float(most))
                .counted(),
        ]);
    }
    Ok(lines)
}

fn write(path: &Path, dump: Dump) -> Result<u64> {
    let file = File::create(path)?;
    let mut output = BufWriter::with_capacity(1 << 20, file);
    let written = dump.write(&mut output).and_then(|()| output.flush());
    // Or the kernel would write it while it is read.
    written.and_then(|()| output.get_ref().sync_all())?;
    let metadata = fs::metadata(path)?;
    Ok(metadata.len())
}

async fn audit(bench: &Bench, file: &Path, dir: &Path) -> Result<Cost> {
    let log = dir.join("audit.log");
    fs::write(&log, "")?;
    let mut command = clean(tied(&bench.program));
    command.arg("audit").arg("-f").arg(file);
    let begun = Instant::now();
    let process = Process::start("ipgc audit", command, &log)?;
    let meter = Meter::of(&process);
    let mut cost = Cost::default();
    let status = loop {
        // They cannot be read any more once it has ended.
        if let (Ok(peak), Ok(cpu)) = (meter.peak(), meter.cpu()) {
            (cost.peak, cost.cpu) = (peak, cpu);
        }
        if let Some(status) = process.exited()? {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            return Err(process.start_error("it does not end"));
        }
        tokio::time::sleep(POLL).await;
    };
    cost.time = begun.elapsed();
    // With findings it is 1, and else 0.
    // The totals, before what is noted.
    let told = tail(&log, 20);
    if matches!(status.code(), Some(0 | 1)) && told.contains(" rows in ") {
        return Ok(cost);
    }
    Err(process.start_error(format!("it ended: {status}")))
}

//! Plays the stories of many seeds, and tells what they showed.

use std::{
    collections::BTreeMap,
    ops::Range,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use simulate::{
    Outcome,
    coverage::{ENOUGH, missing},
    faults::At,
    play,
    shrink::shrink,
    story::{Returns, Story},
};

/// Plays whole clusters, each of one seed, and fails if an address was freed that answers or anything is left
#[derive(Parser)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command")]
struct Args {
    /// These seeds, as FROM..TO
    #[arg(long, value_parser = seeds, default_value = "0..1000")]
    seeds: Range<u64>,
    /// This seed only
    #[arg(long)]
    seed: Option<u64>,
    /// Tell the story as it went
    #[arg(long)]
    trace: bool,
    /// How many minutes of each story are eventful
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Instead, crash ipgc at each of its requests, in each of some calm stories
    #[arg(long)]
    crashes: bool,
    /// Instead, let pods come back under their names at each request of ipgc, in each of some calm stories
    #[arg(long)]
    returns: bool,
    /// So many calm stories
    #[arg(long, default_value_t = 10)]
    stories: u64,
    /// End with the first failure
    #[arg(long)]
    first: bool,
    /// Shorten a story that failed
    #[arg(long)]
    shrink: bool,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let parts = text.split_once("..").ok_or("FROM..TO is meant")?;
    let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is no number"));
    Ok(number(parts.0)?..number(parts.1)?)
}

fn main() -> ExitCode {
    let args = Args::parse();
    let length = Duration::from_secs(60 * args.minutes);
    if let Some(seed) = args.seed {
        return one(&Story::of(seed, length), &args);
    }
    if args.crashes {
        return at_each_request(&CRASHES, &args);
    }
    if args.returns {
        return at_each_request(&RETURNS, &args);
    }
    let failed = AtomicU64::new(0);
    let counts = Mutex::new(BTreeMap::<String, u64>::new());
    let begun = Instant::now();
    on_all_cores(args.seeds.clone(), |seed| {
        let outcome = match play(&Story::of(seed, length), false) {
            Ok(outcome) => outcome,
            Err(error) => {
                eprintln!("seed {seed}: {error}");
                return true;
            }
        };
        let mut all = counts.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, count) in outcome.counts {
            *all.entry(name).or_default() += count;
        }
        let Some(violation) = outcome.violations.first() else {
            return false;
        };
        println!("seed {seed}: {violation}");
        failed.fetch_add(1, Ordering::Relaxed);
        args.first
    });
    let failed = failed.into_inner();
    let counts = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (name, count) in &counts {
        println!("{count:>9}  {name}");
    }
    let seeds = args.seeds.end - args.seeds.start;
    let missing = if seeds < ENOUGH || failed > 0 {
        Vec::new()
    } else {
        missing(&counts)
    };
    for name in &missing {
        println!("never: {name}");
    }
    println!(
        "{seeds} seeds in {:.1} s, {failed} failed",
        begun.elapsed().as_secs_f64()
    );
    success_if(failed == 0 && missing.is_empty())
}

/// Plays all of these, on all cores, until one of them says that it was the last one.
fn on_all_cores<T>(all: impl Iterator<Item = T> + Send, play: impl Fn(T) -> bool + Sync) {
    let all = Mutex::new(all);
    let rest = || all.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        loop {
            let Some(next) = rest().next() else {
                return;
            };
            if play(next) {
                rest().by_ref().for_each(drop);
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
}

fn success_if(is_good: bool) -> ExitCode {
    if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Ipgc crashes at each request, before or after the server did it.
const CRASHES: [fn(&mut Story, usize); 2] = [
    |story, left| story.crash = Some(crash(left, false)),
    |story, left| story.crash = Some(crash(left, true)),
];

fn crash(left: usize, is_done: bool) -> At {
    At {
        left,
        is_done,
        only_writes: false,
    }
}

/// The names of pods that are gone are used again at each request: as it arrives, or some time before the server does it.
const RETURNS: [fn(&mut Story, usize); 4] = [
    |story, at| story.returns = Some(returns(at, 0, false)),
    |story, at| story.returns = Some(returns(at, 3_000, false)),
    |story, at| story.returns = Some(returns(at, 15_000, false)),
    // And the pods are deleted by force while their ADDs are at work.
    |story, at| story.returns = Some(returns(at, 1_600, true)),
];

fn returns(at: usize, milliseconds: u64, is_brief: bool) -> Returns {
    Returns {
        at,
        pause: Duration::from_millis(milliseconds),
        is_brief,
    }
}

/// Plays each calm story once for each request of ipgc and each of the things that may happen at it.
fn at_each_request(happens: &[fn(&mut Story, usize)], args: &Args) -> ExitCode {
    let failed = AtomicU64::new(0);
    let begun = Instant::now();
    let mut points = 0;
    for seed in 0..args.stories {
        let mut story = Story::calm(seed);
        // It never happens.
        happens[0](&mut story, usize::MAX);
        let requests = play(&story, false).map_or(0, |outcome| outcome.requests);
        points += happens.len() * requests;
        let ways = |request| (0..happens.len()).map(move |way| (request, way));
        on_all_cores((1..=requests).flat_map(ways), |(request, way)| {
            let mut story = story.clone();
            happens[way](&mut story, request);
            let violation = match play(&story, false) {
                Ok(outcome) => outcome.violations.into_iter().next(),
                Err(error) => Some(error.to_string()),
            };
            let Some(violation) = violation else {
                return false;
            };
            failed.fetch_add(1, Ordering::Relaxed);
            println!("story {seed}, request {request}, way {way}: {violation}");
            args.first
        });
        if args.first && failed.load(Ordering::Relaxed) > 0 {
            break;
        }
    }
    let failed = failed.into_inner();
    println!(
        "{points} stories in {:.1} s, {failed} failed",
        begun.elapsed().as_secs_f64()
    );
    success_if(failed == 0 && points > 0)
}

fn one(story: &Story, args: &Args) -> ExitCode {
    let played = if args.shrink {
        shrink(story).and_then(|story| {
            println!("{story:#?}");
            play(&story, args.trace)
        })
    } else {
        play(story, args.trace)
    };
    match played {
        Ok(outcome) => tell(&outcome),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn tell(outcome: &Outcome) -> ExitCode {
    for (at, line) in &outcome.trace {
        println!("{:>9.3}  {line}", at.as_secs_f64());
    }
    for violation in &outcome.violations {
        println!("{violation}");
    }
    success_if(outcome.violations.is_empty())
}

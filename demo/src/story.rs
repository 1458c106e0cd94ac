//! The story, chapter by chapter: the actions, the output, and the results that are checked.

use std::time::Duration;

use ipgc::core::evidence::Policy;
use jiff::Timestamp;
use testkit::Verb;
use tokio::time::{Instant, sleep};

use crate::{
    failure::Failure,
    frame::{Outcome, requests, seconds, sum_up},
    look::{Look, event_table},
    play,
    print::{Paper, Tone},
    stage::{COOLDOWN, Stage, long_wait},
};

/// The pods. They start in this order, so they get the first four addresses in this order.
const QUIET: &str = "web-0";
const LEAKS: &str = "web-1";
const FORCED: &str = "api-0";
const RETURNS: &str = "db-0";
/// The pod that comes last and is given what was freed.
const NEXT: &str = "web-2";

/// How often the API server is looked at while the demo waits for something.
const POLL: Duration = Duration::from_millis(50);
/// How much longer than promised anything may take, on a slow machine or network.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two chapters, so that a person sees one before the next.
const BREATH: Duration = Duration::from_millis(300);

/// Plays and checks everything.
pub async fn tell(stage: &Stage, paper: Paper) -> Result<(), Failure> {
    let story = Story { stage, paper };
    let homes = story.four_pods().await?;
    let first = story.a_lost_del(&homes).await?;
    let forced = story.a_forced_deletion(&homes).await?;
    story.a_pod_that_returns(&homes, forced).await?;
    let second = story.the_next_pod(&homes, forced).await?;
    story.events(&homes).await?;
    let outcome = |address, pod, freed, why| Outcome {
        address,
        pod,
        freed,
        why,
    };
    let outcomes = [
        outcome(&homes.quiet, QUIET, None, "it runs"),
        outcome(
            &homes.leaks,
            LEAKS,
            Some(first),
            "after its end, which its kubelet confirmed",
        ),
        outcome(
            &homes.forced,
            FORCED,
            Some(second),
            "after its deletion: nobody confirmed its end",
        ),
        outcome(&homes.returns, RETURNS, None, "it came back and uses it"),
    ];
    sum_up(stage, paper, &outcomes);
    must(
        stage.ledger.refused() == 0,
        "ipgc writes in its own namespace only",
    )
}

/// Which address each of the first pods got.
struct Homes {
    quiet: String,
    leaks: String,
    forced: String,
    returns: String,
}

struct Story<'s> {
    stage: &'s Stage,
    paper: Paper,
}

impl Story<'_> {
    async fn four_pods(&self) -> Result<Homes, Failure> {
        let Self { stage, paper } = self;
        stage.make_network().await?;
        let homes = Homes {
            quiet: stage.run_pod(QUIET).await?,
            leaks: stage.run_pod(LEAKS).await?,
            forced: stage.run_pod(FORCED).await?,
            returns: stage.run_pod(RETURNS).await?,
        };
        let look = stage.look().await?;
        paper.title("1. Four pods, four addresses");
        self.show_addresses(&look, &[]);
        for (pod, address) in [
            (QUIET, &homes.quiet),
            (LEAKS, &homes.leaks),
            (FORCED, &homes.forced),
            (RETURNS, &homes.returns),
        ] {
            self.must_hold(&look, address, pod)?;
        }
        // The first two seconds of its pod watch are no time that ipgc counts on.
        sleep(2 * COOLDOWN).await;
        Ok(homes)
    }

    /// Returns how long after the end the address was free.
    async fn a_lost_del(&self, homes: &Homes) -> Result<Duration, Failure> {
        let Self { stage, paper } = self;
        paper.title(&format!("2. {LEAKS} ends, and its DEL is lost"));
        let mark = stage.ledger.len();
        let end = stage.end_pod(LEAKS).await?;
        let look = stage.look().await?;
        must(!look.has_pod(LEAKS), "a deleted pod is gone")?;
        self.must_hold(&look, &homes.leaks, LEAKS)?;
        paper.moment(
            end.elapsed(),
            Tone::Plain,
            &format!("{LEAKS} is gone, its row is not"),
        );
        let leaked = (homes.leaks.as_str(), Tone::Bad, "<- leaked".to_owned());
        paper.gap();
        self.show_addresses(&look, &[leaked]);
        paper.gap();
        let took = self.freed(&homes.leaks, end, COOLDOWN).await?;
        self.events_about(LEAKS).await?;
        paper.gap();
        paper.text(
            "Its kubelet had reported every container as stopped: evidence does not get better, so a\n\
             short cooldown is enough. These were ipgc's requests:",
        );
        paper.gap();
        let mut entries = stage.ledger.since(mark);
        entries.retain(|entry| entry.namespace == stage.namespace);
        paper.table(&requests(&entries));
        paper.gap();
        paper.text(
            "It read the row, then the pod, then it removed the row that it had read: had anybody changed\n\
             it in between, its test would have failed, and nothing been removed.",
        );
        sleep(BREATH).await;
        Ok(took)
    }

    /// Returns a moment right before the deletion.
    async fn a_forced_deletion(&self, homes: &Homes) -> Result<Instant, Failure> {
        let Self { stage, paper } = self;
        paper.title(&format!("3. {FORCED} is deleted with --force: ipgc waits"));
        let end = stage.force_delete_pod(FORCED).await?;
        let look = stage.look().await?;
        must(
            !look.has_pod(FORCED),
            "a pod deleted by force is gone at once",
        )?;
        let words = format!("{FORCED} is gone, its row is not");
        paper.moment(end.elapsed(), Tone::Plain, &words);
        paper.gap();
        let until = Timestamp::now() + long_wait().saturating_sub(end.elapsed());
        let until = until.strftime("%H:%M:%S");
        let held = (
            homes.forced.as_str(),
            Tone::Kept,
            format!("<- held until {until} UTC"),
        );
        self.show_addresses(&look, &[held]);
        self.must_hold(&look, &homes.forced, FORCED)?;
        paper.gap();
        paper.text(&format!(
            "Nobody reported that its containers stopped: the object is gone, and the pod may still\n\
             answer on {}. ipgc gives its kubelet {} to stop it ({} by default); not before\n\
             that does anybody else get the address.",
            homes.forced,
            seconds(long_wait()),
            seconds(Policy::default().wait(None, Duration::ZERO, 1)),
        ));
        sleep(BREATH).await;
        Ok(end)
    }

    async fn a_pod_that_returns(&self, homes: &Homes, forced: Instant) -> Result<(), Failure> {
        let Self { stage, paper } = self;
        paper.title(&format!(
            "4. Meanwhile {RETURNS} ends, and comes back under its name like a StatefulSet's"
        ));
        let old = self.row_id(&homes.returns).await?;
        let end = stage.end_pod(RETURNS).await?;
        paper.moment(
            end.elapsed(),
            Tone::Plain,
            &format!("{RETURNS} is gone, its row is not"),
        );
        let mark = stage.ledger.len();
        let address = stage.run_pod(RETURNS).await?;
        must(
            address == homes.returns,
            "a returning pod takes its row over",
        )?;
        let new = self.row_id(&homes.returns).await?;
        must(old != new, "the row bears the new sandbox")?;
        let words =
            format!("{RETURNS} is back and took its row over: another sandbox, same address");
        paper.moment(end.elapsed(), Tone::Plain, &words);

        // It may look after the cooldown; whether it does is up to it.
        let looked = || {
            let entries = stage.ledger.since(mark);
            entries
                .into_iter()
                .find(|it| it.verb == Verb::Get && it.name == RETURNS && it.status.is_some())
        };
        let give_up = end + COOLDOWN + Duration::from_secs(2);
        while looked().is_none() && Instant::now() < give_up {
            sleep(POLL).await;
        }
        if let Some(entry) = looked() {
            let answer = entry.status.unwrap_or_default();
            let words =
                format!("ipgc asks for pods/{RETURNS}: {answer}, there it is, so the row stays");
            paper.moment(end.elapsed(), Tone::Kept, &words);
        }
        sleep(BREATH).await;
        let look = stage.look().await?;
        let after = forced.elapsed();
        let mut remarks = vec![(homes.returns.as_str(), Tone::Kept, "<- kept".to_owned())];
        if look.row(&homes.forced).is_some() {
            let left = long_wait().saturating_sub(after);
            let words = format!("<- held, {} to go", seconds(left));
            remarks.push((homes.forced.as_str(), Tone::Kept, words));
        } else {
            must(
                after >= long_wait(),
                "a row is held as long as its pod may answer",
            )?;
        }
        paper.gap();
        self.show_addresses(&look, &remarks);
        self.must_hold(&look, &homes.returns, RETURNS)?;
        let row = look.row(&homes.returns).map(|row| row.id.as_str());
        must(
            row == Some(&new),
            "the row of a returned pod is not touched",
        )
    }

    /// Returns how long after the deletion the address was free.
    async fn the_next_pod(&self, homes: &Homes, end: Instant) -> Result<Duration, Failure> {
        let Self { stage, paper } = self;
        paper.title(&format!(
            "5. The wait for {FORCED} is over, and {NEXT} is given an address that was freed"
        ));
        let took = self.freed(&homes.forced, end, long_wait()).await?;
        self.events_about(FORCED).await?;
        let address = stage.run_pod(NEXT).await?;
        let words = format!("{NEXT} starts and gets {address}");
        paper.moment(end.elapsed(), Tone::Plain, &words);
        let look = stage.look().await?;
        paper.gap();
        let remark = (address.as_str(), Tone::Good, "<- in use again".to_owned());
        self.show_addresses(&look, &[remark]);
        must(address == homes.leaks, "a freed address is given again")?;
        self.must_hold(&look, &homes.leaks, NEXT)?;
        self.must_hold(&look, &homes.quiet, QUIET)?;
        self.must_hold(&look, &homes.returns, RETURNS)?;
        self.must_be_free(&look, &homes.forced)?;
        Ok(took)
    }

    async fn events(&self, homes: &Homes) -> Result<(), Failure> {
        let Self { stage, paper } = self;
        paper.title("6. What ipgc told the cluster");
        let events = stage.events().await?;
        paper.command(&format!(
            "kubectl -n {} get events --sort-by=.eventTime",
            stage.namespace
        ));
        paper.table(&event_table(&events));
        for (kind, name, address) in [
            ("Pod", LEAKS, &homes.leaks),
            ("Pod", FORCED, &homes.forced),
            ("IPPool", play::pool()?.as_str(), &homes.leaks),
            ("IPPool", play::pool()?.as_str(), &homes.forced),
        ] {
            let found = events.iter().any(|event| {
                let regarding = event.regarding.as_ref();
                regarding.is_some_and(|r| {
                    r.kind.as_deref() == Some(kind) && r.name.as_deref() == Some(name)
                }) && event.reason.as_deref() == Some(ipgc::report::COLLECTED)
                    && event
                        .note
                        .as_ref()
                        .is_some_and(|note| note.contains(address.as_str()))
            });
            must(
                found,
                &format!("an event tells that {address} was freed, on {kind} {name}"),
            )?;
        }
        let kept = events.iter().any(|event| {
            let note = event.note.as_deref().unwrap_or_default();
            note.contains(&homes.quiet) || note.contains(&homes.returns)
        });
        must(!kept, "no event tells of an address that was kept")
    }

    /// Waits until row and reservation of an address are gone, which must not be before `least`.
    async fn freed(
        &self,
        address: &str,
        since: Instant,
        least: Duration,
    ) -> Result<Duration, Failure> {
        let mut row = true;
        loop {
            let look = self.stage.look().await?;
            let after = since.elapsed();
            if row && look.row(address).is_none() {
                row = false;
                self.paper
                    .moment(after, Tone::Good, &format!("the row of {address} is freed"));
                must(after >= least, "no row is freed before its time")?;
            }
            if !row && look.reserved_for(address).is_none() {
                let words = format!("the reservation of {address} is freed");
                self.paper.moment(after, Tone::Good, &words);
                return Ok(after);
            }
            let what = format!("{address} is freed within {}", seconds(least + PATIENCE));
            must(after < least + PATIENCE, &what)?;
            sleep(POLL).await;
        }
    }

    /// Waits until the events about a pod's addresses have arrived; they come last.
    async fn events_about(&self, pod: &str) -> Result<(), Failure> {
        let podref = self.stage.podref(pod);
        let end = Instant::now() + PATIENCE;
        loop {
            let events = self.stage.events().await?;
            let of_pool = events.iter().any(|event| {
                event
                    .note
                    .as_ref()
                    .is_some_and(|note| note.contains(&podref))
            });
            if of_pool {
                return Ok(());
            }
            must(Instant::now() < end, &format!("an event tells of {podref}"))?;
            sleep(POLL).await;
        }
    }

    async fn row_id(&self, address: &str) -> Result<String, Failure> {
        let look = self.stage.look().await?;
        let row = look.row(address).map(|row| row.id.clone());
        row.ok_or_else(|| Failure::Story(format!("{address} has no row")))
    }

    fn show_addresses(&self, look: &Look, remarks: &[(&str, Tone, String)]) {
        let pool = play::pool().unwrap_or_default();
        let words = format!("# IPPool {pool}, row by row, with reservation and pod");
        self.paper.line(Tone::Faint, &words);
        self.paper.table(&look.address_table(remarks));
    }

    fn must_hold(&self, look: &Look, address: &str, pod: &str) -> Result<(), Failure> {
        let podref = self.stage.podref(pod);
        let row = look.row(address).and_then(|row| row.podref.as_deref());
        must(
            row == Some(&podref),
            &format!("{pod} has the row of {address}"),
        )?;
        let reserved = look.reserved_for(address) == Some(&podref);
        must(reserved, &format!("{address} is reserved for {pod}"))
    }

    fn must_be_free(&self, look: &Look, address: &str) -> Result<(), Failure> {
        let free = look.row(address).is_none() && look.reserved_for(address).is_none();
        must(
            free,
            &format!("{address} is free in namespace {}", self.stage.namespace),
        )
    }
}

/// The story goes on only if this holds.
fn must(holds: bool, what: &str) -> Result<(), Failure> {
    if holds {
        return Ok(());
    }
    Err(Failure::Story(what.to_owned()))
}

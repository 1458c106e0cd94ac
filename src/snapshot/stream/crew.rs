//! Threads that parse pieces of a list, so that a gigabyte takes no longer than all processors need for it.
//!
//! A piece is a guess: where an item ends, white space tells, not syntax. It counts only if all of it parses as
//! items with commas behind them, which proves that it was cut between two items; else all pieces that are left are
//! handed back as they were given. Pieces come back in the order in which they were given.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{Builder, Scope, available_parallelism},
};

use ipgc_core::outline::{Item, Items};

/// More threads than that are slower than the one that gathers their results.
const MOST: usize = 8;
/// Pieces to a thread: one that it parses, and the next.
const EACH: usize = 2;

/// Part of the text of a list.
pub(super) struct Piece {
    pub(super) text: Vec<u8>,
    /// Where it begins in `text`.
    pub(super) from: usize,
    /// The place of that in all of the text.
    pub(super) at: u64,
}

/// The items of a piece with their places in its text; `None` if it is anything else.
pub(super) type Parsed = Option<Vec<(Item, Range<usize>)>>;

struct Worker {
    give: SyncSender<Piece>,
    take: Receiver<(Piece, Parsed)>,
}

pub(super) struct Crew {
    workers: Vec<Worker>,
    /// Who has the pieces that were given, in their order.
    busy: VecDeque<usize>,
    next: usize,
}

impl Crew {
    /// Nobody where there is one processor only, or where no thread can be had.
    pub(super) fn hire<'s>(scope: &'s Scope<'s, '_>, whole_pods: bool) -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        // musl's allocator has one lock, for which threads that take memory for each item mostly wait.
        let most = if cfg!(target_env = "musl") { 1 } else { MOST };
        let count = if processors > 1 {
            processors.min(most)
        } else {
            0
        };
        let hire = |_| {
            let (give, pieces) = sync_channel::<Piece>(EACH);
            let (done, take) = sync_channel(EACH);
            let work = move || {
                let mut items = Items::new(whole_pods);
                for piece in pieces {
                    let parsed = items.all(&piece.text[piece.from..]);
                    // Whoever wants no more has an error to report.
                    if done.send((piece, parsed)).is_err() {
                        return;
                    }
                }
            };
            let thread = Builder::new().spawn_scoped(scope, work);
            thread.is_ok().then_some(Worker { give, take })
        };
        Self {
            workers: (0..count).map_while(hire).collect(),
            busy: VecDeque::new(),
            next: 0,
        }
    }

    /// Whether one more piece can be given without waiting.
    pub(super) fn is_ready(&self) -> bool {
        self.busy.len() < self.workers.len() * EACH
    }

    /// Gives a piece; only where [`Self::is_ready`].
    pub(super) fn give(&mut self, piece: Piece) -> Result<(), Piece> {
        let at = self.next % self.workers.len().max(1);
        let Some(worker) = self.workers.get(at) else {
            return Err(piece);
        };
        worker.give.send(piece).map_err(|error| error.0)?;
        self.busy.push_back(at);
        self.next += 1;
        Ok(())
    }

    /// Waits for the piece that was given first; `None` when none is left.
    pub(super) fn take(&mut self) -> Option<(Piece, Parsed)> {
        let at = self.busy.pop_front()?;
        // A worker ends when nobody gives to it any more.
        self.workers.get(at)?.take.recv().ok()
    }
}

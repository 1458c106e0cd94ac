//! Work on several processors: threads that end before the call does, and no state between calls.

use std::{
    collections::BTreeMap,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    thread::{Builder, available_parallelism, scope},
};

/// More than that, and what gathers their results is slower than they are.
const MOST: usize = 8;

/// How many threads are worth having. musl's allocator has one lock: threads that take memory for each row and name
/// mostly wait for it there: of two that judge, none is faster than the calling thread alone (docs/audit.md).
pub fn threads() -> usize {
    let most = if cfg!(target_env = "musl") { 1 } else { MOST };
    available_parallelism().map_or(1, usize::from).min(most)
}

/// Gives what `each` makes of the items to `take`, in their order and as soon as it is there. The calling thread does
/// all of it where no other can be had.
pub fn map<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> R + Sync, mut take: impl FnMut(R)) {
    let next = AtomicUsize::new(0);
    let work = |done: SyncSender<(usize, R)>| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            if done.send((at, each(item))).is_err() {
                return;
            }
        }
    };
    scope(|scope| {
        let threads = threads().min(items.len());
        let (done, results) = sync_channel(threads);
        let hire = |_| {
            let (work, done) = (&work, done.clone());
            Builder::new().spawn_scoped(scope, move || work(done)).ok()
        };
        // One alone would do what the calling thread can do itself.
        let threads = if threads > 1 { threads } else { 0 };
        let hired = (0..threads).map_while(hire).count();
        drop(done);
        if hired == 0 {
            return items.iter().map(&each).for_each(take);
        }
        let mut early = BTreeMap::new();
        let mut next = 0;
        for (at, result) in results {
            early.insert(at, result);
            while let Some(result) = early.remove(&next) {
                take(result);
                next += 1;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..1_000).collect();
        let mut doubled = Vec::new();
        map(&items, |item| item * 2, |result| doubled.push(result));
        assert_eq!(
            doubled,
            items.iter().map(|item| item * 2).collect::<Vec<_>>()
        );
        map(&[], |item: &u32| *item, |_| panic!("there is none"));
    }
}

//! A keyed delay queue with bounded retries.
//!
//! One item for each key. An item is either waiting for its time or checked out by one worker;
//! pushing a key that is there never makes a second one, so two workers never hold one item; pushed
//! while it is checked out, it comes out once more after it was finished. A worker that
//! has an item must give it back with exactly one of [`Queue::finish`], [`Queue::retry`] and
//! [`Queue::defer`]. The queue holds no more than its capacity: what does not fit is refused.

use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard},
    task::Poll,
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::time::{DelayQueue, delay_queue};

use crate::{backoff::Backoff, lock::lock};

/// Longest wait of one turn in the timer, which panics past about two years. What waits longer
/// comes out early and is deferred again.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// A keyed delay queue; see the module.
#[derive(Debug)]
pub struct Queue<K, V> {
    inner: Mutex<Inner<K, V>>,
    /// Only one worker at a time may poll the timer, which remembers a single waker.
    turn: tokio::sync::Mutex<()>,
    capacity: usize,
    max_retries: u32,
    backoff: Backoff,
}

#[derive(Debug)]
struct Inner<K, V> {
    due: DelayQueue<K>,
    items: HashMap<K, Item<V>>,
}

#[derive(Debug)]
struct Item<V> {
    value: V,
    failures: u32,
    place: Place,
    /// Pushed while it was checked out, with this wait.
    again: Option<Duration>,
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// With its entry in the timer.
    Waiting(delay_queue::Key),
    CheckedOut,
}

/// The queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full")]
pub struct Full;

/// What became of an item that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It comes out again after this wait.
    After(Duration),
    /// It has failed too often and is no longer in the queue.
    Exhausted,
}

impl<K: Clone + Eq + Hash, V: Clone> Queue<K, V> {
    /// A queue for at most `capacity` items, each of which may fail `max_retries` times and be
    /// tried again.
    #[must_use]
    pub fn new(capacity: usize, max_retries: u32, backoff: Backoff) -> Self {
        Self {
            inner: Mutex::new(Inner {
                due: DelayQueue::new(),
                items: HashMap::new(),
            }),
            turn: tokio::sync::Mutex::new(()),
            capacity,
            max_retries,
            backoff,
        }
    }

    /// Puts an item in, to come out after `wait`. Of a key that is there, the value stays.
    ///
    /// # Errors
    /// When the queue is full.
    pub fn push(&self, key: K, value: V, wait: Duration) -> Result<(), Full> {
        let mut inner = self.lock();
        if let Some(item) = inner.items.get_mut(&key) {
            if item.place == Place::CheckedOut {
                item.again = Some(wait);
            }
            return Ok(());
        }
        if inner.items.len() >= self.capacity {
            return Err(Full);
        }
        let timer = inner.due.insert(key.clone(), wait.min(LONGEST_WAIT));
        let item = Item {
            value,
            failures: 0,
            place: Place::Waiting(timer),
            again: None,
        };
        inner.items.insert(key, item);
        Ok(())
    }

    /// Checks out the next item that is due, waiting for one as long as it takes.
    pub async fn next(&self) -> (K, V) {
        let _turn = self.turn.lock().await;
        std::future::poll_fn(|cx| {
            let mut inner = self.lock();
            loop {
                match inner.due.poll_expired(cx) {
                    Poll::Ready(Some(expired)) => {
                        let key = expired.into_inner();
                        // A key in the timer is always among the items.
                        if let Some(item) = inner.items.get_mut(&key) {
                            item.place = Place::CheckedOut;
                            return Poll::Ready((key, item.value.clone()));
                        }
                    }
                    // Empty: the timer keeps the waker, and the next push wakes it.
                    Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// The value of a key that is in the queue.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.lock().items.get(key).map(|item| item.value.clone())
    }

    /// Makes a waiting item due after `wait`, sooner or later than it was; one that is checked out
    /// comes back no later than that.
    pub fn reschedule<Q: Eq + Hash + ?Sized>(&self, key: &Q, wait: Duration)
    where
        K: Borrow<Q>,
    {
        let mut inner = self.lock();
        let Inner { due, items } = &mut *inner;
        match items.get_mut(key) {
            Some(Item {
                place: Place::Waiting(timer),
                ..
            }) => due.reset(timer, wait.min(LONGEST_WAIT)),
            Some(item) => item.again = Some(wait),
            None => {}
        }
    }

    /// Gives an item back that is done.
    pub fn finish<Q: Eq + Hash + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let mut inner = self.lock();
        if let Some((key, item)) = inner.items.remove_entry(key)
            && let Some(wait) = item.again
        {
            let timer = inner.due.insert(key.clone(), wait.min(LONGEST_WAIT));
            let item = Item {
                failures: 0,
                place: Place::Waiting(timer),
                again: None,
                ..item
            };
            inner.items.insert(key, item);
        }
    }

    /// Gives an item back that is not due yet; this counts as no failure.
    pub fn defer<Q: Eq + Hash + ?Sized>(&self, key: &Q, wait: Duration)
    where
        K: Borrow<Q>,
    {
        self.give_back(key, wait);
    }

    /// Gives an item back that failed, to be tried again after the backoff, and no sooner than
    /// `at_least`. After the last retry it leaves the queue.
    pub fn retry<Q: Eq + Hash + ?Sized>(&self, key: &Q, at_least: Duration) -> Retry
    where
        K: Borrow<Q>,
    {
        let failures = {
            let mut inner = self.lock();
            let Some(item) = inner.items.get_mut(key) else {
                return Retry::Exhausted;
            };
            if item.failures >= self.max_retries {
                drop(inner);
                self.finish(key);
                return Retry::Exhausted;
            }
            item.failures += 1;
            item.failures
        };
        let wait = self.backoff.wait_after(failures - 1).max(at_least);
        self.give_back(key, wait);
        Retry::After(wait)
    }

    /// How long until the next item is due; nothing if none waits.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        let inner = self.lock();
        let next = inner.due.peek()?;
        Some(
            inner
                .due
                .deadline(&next)
                .saturating_duration_since(Instant::now()),
        )
    }

    /// Whether an item with this key is in the queue, waiting or checked out.
    #[must_use]
    pub fn contains<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.lock().items.contains_key(key)
    }

    /// Items in the queue, waiting and checked out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Whether there is none.
    #[cfg(test)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn give_back<Q: Eq + Hash + ?Sized>(&self, key: &Q, wait: Duration)
    where
        K: Borrow<Q>,
    {
        let mut inner = self.lock();
        let Some((owned, mut item)) = inner.items.remove_entry(key) else {
            return;
        };
        if item.place == Place::CheckedOut {
            // Pushed meanwhile, it is wanted sooner, perhaps.
            let wait = item.again.take().map_or(wait, |again| wait.min(again));
            let timer = inner.due.insert(owned.clone(), wait.min(LONGEST_WAIT));
            item.place = Place::Waiting(timer);
        }
        inner.items.insert(owned, item);
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K, V>> {
        // Nothing panics while the lock is held; were it so, the map would still be whole.
        lock(&self.inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::time::timeout;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn queue(capacity: usize, max_retries: u32) -> Queue<&'static str, u8> {
        let backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
        Queue::new(capacity, max_retries, backoff)
    }

    #[tokio::test(start_paused = true)]
    async fn items_come_out_when_they_are_due() {
        let queue = queue(10, 0);
        let begun = Instant::now();
        assert_eq!(queue.push("late", 2, 2 * SECOND), Ok(()));
        assert_eq!(queue.push("early", 1, SECOND), Ok(()));
        assert_eq!(queue.next().await, ("early", 1));
        assert!(begun.elapsed() >= SECOND);
        assert_eq!(queue.next().await, ("late", 2));
        assert!(begun.elapsed() >= 2 * SECOND && begun.elapsed() < 3 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_never_held_twice() {
        let queue = queue(10, 0);
        assert_eq!(queue.push("a", 1, Duration::ZERO), Ok(()));
        assert_eq!(queue.push("a", 2, Duration::ZERO), Ok(()));
        assert_eq!(queue.next().await, ("a", 1));
        assert!(timeout(SECOND, queue.next()).await.is_err());
        queue.finish("a");
        assert_eq!(queue.push("a", 4, Duration::ZERO), Ok(()));
        assert_eq!(queue.next().await, ("a", 4));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_pushed_while_it_is_checked_out_comes_out_once_more() {
        let queue = queue(10, 0);
        assert_eq!(queue.push("a", 1, Duration::ZERO), Ok(()));
        queue.next().await;
        assert_eq!(queue.push("a", 2, SECOND), Ok(()));
        queue.finish("a");
        assert_eq!(queue.next().await, ("a", 1));
        queue.finish("a");
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_can_be_had_sooner() {
        let queue = queue(10, 0);
        let begun = Instant::now();
        assert_eq!(queue.push("a", 1, 60 * SECOND), Ok(()));
        queue.reschedule("a", SECOND);
        assert_eq!(queue.next().await, ("a", 1));
        // Checked out: it was wanted sooner than it is given back for.
        queue.reschedule("a", SECOND);
        queue.defer("a", 60 * SECOND);
        assert_eq!(queue.next().await, ("a", 1));
        assert!(begun.elapsed() < 3 * SECOND);
        queue.finish("a");
        queue.reschedule("a", SECOND);
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn retries_are_bounded_and_deferring_is_none() {
        let queue = queue(10, 2);
        assert_eq!(queue.push("a", 1, Duration::ZERO), Ok(()));
        for _ in 0..10 {
            queue.next().await;
            queue.defer("a", SECOND);
        }
        for _ in 0..2 {
            queue.next().await;
            assert!(matches!(queue.retry("a", SECOND), Retry::After(wait) if wait >= SECOND));
        }
        queue.next().await;
        assert_eq!(queue.retry("a", SECOND), Retry::Exhausted);
        assert!(queue.is_empty());
        assert!(timeout(SECOND, queue.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_that_is_due_is_known_beforehand() {
        let queue = queue(10, 0);
        assert_eq!(queue.next_due(), None);
        assert_eq!(queue.push("late", 2, 20 * SECOND), Ok(()));
        assert_eq!(queue.push("early", 1, 2 * SECOND), Ok(()));
        let about = |wait: Option<Duration>, wanted: Duration| {
            wait.is_some_and(|wait| wait.abs_diff(wanted) < SECOND / 10)
        };
        assert!(about(queue.next_due(), 2 * SECOND));
        queue.next().await;
        assert!(about(queue.next_due(), 18 * SECOND));
        tokio::time::sleep(30 * SECOND).await;
        assert!(about(queue.next_due(), Duration::ZERO));
        queue.next().await;
        assert_eq!(queue.next_due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_fit_is_refused() {
        let queue = queue(1, 0);
        assert_eq!(queue.push("a", 1, SECOND), Ok(()));
        assert_eq!(queue.push("b", 2, SECOND), Err(Full));
        assert_eq!(queue.push("a", 3, SECOND), Ok(()));
        assert_eq!(queue.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn every_waiting_worker_is_woken() {
        let queue = Arc::new(queue(10, 0));
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let queue = Arc::clone(&queue);
                tokio::spawn(async move { queue.next().await.0 })
            })
            .collect();
        tokio::time::sleep(SECOND).await;
        for key in ["a", "b", "c", "d"] {
            assert_eq!(queue.push(key, 0, SECOND), Ok(()));
        }
        let mut got = Vec::new();
        for worker in workers {
            got.extend(timeout(2 * SECOND, worker).await.map(Result::ok));
        }
        got.sort_unstable();
        assert_eq!(got, [Some("a"), Some("b"), Some("c"), Some("d")]);
    }

    #[tokio::test(start_paused = true)]
    async fn waits_of_years_do_not_panic() {
        let queue = queue(10, 0);
        assert_eq!(queue.push("a", 1, Duration::MAX), Ok(()));
        assert_eq!(queue.next().await, ("a", 1));
    }
}

//! Revisions: every version of every object, the log that watches read, and compaction.
//!
//! Like etcd, one counter numbers all writes of all resources; a read at an earlier revision sees
//! exactly the state of that moment until compaction forgets it. The store knows no HTTP and no
//! rules of resources; it never rejects a write.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::object::Object;

/// How long old revisions stay readable at least.
const RETENTION: Duration = Duration::from_mins(5);

/// Selects the objects of a collection that a request asks for.
pub(crate) type Select<'s> = dyn Fn(&Key, &Object) -> bool + 's;

/// Place of an object within its resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The object is new.
    Added,
    /// The object existed before.
    Modified,
    /// The object is gone; its last state is in the change.
    Deleted,
}

/// One write.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) kind: ChangeKind,
    pub(crate) key: Key,
    /// The state written, or the last state under the revision of the deletion.
    pub(crate) object: Arc<Object>,
    pub(crate) previous: Option<Arc<Object>>,
    pub(crate) at: Instant,
    /// Label of the client that wrote, empty for direct access by the test.
    pub(crate) by: Arc<str>,
}

impl Change {
    pub(crate) fn revision(&self) -> u64 {
        self.object.revision
    }
}

/// Versions of one object, oldest first; `None` marks a deletion.
type Versions = Vec<(u64, Option<Arc<Object>>)>;

/// All objects of one resource.
#[derive(Debug)]
struct Table {
    objects: BTreeMap<Key, Versions>,
    /// Writes that watches may still ask for, oldest first.
    log: VecDeque<Arc<Change>>,
    /// Revision of the newest write that the log has forgotten.
    forgotten: u64,
    history: Vec<Arc<Change>>,
    wake: watch::Sender<u64>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            forgotten: 0,
            history: Vec::new(),
            wake: watch::Sender::new(0),
        }
    }
}

/// A page of a list.
pub(crate) struct Page {
    pub(crate) items: Vec<(Key, Arc<Object>)>,
    /// Whether more follow.
    pub(crate) is_cut: bool,
    /// How many follow, where everything is selected.
    pub(crate) remaining: Option<usize>,
}

impl Page {
    /// Key of the last item, if more follow.
    pub(crate) fn next(&self) -> Option<&Key> {
        let last = self.items.last().filter(|_| self.is_cut);
        last.map(|(key, _)| key)
    }
}

/// The revision asked for is compacted.
pub(crate) struct Compacted;

/// A copy of all objects, as a backup of etcd is one.
#[derive(Clone, Debug)]
pub struct Backup {
    revision: u64,
    tables: Vec<Vec<(Key, Arc<Object>)>>,
}

/// All state of the server.
#[derive(Debug)]
pub(crate) struct Store {
    tables: Vec<Table>,
    revision: u64,
    compacted: u64,
    uids: u64,
    /// When retention last looked, and the revision of that moment.
    mark: (Instant, u64),
}

impl Store {
    pub(crate) fn new(tables: usize) -> Self {
        Self {
            tables: (0..tables).map(|_| Table::default()).collect(),
            // A real cluster never starts at 1 either; 0 has a meaning of its own in requests.
            revision: 1,
            compacted: 0,
            uids: 0,
            mark: (Instant::now(), 1),
        }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// A new uid: counted, in the form of a UUID.
    pub(crate) fn next_uid(&mut self) -> String {
        self.uids += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.uids)
    }

    pub(crate) fn latest(&self, table: usize, key: &Key) -> Option<&Arc<Object>> {
        self.tables[table]
            .objects
            .get(key)
            .and_then(|versions| versions.last())
            .and_then(|(_, object)| object.as_ref())
    }

    pub(crate) fn at(&self, table: usize, key: &Key, revision: u64) -> Option<&Arc<Object>> {
        let versions = self.tables[table].objects.get(key)?;
        version_at(versions, revision)
    }

    /// Live objects of a resource, in key order; of one namespace if given.
    pub(crate) fn live<'a>(
        &'a self,
        table: usize,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Object>)> {
        self.range(table, namespace, None)
            .filter_map(|(key, versions)| Some((key, versions.last()?.1.as_ref()?)))
    }

    fn range<'a>(
        &'a self,
        table: usize,
        namespace: Option<&'a str>,
        after: Option<&Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a Versions)> + use<'a> {
        let start = match (after, namespace) {
            (Some(key), _) => Bound::Excluded(key.clone()),
            (None, Some(namespace)) => Bound::Included(Key::new(namespace, "")),
            (None, None) => Bound::Unbounded,
        };
        self.tables[table]
            .objects
            .range((start, Bound::Unbounded))
            .take_while(move |(key, _)| namespace.is_none_or(|wanted| *key.namespace == *wanted))
    }

    /// Objects as of `revision`, behind `after`, at most `limit` of those that `select` takes; of all,
    /// if there is no such condition.
    pub(crate) fn page(
        &self,
        table: usize,
        namespace: Option<&str>,
        revision: u64,
        after: Option<&Key>,
        limit: Option<usize>,
        select: Option<&Select<'_>>,
    ) -> Result<Page, Compacted> {
        if revision < self.compacted {
            return Err(Compacted);
        }
        let mut objects = self
            .range(table, namespace, after)
            .filter_map(|(key, versions)| Some((key, version_at(versions, revision)?)))
            .filter(|(key, object)| select.is_none_or(|select| select(key, object)));
        let items = objects.by_ref().take(limit.unwrap_or(usize::MAX));
        let items: Vec<_> = items
            .map(|(key, object)| (key.clone(), Arc::clone(object)))
            .collect();
        // One object more than fits: the list goes on behind the last one taken.
        let is_cut = objects.next().is_some();
        let remaining = (is_cut && select.is_none()).then(|| 1 + objects.count());
        Ok(Page {
            items,
            is_cut,
            remaining,
        })
    }

    /// Writes a new state of an object, built by `build` for the revision it gets.
    pub(crate) fn put(
        &mut self,
        table: usize,
        key: Key,
        by: &Arc<str>,
        build: impl FnOnce(u64) -> Object,
    ) -> Arc<Object> {
        self.forget_old();
        self.revision += 1;
        let object = Arc::new(build(self.revision));
        let previous = self.latest(table, &key).cloned();
        let kind = if previous.is_some() {
            ChangeKind::Modified
        } else {
            ChangeKind::Added
        };
        self.record(table, kind, key, Arc::clone(&object), previous, by);
        object
    }

    /// Removes an object; the answer is its last state under the revision of the removal.
    pub(crate) fn remove(&mut self, table: usize, key: &Key, by: &Arc<str>) -> Option<Arc<Object>> {
        self.forget_old();
        let previous = self.latest(table, key).cloned()?;
        self.revision += 1;
        let last = Arc::new(previous.at_revision(self.revision));
        self.record(
            table,
            ChangeKind::Deleted,
            key.clone(),
            Arc::clone(&last),
            Some(previous),
            by,
        );
        Some(last)
    }

    fn record(
        &mut self,
        table: usize,
        kind: ChangeKind,
        key: Key,
        object: Arc<Object>,
        previous: Option<Arc<Object>>,
        by: &Arc<str>,
    ) {
        let revision = self.revision;
        let table = &mut self.tables[table];
        let state = (kind != ChangeKind::Deleted).then(|| Arc::clone(&object));
        table
            .objects
            .entry(key.clone())
            .or_default()
            .push((revision, state));
        let change = Arc::new(Change {
            kind,
            key,
            object,
            previous,
            at: Instant::now(),
            by: Arc::clone(by),
        });
        table.history.push(Arc::clone(&change));
        table.log.push_back(change);
        table.wake.send_modify(|count| *count += 1);
    }

    /// Writes after `cursor`, oldest first; fails if some of them are forgotten.
    pub(crate) fn changes_after(
        &self,
        table: usize,
        cursor: u64,
    ) -> Result<impl Iterator<Item = &Arc<Change>>, Compacted> {
        let table = &self.tables[table];
        if cursor < table.forgotten {
            return Err(Compacted);
        }
        let start = table
            .log
            .partition_point(|change| change.revision() <= cursor);
        Ok(table.log.range(start..))
    }

    /// The first write after `cursor`; fails if some are forgotten.
    pub(crate) fn next_change(
        &self,
        table: usize,
        cursor: u64,
    ) -> Result<Option<Arc<Change>>, Compacted> {
        Ok(self.changes_after(table, cursor)?.next().cloned())
    }

    pub(crate) fn history(&self, table: usize) -> &[Arc<Change>] {
        &self.tables[table].history
    }

    /// A copy of what is there now.
    pub(crate) fn back_up(&self) -> Backup {
        let tables = 0..self.tables.len();
        let tables = tables.map(|table| {
            let live = self.live(table, None);
            live.map(|(key, object)| (key.clone(), Arc::clone(object)))
                .collect()
        });
        Backup {
            revision: self.revision,
            tables: tables.collect(),
        }
    }

    /// Puts a copy in the place of all objects: revisions go on from that of the copy.
    pub(crate) fn restore(&mut self, backup: Backup) {
        self.revision = backup.revision;
        self.compacted = backup.revision;
        self.mark = (Instant::now(), backup.revision);
        for (table, objects) in self.tables.iter_mut().zip(backup.tables) {
            table.log.clear();
            table.forgotten = backup.revision;
            let version = |object: Arc<Object>| vec![(object.revision, Some(object))];
            table.objects = objects
                .into_iter()
                .map(|(key, object)| (key, version(object)))
                .collect();
        }
    }

    /// Subscribes to the writes of a resource.
    pub(crate) fn subscribe(&self, table: usize) -> watch::Receiver<u64> {
        self.tables[table].wake.subscribe()
    }

    pub(crate) fn wake_all(&self) {
        for table in &self.tables {
            table.wake.send_modify(|count| *count += 1);
        }
    }

    /// Forgets what retention allows: the state before the last look, once that is old enough.
    pub(crate) fn forget_old(&mut self) {
        let now = Instant::now();
        let (since, revision) = self.mark;
        let age = now.saturating_duration_since(since);
        if age < RETENTION {
            return;
        }
        // Nothing was written since the last look, or there would have been a look.
        let quiet = age >= 2 * RETENTION;
        self.compact(if quiet { self.revision } else { revision });
        self.mark = (now, self.revision);
    }

    /// Forgets all versions that were replaced up to `revision`.
    pub(crate) fn compact(&mut self, revision: u64) {
        if revision <= self.compacted {
            return;
        }
        self.compacted = revision;
        for table in &mut self.tables {
            while let Some(change) = table.log.front() {
                if change.revision() > revision {
                    break;
                }
                table.forgotten = change.revision();
                if let Some(versions) = table.objects.get_mut(&change.key) {
                    let keep = versions.partition_point(|(at, _)| *at <= revision);
                    versions.drain(..keep.saturating_sub(1));
                    let dead = versions
                        .first()
                        .is_some_and(|(at, state)| *at <= revision && state.is_none());
                    if dead {
                        versions.remove(0);
                    }
                    if versions.is_empty() {
                        table.objects.remove(&change.key);
                    }
                }
                table.log.pop_front();
            }
        }
    }
}

fn version_at(versions: &Versions, revision: u64) -> Option<&Arc<Object>> {
    let end = versions.partition_point(|(at, _)| *at <= revision);
    versions.get(end.checked_sub(1)?)?.1.as_ref()
}

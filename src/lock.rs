//! Locks that are held for a moment and never across a wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What several tasks read and write.
pub type Shared<T> = Arc<Mutex<T>>;

/// Takes the lock. Nothing panics while one of ours is held; were it so, what it guards would still
/// be whole.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

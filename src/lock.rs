//! Locks that are held for a moment and never across a wait.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the lock. Nothing panics while one of ours is held; were it so, what it guards would still
/// be whole.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

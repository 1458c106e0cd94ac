//! Equal lists of pods, kept once.
//!
//! Pods of one controller have the same interfaces, networks and containers. Without this, 100,000 pods would take half
//! as much memory again.

use std::{collections::HashSet, hash::Hash, sync::Arc};

use crate::{
    networks::{Interface, Request, Status},
    pod::Container,
};

use super::live::Live;

/// Lists that pods have, each of them once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Common {
    interfaces: HashSet<Arc<[Interface]>>,
    containers: HashSet<Arc<[Container]>>,
    /// Of networks that pods ask for, and of containers that started.
    names: HashSet<Arc<[Box<str>]>>,
}

impl Common {
    /// Lets this pod have the lists of others where they are equal.
    pub fn share(&mut self, live: &mut Live) {
        if let Status::Valid(reported) = &mut live.state.status {
            share(&mut self.interfaces, &mut reported.interfaces);
        }
        if let Request::Valid(networks) = &mut live.state.request {
            share(&mut self.names, networks);
        }
        share(&mut self.containers, &mut live.state.containers);
        share(&mut self.names, &mut live.trail.started);
    }

    /// Forgets the lists that no pod has any more.
    pub fn purge(&mut self) {
        purge(&mut self.interfaces);
        purge(&mut self.containers);
        purge(&mut self.names);
    }
}

fn share<T: Eq + Hash>(known: &mut HashSet<Arc<[T]>>, list: &mut Arc<[T]>) {
    if let Some(equal) = known.get(list) {
        *list = Arc::clone(equal);
    } else {
        known.insert(Arc::clone(list));
    }
}

fn purge<T>(known: &mut HashSet<Arc<[T]>>) {
    known.retain(|list| Arc::strong_count(list) > 1);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::time::Moment;
    use testkit::fixtures::pod;

    use super::*;
    use crate::pods::tests::state;

    fn live(name: &str) -> Live {
        let pod = pod("d", name).uid(name).node("n").networks("net");
        let pod = pod.reports("d/net", "net1", &["10.0.0.1"]).running();
        Live::new(state(pod), None, true, Moment::EPOCH)
    }

    #[test]
    fn equal_lists_are_one_until_no_pod_has_them() {
        let mut common = Common::default();
        let [mut a, mut b] = ["a", "b"].map(live);
        common.share(&mut a);
        common.share(&mut b);
        assert!(Arc::ptr_eq(&a.state.containers, &b.state.containers));
        assert!(Arc::ptr_eq(&a.trail.started, &b.trail.started));
        common.purge();
        let of_status = common.interfaces.len();
        assert_eq!(
            (of_status, common.containers.len(), common.names.len()),
            (1, 1, 2)
        );
        drop((a, b));
        common.purge();
        assert!(common.interfaces.is_empty() && common.containers.is_empty());
        assert!(common.names.is_empty());
    }

    /// A hundred thousand of them are kept, in blocks of musl's that hold 316 bytes each.
    #[test]
    fn a_pod_is_small() {
        assert!(size_of::<Live>() <= 316, "{}", size_of::<Live>());
    }
}

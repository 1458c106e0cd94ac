//! What a run of many seeds must have seen: a count that stays at zero is a hole of the simulation.

use std::collections::BTreeMap;

/// With fewer seeds some of these do not happen.
pub const ENOUGH: u64 = 5_000;

/// Deeds and their marks, faults, grades with causes, and verdicts with rules.
const SEEN: &str = "
ADD fails; ADD takes a row over; ADD writes a row; DEL; DEL is lost; DEL leaves the reservation; a claim is deleted;
a claim is forbidden; a clock jumps; a definition is deleted; a kubelet stops; a machine boots;
a machine is cut off; a machine loses power; a manifest is removed; a mirror is made again; a network is plugged in;
a network is unplugged; a node is declared empty; a node is drained; a node is fenced; a node gets a slice;
a node is removed; a pod ends by itself; a pod is deleted; a pod is deleted by force; a pool is deleted;
a pool is exempted; a sandbox breaks; a sandbox dies; a second sandbox goes unseen; a successor is deleted; a successor is deleted by force; a taint is forgotten;
a set-up is cut off; a virtual machine migrates; all watches end; etcd is restored; no name is used again;
old versions are forgotten; pods are evicted; the breaker is acknowledged; whereabouts' reconciler frees a row;
release --force; release --force is refused; release: freed; release: freed but for its reservation; release: kept;
ipgc is stopped; claims are allowed again; crash before a write; crash after a write; fault: 401; fault: 403;
fault: 404; fault: 409; fault: 410; fault: 422; fault: 429; fault: 500; fault: 503; fault: 504;
fault: 404 for each of nodes; fault: 404 for each of pods; fault: a copy is cut off;
fault: answers are spoiled: Html; fault: answers are spoiled: Item(0); fault: answers are spoiled: Truncated;
fault: connection breaks; fault: deaf watch of nodes; fault: deaf watch of pods;
fault: delete of overlappingrangeipreservations forbidden; fault: done late; fault: done, then 500;
fault: done, then 504; fault: done, then the connection breaks; fault: get of pods forbidden;
fault: list of leases forbidden; fault: no answer; fault: no watch of pods; fault: patch of ippools forbidden;
fault: patch of overlappingrangeipreservations forbidden; fault: slow answers; fault: watches lag;
freed a row of a claim; freed fenced completed; freed fenced deleted; freed settled completed;
freed settled deleted; freed unwitnessed deleted; freed unwitnessed leftover; freed unwitnessed predecessor;
freed witnessed completed; freed witnessed deleted; ipgc frees_refused; ipgc frees_stopped; ipgc history_went_back;
ipgc left_to_sweep; ipgc pools_unreadable; ipgc reservations_freed; ipgc retries_exhausted; ipgc rows_held;
ipgc sweeps_failed; verdict unfenced rule 2 unfenced; verdict unreported rule 2; kept: a claim is forbidden;
verdict stale rule 3 unwitnessed; verdict stale rule 4 witnessed; verdict stale rule 8 unwitnessed;
verdict unfenced rule 3 unfenced; verdict unfenced rule 4 unfenced; verdict unknown rule 1;
verdict unreported rule 7; verdict unreported rule 9
";

/// Those that did not happen.
pub fn missing(counts: &BTreeMap<String, u64>) -> Vec<&'static str> {
    let all = SEEN.split(';').map(str::trim);
    all.filter(|name| !counts.keys().any(|it| it.trim_end() == *name))
        .collect()
}

//! ADD and DEL of whereabouts 0.9.4, step by step: lowest free address, a row taken over, reservations, lost and half-done
//! DELs; and its reconciler. Writes to the API server directly; how long a step takes is the dice's choice.

use std::{net::IpAddr, time::Duration};

use ipgc_core::address::{Offset, Range, reservation_names};
use serde_json::{Value, json};
use testkit::fixtures;
use tokio::time::{Instant, sleep};

use crate::{
    resource_claims::writer,
    story::Net,
    world::{Address, Doubled, NS, World, rows},
};

pub(crate) const ORIP: &str = "overlappingrangeipreservations";

/// The outcome of a DEL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Del {
    /// The row and its reservation are gone.
    Done,
    /// It reports success, and nothing was done.
    Lost,
    /// The row is gone, and its reservation is not.
    Half,
}

/// The name of the reservation of an address.
fn reservation_of(of: &Net, ip: IpAddr) -> Option<String> {
    let mut names = reservation_names(ip, of.network_name).into_iter();
    if of.spells_out {
        names.last()
    } else {
        names.next()
    }
}

/// One look of an ADD at a pool: the version that it saw, and the key that it chose.
struct Look {
    version: String,
    key: String,
    ip: IpAddr,
    is_own: bool,
    has_reservation: bool,
}

impl World {
    /// ADD of one network: an address of each of its ranges. False if it failed: then the sandbox has none of them, though
    /// rows that were written stay.
    pub async fn add(&self, sandbox: usize, net: usize, interface: &str) -> bool {
        let is_done = self.add_rows(sandbox, net, interface).await;
        if is_done {
            self.has_all(sandbox, net, interface);
        } else {
            let mut state = self.state();
            let addresses = &mut state.sandboxes[sandbox].addresses;
            addresses.retain(|it| it.net != net || it.interface != interface || it.answers);
        }
        is_done
    }

    async fn add_rows(&self, sandbox: usize, net: usize, interface: &str) -> bool {
        let begun = Instant::now();
        let of = self.nets[net].clone();
        let machine = self.state().sandboxes[sandbox].machine;
        let places = self.places_on(net, machine);
        for (pool, range) in &places {
            if self.server.get("ippools", NS, pool).is_none() {
                let object = fixtures::pool(NS, range).name(pool);
                self.server.put(object);
            }
            let Some(parsed) = Range::parse(range) else {
                return false;
            };
            let mut tries = 0;
            loop {
                let (id, podref) = {
                    let state = self.state();
                    let sandbox = &state.sandboxes[sandbox];
                    if !sandbox.runs() {
                        return false;
                    }
                    writer(&of, sandbox)
                };
                // The request deadline of the plugin.
                if begun.elapsed().as_secs() >= 60 || tries > 20 || !self.machine(machine).connected
                {
                    return false;
                }
                tries += 1;
                let looked = self.now();
                let Some(look) = self.look(pool, parsed, net, (&id, &podref), interface) else {
                    return false;
                };
                let long = self.state().long_looks;
                let pause = if self.percent(long) {
                    self.millis(500, 25_000)
                } else {
                    self.millis(5, 300)
                };
                sleep(pause).await;
                let is_there = self.state().sandboxes[sandbox].runs();
                if !is_there || !self.machine(machine).connected {
                    return false;
                }
                if !self.write_row(pool, &look, &id, &podref, interface) {
                    continue;
                }
                self.has(sandbox, net, pool, interface, &look, looked);
                if of.reserves && !look.has_reservation {
                    sleep(self.millis(5, 300)).await;
                    if !self.machine(machine).power
                        || !self.reserve(&of, look.ip, &podref, interface)
                    {
                        return false;
                    }
                }
                break;
            }
        }
        // A node without a slice fails.
        !places.is_empty()
    }

    /// The address that ADD chooses; none if the pool is full or gone.
    fn look(
        &self,
        pool: &str,
        range: Range,
        net: usize,
        (id, podref): (&str, &str),
        interface: &str,
    ) -> Option<Look> {
        let of = &self.nets[net];
        let object = self.server.get("ippools", NS, pool)?;
        let version = object["metadata"]["resourceVersion"].as_str()?.to_owned();
        let rows = rows(&object);
        let reservation = |ip: IpAddr| self.server.get(ORIP, NS, &reservation_of(of, ip)?);
        let owner = |it: &Value| it["spec"]["podref"].as_str().unwrap_or_default().to_owned();
        let own = rows.iter().find(|(_, row)| {
            let is_its = !of.of_claims || row["id"] == id;
            is_its && row["podref"] == podref && row["ifname"] == interface
        });
        let is_own = own.is_some();
        let free = (1..14_u64).map(|offset| offset.to_string());
        let free = free.filter(|key| !rows.contains_key(key));
        let keys: Vec<_> = match own {
            Some((key, _)) => vec![key.clone()],
            None => free.collect(),
        };
        for key in keys {
            let ip = range.address_at(Offset::parse(&key)?)?;
            let found = of.reserves.then(|| reservation(ip)).flatten();
            // Where that is its own row it would try again and again, until its time is over.
            if found.as_ref().is_none_or(|it| owner(it) == podref) {
                return Some(Look {
                    version,
                    key,
                    ip,
                    is_own,
                    has_reservation: found.is_some(),
                });
            }
        }
        None
    }

    /// Writes the row, if the pool is as it was seen.
    fn write_row(&self, pool: &str, look: &Look, id: &str, podref: &str, interface: &str) -> bool {
        let mut is_done = false;
        self.server.edit("ippools", NS, pool, |object| {
            if object["metadata"]["resourceVersion"] == look.version.as_str() {
                is_done = true;
                object["spec"]["allocations"][&look.key] =
                    json!({ "id": id, "podref": podref, "ifname": interface });
            }
        });
        is_done
    }

    /// Makes the reservation; false if there is one.
    fn reserve(&self, of: &Net, ip: IpAddr, podref: &str, interface: &str) -> bool {
        let Some(name) = reservation_of(of, ip) else {
            return false;
        };
        if self.server.get(ORIP, NS, &name).is_some() {
            return false;
        }
        self.server
            .put(fixtures::reservation(NS, &name, podref, interface));
        true
    }

    /// A row is written for a sandbox; a former sandbox of the pod hands its address over.
    fn has(
        &self,
        sandbox: usize,
        net: usize,
        pool: &str,
        interface: &str,
        look: &Look,
        looked: Duration,
    ) {
        let from = self.now();
        let mut state = self.state();
        let (id, podref) = {
            let new = &state.sandboxes[sandbox];
            (new.id.clone(), new.podref.clone())
        };
        if look.is_own {
            // Whereabouts' decision.
            let others = state.sandboxes.iter_mut().filter(|other| other.id != id);
            for address in others.flat_map(|other| &mut other.addresses) {
                if address.pool == pool && address.key == look.key {
                    address.until.get_or_insert(from);
                }
            }
        }
        state.sandboxes[sandbox].addresses.push(Address {
            ip: look.ip,
            pool: pool.to_owned(),
            key: look.key.clone(),
            net,
            interface: interface.to_owned(),
            from,
            accepted: look.has_reservation.then_some(looked),
            until: None,
            answers: false,
        });
        drop(state);
        let kind = if look.is_own {
            "ADD takes a row over"
        } else {
            "ADD writes a row"
        };
        let (ip, key, id) = (look.ip, &look.key, &id[..16]);
        self.tell(
            kind,
            format_args!("{ip} {podref} {interface} row {pool}/{key} of sandbox {id}"),
        );
    }

    /// ADD is done: the addresses answer from now on. Others that have one of them do so twice.
    fn has_all(&self, sandbox: usize, net: usize, interface: &str) {
        let now = self.now();
        let mut state = self.state();
        let id = state.sandboxes[sandbox].id.clone();
        let mut new = Vec::new();
        for address in &mut state.sandboxes[sandbox].addresses {
            if address.net == net && address.interface == interface {
                address.answers = true;
                new.push(address.clone());
            }
        }
        let mut doubled = Vec::new();
        for (at, other) in state.sandboxes.iter_mut().enumerate() {
            if at == sandbox || !other.runs() {
                continue;
            }
            let former = other.id.clone();
            for address in other
                .addresses
                .iter_mut()
                .filter(|it| it.until.is_none() && it.answers)
            {
                let is_same = |it: &Address| {
                    let (own, its) = (&self.nets[it.net], &self.nets[address.net]);
                    let is_shared = it.pool == address.pool || own.reserves && its.reserves;
                    it.ip == address.ip && own.network_name == its.network_name && is_shared
                };
                if new.iter().any(is_same) {
                    doubled.push(Doubled {
                        ip: address.ip,
                        sandboxes: (former.clone(), id.clone()),
                        row: (address.pool.clone(), address.key.clone()),
                        at: (address.from, now),
                    });
                    // Told once; the address is the second one's by its row.
                    address.until = Some(now);
                }
            }
        }
        state.doubled.extend(doubled);
    }

    /// DEL of one network: the row with the id of the sandbox goes, and its reservation by name.
    pub fn del(&self, sandbox: usize, net: usize, interface: &str, del: Del) {
        let (id, podref, machine) = {
            let state = self.state();
            let it = &state.sandboxes[sandbox];
            let (id, podref) = writer(&self.nets[net], it);
            (id, podref, it.machine)
        };
        let of = self.nets[net].clone();
        if del != Del::Lost {
            for (pool, range) in self.places_on(net, machine) {
                let mut freed = None;
                self.server.edit("ippools", NS, &pool, |object| {
                    let Some(rows) = object["spec"]["allocations"].as_object_mut() else {
                        return;
                    };
                    let key = rows
                        .iter()
                        .find(|(_, row)| row["id"] == id.as_str() && row["ifname"] == interface);
                    freed = key.map(|(key, _)| key.clone());
                    if let Some(key) = &freed {
                        rows.remove(key);
                    }
                });
                // Later ranges are not looked at.
                let Some(key) = freed else { break };
                let ip =
                    Range::parse(range).and_then(|range| range.address_at(Offset::parse(&key)?));
                let name = ip.and_then(|ip| reservation_of(&of, ip));
                if let (Some(name), true, Del::Done) = (name, of.reserves, del) {
                    self.server.delete(ORIP, NS, &name);
                }
            }
        }
        let now = self.now();
        let mut state = self.state();
        let addresses = state.sandboxes[sandbox].addresses.iter_mut();
        for address in addresses.filter(|it| it.net == net && it.interface == interface) {
            address.until.get_or_insert(now);
        }
        drop(state);
        if of.of_claims {
            // A newer sandbox of the pod has the same row.
            self.lose_rows();
        }
        let kind = match del {
            Del::Done => "DEL",
            Del::Lost => "DEL is lost",
            Del::Half => "DEL leaves the reservation",
        };
        self.tell(
            kind,
            format_args!("{podref} {interface} of sandbox {}", &id[..16]),
        );
    }

    /// Whereabouts' reconciler beside ipgc: it reads pools, then pods, and removes rows without a pod a moment later.
    pub(crate) async fn reconcile(self) {
        loop {
            sleep(Duration::from_secs(120)).await;
            let pools = self.server.list("ippools");
            let pods: Vec<_> = self
                .server
                .list("pods")
                .iter()
                .map(|pod| pod["metadata"]["name"].clone())
                .collect();
            sleep(self.millis(100, 3_000)).await;
            for pool in pools {
                let name = pool["metadata"]["name"].as_str().unwrap_or_default();
                for (key, row) in rows(&pool) {
                    let owner = row["podref"].as_str().unwrap_or_default();
                    let owner = owner.split_once('/').map_or(owner, |(_, name)| name);
                    if pods.iter().any(|pod| pod == owner) {
                        continue;
                    }
                    self.server.edit("ippools", NS, name, |pool| {
                        if pool["spec"]["allocations"][&key] == row
                            && let Some(rows) = pool["spec"]["allocations"].as_object_mut()
                        {
                            rows.remove(&key);
                        }
                    });
                    self.tell(
                        "whereabouts' reconciler frees a row",
                        format_args!("{name}/{key}"),
                    );
                }
            }
            self.lose_rows();
        }
    }
}

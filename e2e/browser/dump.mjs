// Dumps of clusters that do not exist: pools of many kinds of rows, with names that try to be more than text.
const HOSTILE = `<img src=x onerror=alert(1)></script><script>alert(2)</script>`;
// What a shell would run.
export const COMMAND = "$(touch pwn)";

// Random numbers that are the same each time.
const random = (seed) => () => {
  seed = (seed * 1103515245 + 12345) % 2147483648;
  return seed / 2147483648;
};
const hex = (next, digits) => Array.from({ length: digits }, () => Math.floor(next() * 16).toString(16)).join("");
const dotted = (number) => [24, 16, 8, 0].map((bits) => (number >>> bits) & 255).join(".");

// A dump with so many pools of 2^bits addresses; each is filled up to a share of its own, the first to `most`.
export const dump = (pools, bits, most) => {
  const next = random(7);
  const object = (apiVersion, kind, namespace, name, rest) => ({
    apiVersion,
    kind,
    metadata: { name, namespace, uid: hex(next, 32), resourceVersion: "5", creationTimestamp: "2026-01-01T00:00:00Z", ...rest.metadata },
    ...rest.object,
  });
  const all = { pools: [], reservations: [], pods: [], nodes: [], definitions: [] };
  for (let node = 1; node <= 8; node++) {
    const ready = { type: "Ready", status: node < 8 ? "True" : "Unknown", lastTransitionTime: "2026-01-01T00:00:00Z" };
    all.nodes.push(object("v1", "Node", undefined, `node-${node}`, { object: { status: { conditions: [ready] } } }));
  }
  for (let pool = 0; pool < pools; pool++) {
    const base = 0x0a000000 + pool * 2 ** bits;
    const range = `${dotted(base)}/${32 - bits}`;
    const [namespace, network] = [`team-${pool % 5}`, `net-${pool}`];
    const ipam = { type: "whereabouts", range, exclude: [`${dotted(base + 16)}/28`] };
    const config = JSON.stringify({ cniVersion: "1.0.0", name: network, type: "macvlan", ipam });
    all.definitions.push(object("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", namespace, network, { object: { spec: { config } } }));
    const allocations = {};
    const share = pool === 0 ? most : next() * most;
    for (let offset = 1; offset < 2 ** bits - 1; offset++) {
      if ((offset >= 16 && offset < 32) || next() > share) continue;
      const [name, address, kind] = [`pod-${pool}-${offset}`, dotted(base + offset), next()];
      const node = `node-${1 + Math.floor(next() * 8)}`;
      const podref = kind < 0.03 ? `${HOSTILE}-${offset}` : `${namespace}/${name}`;
      allocations[offset] = { id: hex(next, 64), podref, ifname: "net1" };
      if (kind < 0.1) continue;
      const status = JSON.stringify([{ name: `${namespace}/${network}`, interface: "net1", ips: [address] }]);
      const annotations = { "k8s.v1.cni.cncf.io/networks": network, "k8s.v1.cni.cncf.io/network-status": status };
      all.pods.push(
        object("v1", "Pod", namespace, name, {
          metadata: { annotations },
          object: { spec: { nodeName: node }, status: { phase: "Running", containerStatuses: [{ name: "c", state: { running: {} } }] } },
        }),
      );
      const spec = { podref: kind < 0.13 ? `${namespace}/other` : podref, ifname: "net1", containerid: hex(next, 64) };
      all.reservations.push(
        object("whereabouts.cni.cncf.io/v1alpha1", "OverlappingRangeIPReservation", "kube-system", address, { object: { spec } }),
      );
    }
    const name = range.replace("/", "-");
    all.pools.push(object("whereabouts.cni.cncf.io/v1alpha1", "IPPool", "kube-system", name, { object: { spec: { range, allocations } } }));
  }
  // A pool of nine addresses: old rows behind them, a reservation without a row, and whatever anybody may write.
  const [range, namespace] = ["192.168.0.0/24", "team-0"];
  const ipam = { type: "whereabouts", range, range_start: "192.168.0.1", range_end: "192.168.0.9" };
  const config = JSON.stringify({ cniVersion: "1.0.0", name: "part", type: "macvlan", ipam });
  all.definitions.push(object("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", namespace, "part", { object: { spec: { config } } }));
  const silent = { type: "Ready", status: "Unknown", lastTransitionTime: "2026-01-01T00:00:00Z" };
  all.nodes.push(object("v1", "Node", undefined, COMMAND, { object: { status: { conditions: [silent] } } }));
  const row = (name, ifname) => ({ id: hex(next, 64), podref: `${namespace}/${name}`, ifname });
  const allocations = { 2: row("odd", COMMAND), [COMMAND]: row("gone", "net1") };
  for (let offset = 100; offset < 160; offset++) allocations[offset] = row(`old-${offset}`, "net1");
  const status = { phase: "Running", containerStatuses: [{ name: "c", state: { running: {} } }] };
  all.pods.push(object("v1", "Pod", namespace, "odd", { metadata: {}, object: { spec: { nodeName: COMMAND }, status } }));
  const lone = { spec: { podref: `${namespace}/lone`, ifname: "net1" } };
  all.reservations.push(object("whereabouts.cni.cncf.io/v1alpha1", "OverlappingRangeIPReservation", "kube-system", "192.168.0.5", { object: lone }));
  const part = { object: { spec: { range, allocations } } };
  all.pools.push(object("whereabouts.cni.cncf.io/v1alpha1", "IPPool", "kube-system", "192.168.0.0-24", part));
  // A range of IPv6 that never ends, with rows of a ResourceClaim as DRANET writes them, of an IPAMClaim, and of a pod.
  const endless = { type: "whereabouts", range: "fd00:1::/64", range_end: "fd00:1::ff" };
  const endlessly = JSON.stringify({ cniVersion: "1.0.0", name: "six", type: "macvlan", ipam: endless });
  all.definitions.push(object("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", namespace, "six", { object: { spec: { config: endlessly } } }));
  const rows = {
    3: { id: "11111111-2222-4333-8444-555555555555", podref: "default/pod-whereabouts", ifname: "net1" },
    4: { ...row("vm-0", "net1"), ipamclaimref: `${namespace}/vm` },
    5: row("six", "net1"),
  };
  const ips = JSON.stringify([{ name: `${namespace}/six`, interface: "net1", ips: ["fd00:1::5"] }]);
  const annotations = { "k8s.v1.cni.cncf.io/networks": "six", "k8s.v1.cni.cncf.io/network-status": ips };
  all.pods.push(object("v1", "Pod", namespace, "six", { metadata: { annotations }, object: { spec: { nodeName: "node-1" }, status } }));
  const six = { object: { spec: { range: endless.range, allocations: rows } } };
  all.pools.push(object("whereabouts.cni.cncf.io/v1alpha1", "IPPool", "kube-system", "fd00-1---64", six));
  const { pods, nodes, definitions, reservations } = all;
  return { apiVersion: "v1", kind: "List", items: [...all.pools, ...reservations, ...pods, ...nodes, ...definitions] };
};

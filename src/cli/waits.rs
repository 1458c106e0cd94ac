//! How long a collector waits, and whose rows it never touches: the flags that all who judge have in common. Judged by
//! other waits than the collector's, an audit would tell what does not come true.

use std::time::Duration;

use super::values::{duration, glob};
use crate::{
    audit::words::duration as duration_text,
    core::{
        evidence::{DEFAULT_POD_GRACE, KUBELET_NEEDS, Policy},
        podref::Glob,
    },
};

/// The waits to judge with.
#[derive(Clone, Debug, clap::Args)]
// Else its group would have the name of the command's own.
#[group(skip)]
pub struct Args {
    /// Wait after a pod's end that does not prove its sandbox stopped; added are the pod's termination grace period,
    /// and --del-budget for each of its addresses
    #[arg(long, env = "IPGC_GRACE", value_name = "DURATION", default_value = "2m", value_parser = duration)]
    grace: Duration,

    /// Time for the CNI DEL of one address, see --grace
    #[arg(long, env = "IPGC_DEL_BUDGET", value_name = "DURATION", default_value = "1m", value_parser = duration)]
    del_budget: Duration,

    /// Longest time of a CNI ADD: if a pod of the same name may come back, its reservation is deleted this long after
    /// the claim
    #[arg(long, env = "IPGC_ADD_BUDGET", value_name = "DURATION", default_value = "2m", value_parser = duration)]
    add_budget: Duration,

    /// Longest termination grace period that counts, see --grace. Without it a pod's own counts whole, and one that is
    /// not known for 1h at most
    #[arg(long, env = "IPGC_MAX_POD_GRACE", value_name = "DURATION", value_parser = duration)]
    max_pod_grace: Option<Duration>,

    /// Least wait for addresses that a pod which is there does not use, for addresses of static pods, and for
    /// reservations without a row
    #[arg(long, env = "IPGC_LEFTOVER_GRACE", value_name = "DURATION", default_value = "10m", value_parser = duration)]
    leftover_grace: Duration,

    /// Never touch rows of these owners: globs over namespace/name, separated by commas; may be repeated
    #[arg(long, env = "IPGC_KEEP_PODREF", value_name = "GLOB", value_delimiter = ',', value_parser = glob)]
    keep_podref: Vec<Glob>,
}

impl Args {
    /// A warning, where the waits add up to less than a kubelet needs.
    pub fn warning(&self) -> Option<String> {
        let wait = Some(self.policy().wait(None, DEFAULT_POD_GRACE, 1))
            .filter(|wait| *wait < KUBELET_NEEDS)?;
        Some(format!(
            "waits are too short for a pod that was not seen ending well: an address goes after {}, and its kubelet may \
             need {} to stop its sandbox (--grace, --max-pod-grace, --del-budget)",
            duration_text(wait),
            duration_text(KUBELET_NEEDS),
        ))
    }

    /// As a policy, which is the default in all else.
    pub fn policy(&self) -> Policy {
        Policy {
            grace: self.grace,
            del_budget: self.del_budget,
            add_budget: self.add_budget,
            max_pod_grace: self.max_pod_grace,
            leftover_grace: self.leftover_grace,
            keep_podrefs: self.keep_podref.clone(),
            ..Policy::default()
        }
    }
}

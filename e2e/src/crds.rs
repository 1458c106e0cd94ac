//! Installs the CRDs of whereabouts and of network attachments, unchanged from upstream, and waits until the
//! server serves them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt as _, api::PostParams};

use crate::{
    Result, tools,
    wait::{self, PATIENCE, Probe},
};

/// Installs them, and waits until all are established.
pub async fn install(client: &Client) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut names = Vec::new();
    for file in tools::crd_files().await? {
        let text = std::fs::read_to_string(&file)?;
        let crd: CustomResourceDefinition = serde_yaml::from_str(&text)?;
        let name = crd.name_any();
        api.create(&PostParams::default(), &crd).await?;
        names.push(name);
    }
    let api = &api;
    for name in &names {
        wait::until(
            &format!("CRD {name} to be established"),
            PATIENCE,
            || async move {
                let crd = api.get(name).await?;
                let conditions = crd
                    .status
                    .and_then(|status| status.conditions)
                    .unwrap_or_default();
                let established = conditions.iter().any(|condition| {
                    condition.type_ == "Established" && condition.status == "True"
                });
                Ok(if established {
                    Probe::Done(())
                } else {
                    Probe::NotYet(format!("{conditions:?}"))
                })
            },
        )
        .await?;
    }
    Ok(())
}

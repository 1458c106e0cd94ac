//! Installs the CRDs of whereabouts and of network attachments, unchanged from upstream, and waits until the
//! server serves them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt as _, api::PostParams};

use crate::{
    Result, tools,
    wait::{self, PATIENCE},
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
        let conditions = || async move {
            let status = api.get(name).await?.status;
            Ok(status.and_then(|it| it.conditions).unwrap_or_default())
        };
        let what = format!("CRD {name} to be established");
        wait::until_state(&what, PATIENCE, conditions, |conditions| {
            let mut established = conditions.iter().filter(|it| it.type_ == "Established");
            established.any(|it| it.status == "True")
        })
        .await?;
    }
    Ok(())
}

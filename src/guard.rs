//! The guards below all code that decides: clients through which nothing can be changed, or nothing
//! by a copy that does not lead.
//!
//! The guards go by the HTTP method alone, so that a mistake above is an error and not a write. Access reviews
//! are refused too: they are POSTs. Decides nothing itself.

use http::Method;
use kube::Client;
use tower::BoxError;

use crate::{calls::via, leader::Leadership};

/// A client that sends GET requests through `client` and answers all others itself, with a [`kube::Error::Service`].
pub fn read_only(client: Client) -> Client {
    guarded(client, None)
}

/// A client that sends a request that is no GET only while this copy leads, and else answers it itself, as
/// [`read_only`] does.
pub fn while_leading(client: Client, leadership: Leadership) -> Client {
    guarded(client, Some(leadership))
}

/// Without a leadership nothing is ever written.
fn guarded(client: Client, leadership: Option<Leadership>) -> Client {
    via(client, move |client, request| {
        let leadership = leadership.clone();
        async move {
            let why_not = match leadership {
                _ if request.method() == Method::GET => None,
                None => Some("only reads are"),
                Some(leadership) if leadership.is_held() => None,
                Some(_) => Some("another copy leads, or all are paused"),
            };
            if let Some(why) = why_not {
                let (method, path) = (request.method(), request.uri().path());
                let text = format!("{method} {path} was not sent: {why}");
                return Err(BoxError::from(text));
            }
            Ok(client.send(request).await?)
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fmt::Debug;

    use http::Request;
    use k8s_openapi::api::core::v1::Pod;
    use kube::{Api, api::DeleteParams, client::Body};
    use rstest::rstest;
    use testkit::Server;

    use super::*;
    use crate::leader::Elector;

    fn was_not_sent<T: Debug>(answer: kube::Result<T>) {
        match answer.unwrap_err() {
            kube::Error::Service(reason) => {
                assert!(reason.to_string().contains(" was not sent: "), "{reason}");
            }
            other => panic!("{other}"),
        }
    }

    #[tokio::test]
    async fn only_a_leader_writes() {
        let server = Server::new();
        let clock = crate::clock::Clock::start();
        // Nobody took part in an election yet.
        let epoch = tokio::sync::watch::Sender::default().subscribe();
        let sweep = std::sync::Arc::default();
        let (elector, standing_by) = Elector::new(server.client(), "ns", "a", clock, epoch, sweep);
        let name = |client: Client| Api::<Pod>::namespaced(client, "shop");
        let all = DeleteParams::default();
        let standby = name(while_leading(server.client(), standing_by));
        was_not_sent(standby.delete("cart-0", &all).await);
        assert_eq!(server.requests().len(), 0, "{}", server.requests());
        drop(elector);
        let leader = name(while_leading(server.client(), Leadership::always(clock)));
        let gone = leader.delete("cart-0", &all).await.unwrap_err();
        assert!(matches!(gone, kube::Error::Api(status) if status.code == 404));
    }

    /// The method of a request decides, and nothing else of it.
    #[rstest]
    #[tokio::test]
    async fn no_other_method_is_sent(
        #[values("POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "get", "X")] method: &str,
    ) {
        let server = Server::new();
        let client = read_only(server.client());
        let request = Request::builder().method(method).uri("/api/v1/pods");
        was_not_sent(client.send(request.body(Body::empty()).unwrap()).await);
        assert_eq!(server.requests().len(), 0, "{}", server.requests());
    }
}

//! Bodies of answers that come slowly, or end as they should not. In calm weather they go on as they should.

use std::{sync::Arc, time::Duration};

use futures::{
    Stream, StreamExt as _,
    stream::{self, BoxStream},
};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use rand::RngExt as _;
use tokio::{
    net::TcpStream,
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};

use super::{
    faults::{Fault, Faults},
    proxy::{Answer, Broken, reset},
};

/// Bytes of a slow body that come at a time, at the least and at the most, and how often.
const AT_A_TIME: std::ops::Range<usize> = 200..6_400;
const EVERY: Duration = Duration::from_millis(100);

/// Pieces of a late body that are on their way at the most.
const AHEAD: usize = 1024;

/// A body that comes a few bytes at a time.
pub fn slow(body: Body, faults: Arc<Faults>) -> Answer {
    let size = rand::rng().random_range(AT_A_TIME);
    let state = (body, faults, Bytes::new());
    let frames = stream::unfold(state, move |(mut body, faults, mut left)| async move {
        if left.is_empty() {
            left = match next(&mut body).await? {
                Ok(data) => data,
                Err(error) => return Some((Err(error), (body, faults, left))),
            };
        } else if !faults.is_calm() {
            sleep(EVERY).await;
        }
        let slice = left.split_to(size.min(left.len()));
        Some((Ok(Frame::data(slice)), (body, faults, left)))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// The answer to a watch, so late, until its fault happens.
pub fn watch(body: Body, lag: Duration, faults: Arc<Faults>, connection: Arc<TcpStream>) -> Answer {
    let watch = Watch {
        data: late(body, lag).boxed(),
        faults,
        connection,
        fate: None,
        is_cut: false,
    };
    let frames = stream::unfold(watch, |mut watch| async move {
        let frame = watch.next().await?;
        Some((frame.map(Frame::data), watch))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// A body that is read at once, and told later.
fn late(body: Body, by: Duration) -> impl Stream<Item = Result<Bytes, Broken>> + Send {
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let mut data = body.into_data_stream();
        loop {
            let next = tokio::select! {
                () = sender.closed() => break,
                next = data.next() => next,
            };
            let Some(next) = next else { break };
            let told = (Instant::now() + by, next.map_err(Broken::from));
            if sender.send(told).await.is_err() {
                break;
            }
        }
    });
    stream::unfold(receiver, |mut receiver| async move {
        let (at, data) = receiver.recv().await?;
        sleep_until(at).await;
        Some((data, receiver))
    })
}

struct Watch {
    data: BoxStream<'static, Result<Bytes, Broken>>,
    faults: Arc<Faults>,
    connection: Arc<TcpStream>,
    /// What happens to it, and when, once that is known.
    fate: Option<(Fault, Instant)>,
    is_cut: bool,
}

impl Watch {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        if self.is_cut {
            // In order, as if all were told; or not.
            return rand::rng().random::<bool>().then(|| Err("cut".into()));
        }
        let Self {
            data, faults, fate, ..
        } = self;
        let due = async {
            let (fault, at) = match *fate {
                Some(fate) => fate,
                None => *fate.insert(faults.of_watch().await),
            };
            sleep_until(at).await;
            fault
        };
        let fault = tokio::select! {
            biased;
            fault = due => fault,
            next = data.next() => return next,
        };
        if fault == Fault::CutWatch {
            let data = data.next().await?;
            if faults.is_calm() {
                return Some(data);
            }
            faults.count(fault);
            self.is_cut = true;
            return Some(data.map(|data| data.slice(..data.len() / 2)));
        }
        if faults.is_calm() {
            return data.next().await;
        }
        faults.count(fault);
        if fault == Fault::ResetWatch {
            return Some(Err(reset(&self.connection)));
        }
        std::future::pending().await
    }
}

/// The next bytes. A body without any more, trailers included, has ended.
async fn next(body: &mut Body) -> Option<Result<Bytes, Broken>> {
    let frame = body.frame().await?;
    match frame {
        Ok(frame) => frame.into_data().ok().map(Ok),
        Err(error) => Some(Err(error.into())),
    }
}

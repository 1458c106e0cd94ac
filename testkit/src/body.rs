//! The body of an answer: bytes at once, or a stream of frames for a watch.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, Stream, StreamExt};
use http_body::{Body, Frame, SizeHint};
use tokio_util::bytes::Bytes;
use tower::BoxError;

/// The body of an answer of the service.
pub enum ResponseBody {
    /// Everything is known already.
    Whole(Option<Bytes>),
    /// Frames appear over time; the end of the stream ends the answer.
    Stream(BoxStream<'static, Result<Bytes, BoxError>>),
}

impl ResponseBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    pub(crate) fn stream(
        frames: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
    ) -> Self {
        Self::Stream(frames.boxed())
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(frames) => frames
                .poll_next_unpin(context)
                .map(|next| next.map(|frame| frame.map(Frame::data))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(Some(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            Self::Whole(None) => SizeHint::with_exact(0),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// The error of a connection that breaks; an I/O error, as a real client would see it.
pub(crate) fn broken_connection() -> BoxError {
    Box::new(std::io::Error::new(
        std::io::ErrorKind::ConnectionReset,
        "connection reset by the test server",
    ))
}

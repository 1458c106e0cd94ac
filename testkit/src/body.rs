//! The body of an answer: bytes at once, or a stream of frames for a watch.

use futures::stream::{BoxStream, Stream, StreamExt, TryStreamExt};
use http_body::Frame;
use http_body_util::{Either, Full, StreamBody};
use tokio_util::bytes::Bytes;
use tower::BoxError;

/// The body of an answer of the service: known as a whole, or frames that appear over time, whose end ends the answer.
pub type ResponseBody = Either<Full<Bytes>, StreamBody<Frames>>;

/// Frames that appear over time.
type Frames = BoxStream<'static, Result<Frame<Bytes>, BoxError>>;

pub(crate) fn whole(bytes: impl Into<Bytes>) -> ResponseBody {
    Either::Left(Full::new(bytes.into()))
}

pub(crate) fn stream(
    frames: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
) -> ResponseBody {
    Either::Right(StreamBody::new(frames.map_ok(Frame::data).boxed()))
}

/// The error of a connection that breaks; an I/O error, as a real client would see it.
pub(crate) fn broken_connection() -> BoxError {
    Box::new(std::io::Error::new(
        std::io::ErrorKind::ConnectionReset,
        "connection reset by the test server",
    ))
}

//! The status body as server-sent events: what concerns everybody is written once for all streams
//! and told to all at once when it changes; no store is touched, and there are only so many streams.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::Response;
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::identify::Visitor;
use super::respond;
use super::sale::SaleGate;
use super::told::{News, Told, Urgent};
use crate::domain::admission::{Admission, LEEWAY_MS};
use crate::domain::queue::PlaceState;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::ticket::Cohort;
use crate::http::body::{self, Body, BodyError};
use crate::http::under_way::Place as UnderWayPlace;

/// Streams of one node; whoever finds no seat polls.
const STREAMS_MAX: usize = 16_384;
/// How often a stream looks whether its own place has changed in a way that must not wait.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A comment after so long a silence, so that nobody between us takes the stream for dead.
const HEARTBEAT_AFTER: Duration = Duration::from_secs(10);
/// Then the browser comes again by itself, perhaps to another node.
const STREAM_MAX: Duration = Duration::from_mins(10);
/// When whoever found no seat may try again, in milliseconds.
const FULL_RETRY_MS: u64 = 30_000;

const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");

/// How often a node looks whether there is something to tell everybody.
pub(super) const TELL_EVERY: Duration = Duration::from_millis(50);

/// All streams of a node.
pub(super) struct Streams {
    seats: Arc<Semaphore>,
    draining: CancellationToken,
}

impl Streams {
    /// An eighth of the connections is left to everything else; they end when the node drains.
    pub(super) fn new(connections_max: usize, draining: CancellationToken) -> Self {
        let seats = STREAMS_MAX.min(connections_max - connections_max / 8).max(1);
        Self { seats: Arc::new(Semaphore::new(seats)), draining }
    }

    /// `GET …/events`.
    pub(super) fn open(
        &self,
        sale: &SaleGate,
        visitor: &Visitor,
        place: UnderWayPlace,
    ) -> Result<Response<Body>, Refusal> {
        let seat = Arc::clone(&self.seats).try_acquire_owned().map_err(|_| {
            let detail = "this node keeps as many streams open as it can; ask for the status";
            Refusal::new(Problem::Overloaded, detail).retry_after_ms(FULL_RETRY_MS)
        })?;
        let now = Instant::now();
        let seconds = |from, to| Duration::from_millis(rand::random_range(from..to));
        let stream = Stream {
            all: Arc::clone(&sale.told),
            urgent: sale.told.follow(),
            number: visitor.ticket.as_ref().map(|ticket| (ticket.run, ticket.cohort)),
            pass: visitor.pass.as_ref().map(|pass| Arc::clone(&pass.admission)),
            draining: self.draining.clone(),
            // The looks of many streams are spread over the second.
            look: now + seconds(500, 1_500),
            ends: now + STREAM_MAX - seconds(0, 60_000),
            due: now,
            silent_since: now,
            told: None,
            is_over: false,
            _seat: (seat, place),
        };
        let frames = stream::unfold(stream, |mut stream| async {
            let bytes = stream.next().await?;
            Some((Ok::<_, BodyError>(Frame::data(bytes)), stream))
        });
        Ok(respond::stream("text/event-stream", body::boxed(StreamBody::new(frames))))
    }
}

struct Stream {
    all: Arc<Told>,
    urgent: watch::Receiver<Urgent>,
    /// Of its ticket, after the run that it is for.
    number: Option<(u64, Cohort)>,
    pass: Option<Arc<Admission>>,
    draining: CancellationToken,
    look: Instant,
    due: Instant,
    ends: Instant,
    silent_since: Instant,
    /// What must not wait for the next frame when it changes.
    told: Option<(Urgent, PlaceState)>,
    is_over: bool,
    /// Given back with the stream.
    _seat: (OwnedSemaphorePermit, UnderWayPlace),
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let is_first = self.told.is_none();
            if self.is_over {
                return None;
            }
            if !is_first {
                self.wait().await?;
            }
            let now = Instant::now();
            if now >= self.ends {
                return None;
            }
            let news = self.news();
            let (urgent, state) = (news.urgent(), news.own.place.state);
            let told = Some((urgent, state));
            if now >= self.due || self.told != told {
                // Then there is nothing more to tell, or the pass says it all.
                self.is_over = urgent.is_closed() || state == PlaceState::Admitted;
                self.told = told;
                self.due = now + Duration::from_millis(news.own.poll_after_ms);
                self.silent_since = now;
                return Some(self.frame(news, is_first));
            }
            if now.duration_since(self.silent_since) >= HEARTBEAT_AFTER {
                self.silent_since = now;
                return Some(HEARTBEAT);
            }
        }
    }

    /// Until the next look at the own place, or until there is something for everybody. Nothing
    /// when the node drains.
    async fn wait(&mut self) -> Option<()> {
        tokio::select! {
            () = self.draining.cancelled() => return None,
            () = tokio::time::sleep_until(self.look) => self.look += LOOK_EVERY,
            // It goes on as long as the sale is there, and we hold it.
            _ = self.urgent.changed() => {}
        }
        Some(())
    }

    /// What was brought counts as long as run and epoch stand.
    fn news(&self) -> News {
        let room = self.all.room();
        let (seen, now_ms) = (room.snapshot(), room.now_ms());
        let control = &seen.control;
        let number = self.number.filter(|(run, _)| *run == control.run).map(|(_, number)| number);
        let holds =
            |pass: &&Arc<Admission>| pass.holds(room.sale(), control.epoch, now_ms, LEEWAY_MS);
        self.all.to(number, self.pass.as_ref().filter(holds).map(AsRef::as_ref))
    }

    fn frame(&self, news: News, is_first: bool) -> Bytes {
        let mut frame = Vec::new();
        if is_first {
            // Spread out, so that a node that stops does not send all to the next at once.
            let retry = format!("retry:{}\n", rand::random_range(1_000..4_000));
            frame.extend_from_slice(retry.as_bytes());
        }
        frame.extend_from_slice(b"data:");
        self.all.write(&mut frame, news);
        frame.extend_from_slice(b"\n\n");
        frame.into()
    }
}

//! The status body as server-sent events: what concerns everybody is written once for all streams,
//! no store is touched, and there are only so many streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::Response;
use hyper::body::Frame;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::identify::Visitor;
use super::respond;
use super::sale::SaleGate;
use crate::domain::admission::{Admission, LEEWAY_MS};
use crate::domain::id::SaleId;
use crate::domain::queue::{Eta, Odds, Place, PlaceState};
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::sale::Phase;
use crate::domain::status::Status;
use crate::domain::stock::StockSum;
use crate::domain::ticket::Ticket;
use crate::http::body::{self, Body, BodyError};
use crate::room::Room;

/// Streams of one node; whoever finds no seat polls.
const STREAMS_MAX: usize = 4_096;
/// How often a stream looks whether something has changed that must not wait.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A comment after so long a silence, so that nobody between us takes the stream for dead.
const HEARTBEAT_AFTER: Duration = Duration::from_secs(10);
/// Then the browser comes again by itself, perhaps to another node.
const STREAM_MAX: Duration = Duration::from_mins(10);
/// When whoever found no seat may try again, in milliseconds.
const FULL_RETRY_MS: u64 = 30_000;

const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");

/// All streams of a node.
pub(super) struct Streams {
    seats: Arc<Semaphore>,
    shared: Arc<Shared>,
    draining: CancellationToken,
}

/// The half of a frame that is the same for everybody, by sale, with the instant it is for.
#[derive(Default)]
struct Shared(Mutex<HashMap<SaleId, (u64, Bytes)>>);

impl Streams {
    /// At most half of the connections; they end when the node drains.
    pub(super) fn new(connections_max: usize, draining: CancellationToken) -> Self {
        let seats = STREAMS_MAX.min(connections_max / 2).max(1);
        Self { seats: Arc::new(Semaphore::new(seats)), shared: Arc::default(), draining }
    }

    /// `GET …/events`.
    pub(super) fn open(
        &self,
        sale: &SaleGate,
        visitor: &Visitor,
    ) -> Result<Response<Body>, Refusal> {
        let seat = Arc::clone(&self.seats).try_acquire_owned().map_err(|_| {
            let detail = "this node keeps as many streams open as it can; ask for the status";
            Refusal::new(Problem::Overloaded, detail).retry_after_ms(FULL_RETRY_MS)
        })?;
        let now = Instant::now();
        let seconds = |from, to| Duration::from_millis(rand::random_range(from..to));
        let stream = Stream {
            room: Arc::clone(&sale.room),
            shared: Arc::clone(&self.shared),
            ticket: visitor.ticket.clone(),
            pass: visitor.pass.as_ref().map(|pass| Arc::clone(&pass.admission)),
            draining: self.draining.clone(),
            // The looks of many streams are spread over the second.
            look: now + seconds(500, 1_500),
            ends: now + STREAM_MAX - seconds(0, 60_000),
            due: now,
            silent_since: now,
            told: None,
            is_over: false,
            _seat: seat,
        };
        let frames = stream::unfold(stream, |mut stream| async {
            let bytes = stream.next().await?;
            Some((Ok::<_, BodyError>(Frame::data(bytes)), stream))
        });
        Ok(respond::stream("text/event-stream", body::boxed(StreamBody::new(frames))))
    }
}

/// What must not wait for the next frame when it changes.
#[derive(PartialEq)]
struct Told {
    phase: Phase,
    paused: bool,
    sold_out: bool,
    epoch: u64,
    state: PlaceState,
}

struct Stream {
    room: Arc<Room>,
    shared: Arc<Shared>,
    ticket: Option<Ticket>,
    pass: Option<Arc<Admission>>,
    draining: CancellationToken,
    look: Instant,
    due: Instant,
    ends: Instant,
    silent_since: Instant,
    told: Option<Told>,
    is_over: bool,
    /// Given back with the stream.
    _seat: OwnedSemaphorePermit,
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let is_first = self.told.is_none();
            if self.is_over {
                return None;
            }
            if !is_first {
                let look = tokio::time::sleep_until(self.look);
                self.draining.run_until_cancelled(look).await?;
                self.look += LOOK_EVERY;
            }
            let now = Instant::now();
            if now >= self.ends {
                return None;
            }
            let status = self.status();
            let told = Told {
                phase: status.phase,
                paused: status.paused,
                sold_out: status.sold_out,
                epoch: status.epoch,
                state: status.place.state,
            };
            if now >= self.due || self.told.as_ref() != Some(&told) {
                // Then there is nothing more to tell, or the pass says it all.
                self.is_over = told.phase == Phase::Closed || told.state == PlaceState::Admitted;
                self.told = Some(told);
                self.due = now + Duration::from_millis(status.poll_after_ms);
                self.silent_since = now;
                return Some(self.frame(status, is_first));
            }
            if now.duration_since(self.silent_since) >= HEARTBEAT_AFTER {
                self.silent_since = now;
                return Some(HEARTBEAT);
            }
        }
    }

    /// What was brought counts as long as run and epoch stand.
    fn status(&self) -> Status {
        let (seen, now_ms) = (self.room.snapshot(), self.room.now_ms());
        let control = &seen.control;
        let ticket = self.ticket.as_ref().filter(|ticket| ticket.run == control.run);
        let holds =
            |pass: &&Arc<Admission>| pass.holds(self.room.sale(), control.epoch, now_ms, LEEWAY_MS);
        self.room.status(ticket, self.pass.as_ref().filter(holds).map(AsRef::as_ref))
    }

    fn frame(&self, status: Status, is_first: bool) -> Bytes {
        let common = self.shared.half(&status, self.room.snapshot().seen_ms());
        let own = Own {
            place: status.place,
            eta_seconds: status.eta_seconds,
            odds: status.odds,
            server_time: status.server_time,
            poll_after_ms: status.poll_after_ms,
        };
        let own = serde_json::to_vec(&own).unwrap_or_default();
        let mut frame = BytesMut::with_capacity(common.len() + own.len() + 24);
        if is_first {
            // Spread out, so that a node that stops does not send all to the next at once.
            let retry = format!("retry:{}\n", rand::random_range(1_000..4_000));
            frame.extend_from_slice(retry.as_bytes());
        }
        frame.extend_from_slice(&common);
        // Both halves are objects; together they are one.
        frame.extend_from_slice(own.get(1..).unwrap_or_default());
        frame.extend_from_slice(b"\n\n");
        frame.freeze()
    }
}

impl Shared {
    /// `data:{"sale":…,`, written once for each look at the room.
    fn half(&self, status: &Status, seen_ms: u64) -> Bytes {
        // Times move the phase and the pause also while the room is not seen.
        let stamp = seen_ms ^ (u64::from(status.paused) << 63) ^ ((status.phase as u64) << 60);
        let mut halves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, half)) = halves.get(&status.sale)
            && *at == stamp
        {
            return half.clone();
        }
        let common = Common {
            sale: &status.sale,
            phase: status.phase,
            paused: status.paused,
            sold_out: status.sold_out,
            run: status.run,
            epoch: status.epoch,
            rate: status.rate,
            stock: status.stock,
            opens_at: &status.opens_at,
        };
        let mut half = b"data:".to_vec();
        half.extend(serde_json::to_vec(&common).unwrap_or_default());
        half.pop();
        half.push(b',');
        let half = Bytes::from(half);
        halves.insert(status.sale.clone(), (stamp, half.clone()));
        half
    }
}

/// The fields of [`Status`] that are everybody's.
#[derive(Serialize)]
struct Common<'a> {
    sale: &'a SaleId,
    phase: Phase,
    paused: bool,
    sold_out: bool,
    run: u64,
    epoch: u64,
    rate: f64,
    stock: Option<StockSum>,
    opens_at: &'a str,
}

/// The other fields of it.
#[derive(Serialize)]
struct Own {
    place: Place,
    eta_seconds: Option<Eta>,
    odds: Option<Odds>,
    server_time: String,
    poll_after_ms: u64,
}

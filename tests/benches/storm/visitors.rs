//! The people of a storm: each sends its join at its time, and again when it is told to.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::wire::answer;

/// What became of one of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Visitor {
    /// The number that was acknowledged.
    pub(crate) entry: Option<u64>,
    /// It had the number before.
    pub(crate) known: bool,
    /// The waits that were told, in milliseconds.
    pub(crate) waits: Vec<u32>,
    /// When it was acknowledged, in milliseconds from the beginning.
    pub(crate) in_at_ms: u32,
}

/// What was seen of the answers.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// How long each answer took, in microseconds.
    pub(crate) took_us: Vec<u32>,
    /// When refused joins came again, in milliseconds from the beginning.
    pub(crate) came_again_ms: Vec<u32>,
}

/// Sends everybody's joins over so many kept-alive sockets, the first tries spread evenly over
/// `within`, and everybody's retries until all are in.
pub(crate) async fn storm(
    gateways: &[String],
    sale: &str,
    people: u32,
    sockets: usize,
    within: Duration,
) -> Result<(Vec<Visitor>, Seen)> {
    let mut streams = vec![];
    for number in 0..sockets {
        let address = &gateways[number % gateways.len()];
        let stream = TcpStream::connect(address).await.context("connecting")?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let began = Instant::now() + Duration::from_millis(100);
    let first = |person: u32| began + within.mul_f64(f64::from(person) / f64::from(people));
    let due = (0..people).map(|person| Reverse((first(person), person))).collect();
    let crowd = Arc::new(Crowd {
        began,
        out: AtomicU32::new(people),
        sale: sale.to_owned(),
        due: Mutex::new(due),
        visitors: Mutex::new(vec![Visitor::default(); people as usize]),
        seen: Mutex::default(),
    });
    let mut running = JoinSet::new();
    for stream in streams {
        running.spawn(Arc::clone(&crowd).serve(stream));
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let crowd = Arc::into_inner(crowd).context("a socket is still at work")?;
    let unlocked = PoisonError::into_inner;
    let visitors = crowd.visitors.into_inner().unwrap_or_else(unlocked);
    Ok((visitors, crowd.seen.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

type Due = BinaryHeap<Reverse<(Instant, u32)>>;

struct Crowd {
    began: Instant,
    /// How many are not in yet.
    out: AtomicU32,
    sale: String,
    due: Mutex<Due>,
    visitors: Mutex<Vec<Visitor>>,
    seen: Mutex<Seen>,
}

impl Crowd {
    /// One socket: takes whoever is due next, until everybody is in.
    async fn serve(self: Arc<Self>, mut stream: TcpStream) -> Result<()> {
        let (mut buffer, mut seen) = (Vec::with_capacity(4_096), Seen::default());
        loop {
            let Some((due, person)) = self.next() else {
                if self.is_over() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            tokio::time::sleep_until(due.into()).await;
            let sent = Instant::now();
            stream.write_all(self.join(person).as_bytes()).await?;
            let (status, body) = answer(&mut stream, &mut buffer).await?;
            seen.took_us.push(u32::try_from(sent.elapsed().as_micros())?);
            let body = String::from_utf8_lossy(&buffer[body..]).into_owned();
            self.take(person, sent, &Answer { status, body }, &mut seen)?;
        }
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        all.took_us.append(&mut seen.took_us);
        all.came_again_ms.append(&mut seen.came_again_ms);
        Ok(())
    }

    fn next(&self) -> Option<(Instant, u32)> {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.pop().map(|Reverse(next)| next)
    }

    /// Everybody is in.
    fn is_over(&self) -> bool {
        self.out.load(Ordering::Relaxed) == 0
    }

    fn join(&self, person: u32) -> String {
        let [_, a, b, c] = person.to_be_bytes();
        format!(
            "POST /_stanchion/{}/join HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: 10.{a}.{b}.{c}\r\n\
             idempotency-key: join-{person}\r\ncontent-length: 0\r\n\r\n",
            self.sale
        )
    }

    fn take(&self, person: u32, sent: Instant, answer: &Answer, seen: &mut Seen) -> Result<()> {
        let since = |at: Instant| {
            u32::try_from(at.saturating_duration_since(self.began).as_millis()).unwrap_or(u32::MAX)
        };
        let mut visitors = self.visitors.lock().unwrap_or_else(PoisonError::into_inner);
        let visitor = &mut visitors[person as usize];
        if !visitor.waits.is_empty() {
            seen.came_again_ms.push(since(sent));
        }
        match answer.status {
            200 | 201 => {
                visitor.entry = Some(number(&answer.body, "\"entry\":").context("no entry")?);
                visitor.known = answer.status == 200;
                visitor.in_at_ms = since(Instant::now());
                self.out.fetch_sub(1, Ordering::Relaxed);
            }
            429 | 503 => {
                let wait = number(&answer.body, "\"retry_after_ms\":").context("no cure")?;
                visitor.waits.push(u32::try_from(wait)?);
                let again = Instant::now() + Duration::from_millis(wait);
                let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
                due.push(Reverse((again, person)));
            }
            other => bail!("{other}: {}", answer.body),
        }
        Ok(())
    }
}

struct Answer {
    status: u16,
    body: String,
}

/// The number behind a member's name.
fn number(body: &str, name: &str) -> Option<u64> {
    let rest = body.split_once(name)?.1;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

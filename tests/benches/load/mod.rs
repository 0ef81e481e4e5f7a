//! A closed loop over kept-alive sockets, as light as can be: what it costs is taken from the
//! server, which has the same cores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::wire::answer;

/// The bytes of request number n.
pub(crate) type Requests = Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync>;

/// What was answered within the measured time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) per_second: f64,
    pub(crate) p99_ms: f64,
    pub(crate) statuses: BTreeMap<u16, u64>,
}

/// Sends requests over so many sockets for `time`, after a fifth of that unmeasured. `next` is the
/// number of the next request: two runs that share it send nothing twice.
pub(crate) async fn load(
    address: &str,
    sockets: usize,
    time: Duration,
    next: &Arc<AtomicU64>,
    requests: &Requests,
) -> Result<Seen> {
    let from = Instant::now() + time / 5;
    let mut running = JoinSet::new();
    for _ in 0..sockets {
        let stream = TcpStream::connect(address).await.context("connecting")?;
        stream.set_nodelay(true)?;
        running.spawn(socket(stream, from, from + time, Arc::clone(next), Arc::clone(requests)));
    }
    let (mut latencies, mut statuses) = (vec![], BTreeMap::new());
    while let Some(ended) = running.join_next().await {
        for (status, us) in ended?? {
            *statuses.entry(status).or_default() += 1;
            latencies.push(us);
        }
    }
    latencies.sort_unstable();
    let p99 = latencies.get(latencies.len() * 99 / 100).copied().unwrap_or_default();
    let count = u32::try_from(latencies.len())?;
    Ok(Seen {
        per_second: f64::from(count) / time.as_secs_f64(),
        p99_ms: f64::from(p99) / 1e3,
        statuses,
    })
}

async fn socket(
    mut stream: TcpStream,
    from: Instant,
    to: Instant,
    next: Arc<AtomicU64>,
    requests: Requests,
) -> Result<Vec<(u16, u32)>> {
    let (mut seen, mut buffer) = (vec![], Vec::with_capacity(8192));
    loop {
        let began = Instant::now();
        if began >= to {
            return Ok(seen);
        }
        stream.write_all(&requests(next.fetch_add(1, Ordering::Relaxed))).await?;
        let (status, _) = answer(&mut stream, &mut buffer).await?;
        let ended = Instant::now();
        if from <= ended && ended <= to {
            seen.push((status, u32::try_from((ended - began).as_micros())?));
        }
    }
}

//! A sale opens with a million entries: what the first answers cost, what is written for it, and
//! what a waiting visitor takes of the gateway's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use stanchion::clock::{Clock, SystemClock};
use stanchion::domain::id::SaleId;
use stanchion::domain::ticket::Cohort;
use stanchion::store::redis::connect;
use stanchion::store::redis::room::{JOINS_MAX, JoinAnswer, JoinStep, RoomStore};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::house::{House, SALE, poll, until_ms};
use super::percentile;
use super::written::Written;
use crate::load::{Requests, load};
use crate::rounds::{median, say};
use crate::wire::answer;
use crate::yard::pss_kib;

const ENTRIES: u64 = 1_000_000;
/// Until the opening: everybody has joined by then, and has been asked for a while.
const OPENS_IN_MS: u64 = 40_000;
/// Measured before and after the opening.
const AROUND_MS: u64 = 3_000;
/// Between the polls of one who looks on.
const REST: Duration = Duration::from_millis(2);
/// Sockets by which everybody polls once.
const SOCKETS: usize = 64;

pub(crate) async fn measure() -> Result<()> {
    let house =
        Arc::new(House::start(OPENS_IN_MS, |settings, _| settings.set("sale.0.places_per_ip", 0))?);
    let (opens_ms, joining) = (house.opens_ms, Instant::now());
    join_all(&house).await?;
    say(&format!("{ENTRIES} joined in {:.1} s", joining.elapsed().as_secs_f64()))?;
    ensure!(
        SystemClock.now_ms() + AROUND_MS + 2_000 < opens_ms,
        "not everybody had joined when the sale was to open"
    );
    until_ms(opens_ms - AROUND_MS - 1_000).await;
    let before = Written::read(&house).await?;
    until_ms(opens_ms - AROUND_MS).await;
    let polls = look_on(&house, opens_ms + AROUND_MS).await?;
    tell_opening(&polls, opens_ms)?;
    say(&format!("written meanwhile: {}", Written::read(&house).await?.since(&before)))?;
    everybody_once(&house).await
}

/// As gateways do it, but for the network between.
async fn join_all(house: &House) -> Result<()> {
    let store = RoomStore::new(connect(&house.stores.redis_url())?, &SaleId::parse(SALE)?);
    let mut joined = 0;
    while joined < ENTRIES {
        let many = (ENTRIES - joined).min(JOINS_MAX as u64);
        let step = |number: u64| JoinStep {
            key: format!("{number:032x}"),
            account: None,
            address: None,
            ticket: None,
            lapsed: None,
        };
        let steps: Vec<_> = (joined..joined + many).map(step).collect();
        let joins = store.join(&steps, 0, 0).await?.context("the room is not loaded")?;
        let given = |answer: &&JoinAnswer| matches!(answer, JoinAnswer::Joined(_));
        // Those above a ceiling come again with the next, when a core has raised it.
        joined += joins.answers.iter().take_while(given).count() as u64;
    }
    Ok(())
}

/// One poll of many: when it was sent, how long its answer took, and whether the sale was open.
struct Poll {
    at_ms: u64,
    us: u32,
    is_open: bool,
}

/// Polls of ever other visitors, one after the other.
async fn look_on(house: &House, to_ms: u64) -> Result<Vec<Poll>> {
    let mut stream = TcpStream::connect(&house.public).await?;
    stream.set_nodelay(true)?;
    let (mut seen, mut buffer) = (vec![], Vec::with_capacity(8192));
    let mut entry = 0;
    while SystemClock.now_ms() < to_ms {
        entry = (entry + 7_919) % ENTRIES;
        let request = poll(&house.ticket(Cohort::Entry(entry))?);
        let (at_ms, began) = (SystemClock.now_ms(), Instant::now());
        stream.write_all(&request).await?;
        answer(&mut stream, &mut buffer).await?;
        let us = u32::try_from(began.elapsed().as_micros())?;
        let is_open = buffer.windows(14).any(|window| window == b"\"phase\":\"open\"");
        seen.push(Poll { at_ms, us, is_open });
        tokio::time::sleep(REST).await;
    }
    Ok(seen)
}

fn tell_opening(polls: &[Poll], opens_ms: u64) -> Result<()> {
    let times = |is_it: &dyn Fn(&&Poll) -> bool| {
        let mut times: Vec<_> = polls.iter().filter(is_it).map(|poll| poll.us).collect();
        times.sort_unstable();
        times
    };
    let first = polls.iter().find(|poll| poll.is_open).context("the sale did not open")?;
    let line = |what: &str, times: &[u32]| {
        let [p50, p99, most] = [50, 99, 100].map(|part| percentile(times, part));
        format!("{what}: p50 {p50} us, p99 {p99} us, most {most} us of {}", times.len())
    };
    say(&line("polls before the opening", &times(&|poll| poll.at_ms < opens_ms)))?;
    say(&line("polls after the opening", &times(&|poll| poll.at_ms >= opens_ms)))?;
    let normal = percentile(&times(&|poll| poll.at_ms < opens_ms), 50);
    say(&format!(
        "first answer with a position: {} ms after the opening, took {} us, normal {normal} us \
         (bar +50,000)",
        first.at_ms.saturating_sub(opens_ms),
        first.us,
    ))
}

/// The first poll of everybody after the opening.
async fn everybody_once(house: &Arc<House>) -> Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let of = Arc::clone(house);
    // Whoever is not there gets no answer; the load says so.
    let requests: Requests = Arc::new(move |number| {
        of.ticket(Cohort::Entry(number % ENTRIES)).map(|ticket| poll(&ticket)).unwrap_or_default()
    });
    // Sockets, buffers and threads are there before anybody is counted.
    load(&house.public, SOCKETS, Duration::from_secs(1), &next, &requests).await?;
    let (counted, kib) = (next.load(Ordering::Relaxed), pss_kib(house.gateway())?);
    let mut most_kib = kib;
    let (mut rates, mut p99s) = (vec![], vec![]);
    while next.load(Ordering::Relaxed) - counted < ENTRIES {
        let seen = load(&house.public, SOCKETS, Duration::from_secs(1), &next, &requests).await?;
        ensure!(seen.statuses.keys().all(|status| *status == 200), "{:?}", seen.statuses);
        rates.push(seen.per_second);
        p99s.push(seen.p99_ms);
        most_kib = most_kib.max(pss_kib(house.gateway())?);
    }
    let visitors = next.load(Ordering::Relaxed) - counted;
    let (rate, p99) = (median(&rates), median(&p99s));
    let bytes = (most_kib - kib) * 1024 / visitors;
    say(&format!(
        "{visitors} visitors polled once, {rate:.0} a second, p99 {p99:.1} ms: {kib} KiB \
         before, {most_kib} KiB at most, {bytes} bytes for each (bar 64)"
    ))
}

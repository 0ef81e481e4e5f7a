//! Event streams over TLS: the memory of an idle one, and how long a change takes to the last.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use stanchion::domain::ticket::Cohort;
use stanchion::lab::client::Client;
use stanchion::lab::rig::ConfigFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::house::{House, SALE};
use super::percentile;
use crate::rounds::{median, say};
use crate::yard::{Certificate, cpu, pss_kib};

/// How many streams are open when each thing is measured.
const MANY: [u64; 2] = [2_000, 8_000];
/// So many are before the first of them: told no more often than every ten seconds.
const AHEAD: u64 = 100_000;
/// Streams that are being opened at a time.
const OPENING: usize = 64;
const ROUNDS: usize = 5;
const WITHIN: Duration = Duration::from_secs(20);

/// A stream has told whether the line is paused.
struct Told {
    number: u64,
    is_paused: bool,
    at: Instant,
}

pub(crate) async fn measure() -> Result<()> {
    rlimit::increase_nofile_limit(20_000)?;
    let house = House::start(500, secured)?;
    let client = tls(&house.file("cert.pem"))?;
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut readers = JoinSet::new();
    let mut open = 0;
    // One of each kind before anything is counted.
    for many in [1].into_iter().chain(MANY) {
        let kib = pss_kib(house.gateway())?;
        while open < many {
            let mut opening = JoinSet::new();
            for number in open..many.min(open + OPENING as u64) {
                let request = request(&house.ticket(Cohort::Late(AHEAD + number))?);
                let stream = stream(client.clone(), house.public.clone(), request);
                opening.spawn(async move { stream.await.map(|stream| (number, stream)) });
            }
            open += opening.len() as u64;
            while let Some(stream) = opening.join_next().await {
                let (number, stream) = stream??;
                readers.spawn(read(stream, number, tell.clone()));
            }
        }
        let each = (pss_kib(house.gateway())? - kib) * 1024 / many;
        if many > 1 {
            say(&format!(
                "{many} streams over TLS: {each} bytes of the gateway each (bar 30,000)"
            ))?;
            idle(&house).await?;
            ticks(&house, many, &mut told).await?;
        }
    }
    Ok(())
}

fn secured(settings: &mut ConfigFile, folder: &Path) -> Result<()> {
    let files = Certificate::make(folder)?;
    let mut pair = toml::Table::new();
    for (name, file) in [("cert_file", &files.cert), ("key_file", &files.key)] {
        pair.insert(name.into(), file.to_str().context("a folder's name")?.into());
    }
    settings.set("public.certificates", vec![toml::Value::Table(pair)])?;
    settings.set("public.listener.0.tls", true)
}

fn tls(cert: &Path) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(cert)?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(Arc::new(config?.with_root_certificates(roots).with_no_client_auth()).into())
}

fn request(ticket: &str) -> String {
    format!(
        "GET /_stanchion/{SALE}/events HTTP/1.1\r\nhost: localhost\r\n\
         cookie: __Host-stanchion-ticket-{SALE}={ticket}\r\n\r\n"
    )
}

/// Opens one and reads until it has told something.
async fn stream(
    client: TlsConnector,
    address: String,
    request: String,
) -> Result<TlsStream<TcpStream>> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let mut stream = client.connect(ServerName::try_from("localhost")?, socket).await?;
    stream.write_all(request.as_bytes()).await?;
    let (mut seen, mut buffer) = (vec![], [0; 4096]);
    while !seen.windows(8).any(|window| window == b"\"phase\":") {
        let read = stream.read(&mut buffer).await?;
        ensure!(read > 0, "a stream ended at once: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..read]);
    }
    ensure!(seen.starts_with(b"HTTP/1.1 200"), "no stream: {}", String::from_utf8_lossy(&seen));
    Ok(stream)
}

/// Tells of each frame whether the line is paused in it.
async fn read(
    mut stream: TlsStream<TcpStream>,
    number: u64,
    tell: mpsc::UnboundedSender<Told>,
) -> Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).await?;
        ensure!(read > 0, "a stream ended");
        let says = |words: &[u8]| buffer[..read].windows(words.len()).any(|seen| seen == words);
        let is_paused = says(b"\"paused\":true");
        if is_paused || says(b"\"paused\":false") {
            tell.send(Told { number, is_paused, at: Instant::now() })?;
        }
    }
}

/// What streams cost while nothing happens.
async fn idle(house: &House) -> Result<()> {
    let time = Duration::from_secs(5);
    let before = cpu(house.gateway())?;
    tokio::time::sleep(time).await;
    let used = cpu(house.gateway())?.saturating_sub(before);
    say(&format!(
        "  idle: {:.1} % of one processor",
        100.0 * used.as_secs_f64() / time.as_secs_f64()
    ))
}

/// Pauses and resumes by the operators' door; each change must reach every stream.
async fn ticks(house: &House, many: u64, told: &mut mpsc::UnboundedReceiver<Told>) -> Result<()> {
    let client = Client::new(1);
    let ops = house.installation.gateways[0].url("ops")?;
    let key = format!("Bearer {}", house.installation.secrets.ops_key);
    let (mut spans, mut lasts) = (vec![], vec![]);
    for round in 0..2 * ROUNDS {
        let is_paused = round % 2 == 0;
        let action = if is_paused { "pause" } else { "resume" };
        let url = format!("{ops}/v1/sales/{SALE}/{action}");
        let asked = Instant::now();
        let headers = [("authorization", key.as_str())];
        let answer = client.post_json(&url, &headers, &serde_json::json!({})).await?;
        ensure!(answer.status == 200, "{action}: {}", answer.text());
        let (mut times, mut heard) = (vec![], HashSet::new());
        let all = async {
            while (heard.len() as u64) < many {
                let told = told.recv().await.context("all streams ended")?;
                if told.is_paused == is_paused && heard.insert(told.number) {
                    times.push(u32::try_from(told.at.duration_since(asked).as_millis())?);
                }
            }
            anyhow::Ok(())
        };
        let all = tokio::time::timeout(WITHIN, all).await;
        ensure!(all.is_ok(), "{} of {many} streams told of a {action}", times.len());
        times.sort_unstable();
        let [first, last] = [0, 100].map(|part| percentile(&times, part));
        spans.push(f64::from(last - first));
        lasts.push(f64::from(last));
    }
    say(&format!(
        "  a change to all: {:.0} ms from the first to the last, {:.0} ms from the command to the \
         last (bar 250) {lasts:?}",
        median(&spans),
        median(&lasts),
    ))
}

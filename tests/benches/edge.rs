//! The edge against nginx and haproxy in front of the same origin: admitted requests forwarded,
//! the queue's answer to everybody else, new TLS connections, memory of idle ones. The load is on
//! the same processors. Nothing is asserted.
//!
//! Run: `cargo bench --bench edge` (`CARGO_PROFILE_BENCH_LTO=off` builds sooner), or a part of it:
//! `cargo bench --bench edge -- http`; the parts are http, https, queue, handshakes, memory. With
//! `program=FILE` another build of the program is measured, with `rounds=N` more or less often.
//! Needs nginx, haproxy, wrk. About five minutes.

mod house;
mod idle;
mod rounds;
mod yard;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use house::House;
use idle::{Asked, idle_kib};
use rounds::{ROUNDS, run, say};
use tempfile::TempDir;
use yard::{Certificate, Haproxy, Load, Nginx, Seen, Site, Table, Target};

const TIME: Duration = Duration::from_secs(2);
const PARTS: [&str; 5] = ["http", "https", "queue", "handshakes", "memory"];
/// Idle connections, and the loopback addresses that they come from.
const IDLE: usize = 5_000;

fn main() -> Result<()> {
    run(measure())
}

async fn measure() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let told = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
    let rounds = told("rounds=").map_or(Ok(ROUNDS), str::parse)?;
    let program = told("program=").unwrap_or(env!("CARGO_BIN_EXE_stanchion"));
    let all = !words.iter().any(|word| PARTS.contains(&word.as_str()));
    let is_wanted = |part: &str| all || words.iter().any(|word| word == part);

    let folder = TempDir::with_prefix("edge-bench-")?;
    let certificate = Certificate::make(folder.path())?;
    let origin = Nginx::start(1, &Site::Files(&bodies()), None)?;
    let program = PathBuf::from(program);
    let house = House::build(&program, origin.http, &certificate)?;
    let (nginx, haproxy) = others(origin.http, &certificate)?;
    let yard = Yard { program, house, nginx, haproxy, origin, certificate, rounds };
    for (scheme, bar) in [("http", 0.85), ("https", 0.95)] {
        if is_wanted(scheme) {
            yard.forwarded(scheme, bar)?;
        }
    }
    if is_wanted("queue") {
        yard.queued().await?;
    }
    if is_wanted("handshakes") {
        yard.shaken()?;
    }
    if is_wanted("memory") {
        yard.remembered().await?;
    }
    Ok(())
}

/// 1 KB and 64 KB.
fn bodies() -> Vec<(&'static str, Vec<u8>)> {
    vec![("checkout/1k", vec![b'x'; 1024]), ("checkout/64k", vec![b'x'; 65_536])]
}

/// We and they, in front of one origin.
struct Yard {
    program: PathBuf,
    house: House,
    nginx: Nginx,
    haproxy: Haproxy,
    origin: Nginx,
    certificate: Certificate,
    rounds: usize,
}

impl Yard {
    /// The same file by each way.
    fn ways(&self, scheme: &str, body: &str) -> Result<[(&'static str, Target); 3]> {
        let path = format!("/checkout/{body}");
        let (nginx, haproxy) = if scheme == "http" {
            (self.nginx.plain(&path), self.haproxy.plain(&path))
        } else {
            let nginx = self.nginx.secure(&path).context("nginx without TLS")?;
            (nginx, self.haproxy.secure(&path))
        };
        let ours = self.house.admitted(scheme, &format!("/{body}"));
        Ok([("stanchion", ours), ("nginx", nginx), ("haproxy", haproxy)])
    }

    /// An admitted visitor's request and its answer, against the same through each of the others.
    fn forwarded(&self, scheme: &str, bar: f64) -> Result<()> {
        let mut table = Table::default();
        let shapes = [("1k", 64), ("1k", 256), ("64k", 64), ("64k", 256)];
        let name = |who: &str, (body, connections): (&str, usize)| {
            format!("{scheme} {body} {connections} connections, {who}")
        };
        for _ in 0..self.rounds {
            for shape in shapes {
                for (who, target) in self.ways(scheme, shape.0)? {
                    table.note(&name(who, shape), Load::of(shape.1, TIME).wrk(&target)?);
                }
            }
        }
        table.tell()?;
        for shape in shapes {
            let [ours, nginx, haproxy] =
                ["stanchion", "nginx", "haproxy"].map(|who| table.of(&name(who, shape)));
            let better = if nginx.per_second > haproxy.per_second { nginx } else { haproxy };
            say(&format!(
                "{:<44} rate {:.2} x (bar {bar}), p99 {:.2} x (bar 1.5), cpu {:.2} x",
                name("to the better", shape),
                ours.per_second / better.per_second,
                ours.p99_us / better.p99_us,
                ours.cpu_us / better.cpu_us,
            ))?;
        }
        Ok(())
    }

    /// The queue's answers to people and to scripts, against nginx with files of the same bytes.
    async fn queued(&self) -> Result<()> {
        let readers = [("page", "text/html"), ("problem", "application/json")];
        let mut files = vec![];
        for (name, accept) in readers {
            files.push((name, self.house.queue_answer(accept).await?));
        }
        let nginx = Nginx::start(2, &Site::Files(&files), None)?;
        let mut table = Table::default();
        let shapes = readers.map(|reader| [(reader, 64), (reader, 256)]).concat();
        let name = |who: &str, what: &str, connections: usize| {
            format!("queue {what} {connections} connections, {who}")
        };
        for _ in 0..self.rounds {
            for ((what, accept), connections) in &shapes {
                let load = Load::of(*connections, TIME);
                let ours = self.house.waiting("http", "/a").with("Accept", accept);
                let ours = if *what == "problem" { ours.refused() } else { ours };
                table.note(&name("stanchion", what, *connections), load.wrk(&ours)?);
                let theirs = nginx.plain(&format!("/{what}"));
                table.note(&name("nginx", what, *connections), load.wrk(&theirs)?);
            }
        }
        table.tell()?;
        for ((what, _), connections) in shapes {
            let of = |who| table.of(&name(who, what, connections));
            ratio(&name("to nginx", what, connections), of("stanchion"), of("nginx"), 1.0)?;
        }
        Ok(())
    }

    /// A new TLS connection for every request, 32 clients, no resumption.
    fn shaken(&self) -> Result<()> {
        let mut table = Table::default();
        for _ in 0..self.rounds {
            for (who, target) in self.ways("https", "1k")? {
                let target = target.with("Connection", "close");
                table.note(&format!("handshakes, {who}"), Load::of(32, TIME).wrk(&target)?);
            }
        }
        table.tell()?;
        for other in ["nginx", "haproxy"] {
            let of = |who: &str| table.of(&format!("handshakes, {who}"));
            ratio(&format!("handshakes, to {other}"), of("stanchion"), of(other), 1.5)?;
        }
        Ok(())
    }

    /// What a connection takes that has asked once and asks for nothing more. Of fresh processes:
    /// what was freed before would be used again.
    async fn remembered(&self) -> Result<()> {
        let certificate = Some(&self.certificate);
        for (what, scheme, secured) in
            [("plain (bar 20)", "http", None), ("TLS (bar 28)", "https", certificate)]
        {
            let house = House::build(&self.program, self.origin.http, &self.certificate)?;
            let address = if secured.is_some() { house.https } else { house.http };
            let cookie = &house.cookie(scheme);
            let asked = Asked { address, secured, cookie, pid: house.pid() };
            kept(&format!("stanchion, {what}"), idle_kib(asked, IDLE).await?)?;
        }
        let (nginx, haproxy) = others(self.origin.http, &self.certificate)?;
        let https = nginx.https.context("nginx without TLS")?;
        for (who, address, pid) in
            [("nginx, TLS", https, nginx.pid()), ("haproxy, TLS", haproxy.https, haproxy.pid())]
        {
            let asked = Asked { address, secured: certificate, cookie: "a=b", pid };
            kept(who, idle_kib(asked, IDLE).await?)?;
        }
        Ok(())
    }
}

/// nginx and haproxy in front of an origin.
fn others(origin: SocketAddr, certificate: &Certificate) -> Result<(Nginx, Haproxy)> {
    let nginx = Nginx::start(2, &Site::Proxy(origin), Some(certificate))?;
    Ok((nginx, Haproxy::start(2, origin, certificate)?))
}

fn kept(who: &str, kib: f64) -> Result<()> {
    say(&format!("{who:<44} {kib:.1} KiB for an idle connection"))
}

fn ratio(name: &str, ours: Seen, theirs: Seen, bar: f64) -> Result<()> {
    say(&format!(
        "{name:<44} rate {:.2} x (bar {bar}), p99 {:.2} x, cpu {:.2} x",
        ours.per_second / theirs.per_second,
        ours.p99_us / theirs.p99_us,
        ours.cpu_us / theirs.cpu_us,
    ))
}

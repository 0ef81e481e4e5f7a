//! Load by wrk and h2load, bounded in time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::process::cpu;
use super::running::find;
use super::seen::Seen;

/// What is asked for, and who answers.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    url: String,
    headers: Vec<String>,
    /// The server, with its children: whose processor time is counted.
    pid: u32,
    /// Answers other than 2xx and 3xx are what is wanted, as of refusals.
    refuses: bool,
    /// What makes the requests, if not all are alike.
    script: Option<PathBuf>,
}

impl Target {
    pub(crate) fn new(url: String, pid: u32) -> Self {
        Self { url, headers: vec![], pid, refuses: false, script: None }
    }

    /// Sends a header with each request.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push(format!("{name}: {value}"));
        self
    }

    /// Requests made by a script in Lua; only wrk knows it.
    pub(crate) fn scripted(mut self, script: &Path) -> Self {
        self.script = Some(script.to_owned());
        self
    }

    /// Every answer is to be a refusal.
    pub(crate) fn refused(mut self) -> Self {
        self.refuses = true;
        self
    }
}

/// How it is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    pub(crate) time: Duration,
}

impl Load {
    /// Over so many connections, by one thread.
    pub(crate) fn of(connections: usize, time: Duration) -> Self {
        Self { connections, threads: 1, time }
    }

    /// Keep-alive over HTTP/1.1, by wrk. A `Connection: close` among the headers makes every
    /// request a new connection, without resumption.
    pub(crate) fn wrk(&self, target: &Target) -> Result<Seen> {
        let mut command = Command::new(find("wrk")?);
        let threads = self.threads.to_string();
        let connections = self.connections.to_string();
        let seconds = format!("{}s", self.time.as_secs().max(1));
        command.args(["-t", &threads, "-c", &connections, "-d", &seconds, "--latency"]);
        for header in &target.headers {
            command.args(["-H", header]);
        }
        if let Some(script) = &target.script {
            command.arg("-s").arg(script);
        }
        let (said, used) = Self::timed(command.arg(&target.url), target)?;
        let count = said.lines().find_map(|line| line.split_once(" requests in "));
        let count: f64 = count.context("wrk told no count")?.0.trim().parse()?;
        let others = after(&said, "Non-2xx or 3xx responses:");
        let others = others.map_or(Ok(0.0), |text| text.trim().parse::<f64>())?;
        let wanted = if target.refuses { others } else { count - others };
        ensure!(wanted >= count && count > 0.0, "{}: not all as wanted:\n{said}", target.url);
        Ok(Seen {
            per_second: after(&said, "Requests/sec:").context("no rate")?.trim().parse()?,
            p50_us: micros(after(&said, " 50%").context("no median")?.trim())?,
            p99_us: micros(after(&said, " 99%").context("no 99 %")?.trim())?,
            cpu_us: used.as_secs_f64() * 1e6 / count,
        })
    }

    /// Over HTTP/2 with so many streams on each connection, by h2load.
    pub(crate) fn h2(&self, streams: usize, folder: &Path, target: &Target) -> Result<Seen> {
        let log = folder.join("h2load.log");
        drop(std::fs::remove_file(&log));
        let mut command = Command::new(find("h2load")?);
        for (name, value) in [
            ("-t", self.threads),
            ("-c", self.connections),
            ("-m", streams),
            ("-D", usize::try_from(self.time.as_secs().max(1))?),
        ] {
            command.arg(name).arg(value.to_string());
        }
        for header in &target.headers {
            command.args(["-H", header]);
        }
        command.arg(format!("--log-file={}", log.display())).arg(&target.url);
        let (said, used) = Self::timed(&mut command, target)?;
        // start, status, microseconds
        let text = std::fs::read_to_string(&log).context("h2load wrote no log")?;
        let (mut times, mut wanted) = (vec![], 0_usize);
        for line in text.lines() {
            let mut words = line.split_whitespace().skip(1);
            let status: i32 = words.next().context("a line without status")?.parse()?;
            times.push(words.next().context("a line without a time")?.parse::<u32>()?);
            wanted += usize::from((200..400).contains(&status) != target.refuses);
        }
        times.sort_unstable();
        ensure!(wanted == times.len() && wanted > 0, "{}: not all as wanted:\n{said}", target.url);
        let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
        let count = f64::from(u32::try_from(times.len())?);
        Ok(Seen {
            per_second: count / self.time.as_secs_f64(),
            p50_us: at(50).into(),
            p99_us: at(99).into(),
            cpu_us: used.as_secs_f64() * 1e6 / count,
        })
    }

    /// What it said, and what the server used meanwhile.
    fn timed(command: &mut Command, target: &Target) -> Result<(String, Duration)> {
        let before = cpu(target.pid)?;
        let out = command.output().with_context(|| format!("running {command:?}"))?;
        let used = cpu(target.pid)?.saturating_sub(before);
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let errors = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "{command:?}: {said} {errors}");
        Ok((said, used))
    }
}

/// The rest of the first line with this mark.
fn after<'a>(said: &'a str, mark: &str) -> Option<&'a str> {
    said.lines().find_map(|line| line.split_once(mark)).map(|(_, rest)| rest)
}

/// `243.00us`, `1.05ms`, `2.10s`.
fn micros(text: &str) -> Result<f64> {
    for (unit, factor) in [("us", 1.0), ("ms", 1e3), ("m", 6e7), ("s", 1e6)] {
        if let Some(number) = text.strip_suffix(unit) {
            return Ok(number.trim().parse::<f64>()? * factor);
        }
    }
    anyhow::bail!("{text} is no time of wrk")
}

//! Status polls of many visitors, and joins, beside nginx serving a file of 1 KB.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use stanchion::domain::ticket::Cohort;

use super::house::{House, SALE, open_quota};
use crate::rounds::{ROUNDS, say};
use crate::yard::{Load, Nginx, Site, Table, Target};

const TIME: Duration = Duration::from_secs(1);
/// Many short rounds: machines are noisy for seconds at a time.
const MANY: usize = 3 * ROUNDS;
const CONNECTIONS: [usize; 2] = [64, 256];
/// Visitors that poll; each request is the next one's.
const VISITORS: u64 = 16_384;
/// More than are answered in one round.
const JOINS_WRITTEN: usize = 100_000;
const POLLS: &str = "status polls";
const JOINS: &str = "joins";
const FILE: &str = "nginx, 1 KB file";

pub(crate) fn measure() -> Result<()> {
    let house = House::start(500, |settings, _| {
        settings.set("limits.poll", open_quota())?;
        settings.set("limits.per_ip", open_quota())?;
        settings.set("sale.0.places_per_ip", 0)
    })?;
    let status = format!("_stanchion/{SALE}/status");
    let nginx = Nginx::start(2, &Site::Files(&[(&status, vec![b'x'; 1024])]), None)?;
    let (polls, joins) = (poll_script(&house)?, join_script(&house.file("joins.lua"))?);
    let ours = |path: &str| {
        Target::new(format!("http://{}/_stanchion/{SALE}/{path}", house.public), house.gateway())
    };
    let mut table = Table::default();
    let name = |what: &str, connections: usize| format!("{what}, {connections} connections");
    for _ in 0..MANY {
        for connections in CONNECTIONS {
            let load = Load::of(connections, TIME);
            for (what, target) in [
                (FILE, nginx.plain(&format!("/{status}")).scripted(&polls)),
                (POLLS, ours("status").scripted(&polls)),
                (JOINS, ours("join").scripted(&joins)),
            ] {
                table.note(&name(what, connections), load.wrk(&target)?);
            }
        }
    }
    table.tell()?;
    for connections in CONNECTIONS {
        let [file, polls, joins] = [FILE, POLLS, JOINS].map(|what| name(what, connections));
        say(&format!(
            "{connections} connections: polls : nginx {:.2} (bar 1.2), cpu {:.2} (bar 0.8), \
             joins : polls {:.2} (bar 0.5)",
            table.ratio(&polls, &file, |seen| seen.per_second),
            table.ratio(&polls, &file, |seen| seen.cpu_us),
            table.ratio(&joins, &polls, |seen| seen.per_second),
        ))?;
    }
    Ok(())
}

/// Each request with the next visitor's ticket, made before wrk begins.
fn poll_script(house: &House) -> Result<PathBuf> {
    let (tickets, script) = (house.file("tickets"), house.file("polls.lua"));
    let mut file = std::io::BufWriter::new(std::fs::File::create(&tickets)?);
    for number in 0..VISITORS {
        writeln!(file, "{}", house.ticket(Cohort::Late(number))?)?;
    }
    file.flush()?;
    let text = format!(
        r#"local requests, at = {{}}, 0
function init()
  for ticket in io.lines("{}") do
    requests[#requests + 1] = wrk.format("GET", nil, {{ Host = "localhost",
      Cookie = "stanchion-ticket-{SALE}=" .. ticket }})
  end
end
function request()
  at = at % #requests + 1
  return requests[at]
end
"#,
        tickets.display()
    );
    std::fs::write(&script, text)?;
    Ok(script)
}

/// Each join with a key of its own, written before wrk begins as far as it comes.
fn join_script(script: &Path) -> Result<PathBuf> {
    let text = format!(
        r#"local requests, at, run = {{}}, 0, tostring(os.time()) .. "-" .. tostring({{}}):sub(8)
local function join(number)
  return wrk.format("POST", nil, {{ Host = "localhost", ["Content-Type"] = "application/json",
    ["Idempotency-Key"] = run .. "-" .. number }}, "{{}}")
end
function init()
  for number = 1, {JOINS_WRITTEN} do
    requests[number] = join(number)
  end
end
function request()
  at = at + 1
  return requests[at] or join(at)
end
"#
    );
    std::fs::write(script, text)?;
    Ok(script.to_owned())
}

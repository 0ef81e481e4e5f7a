//! Steering the sales from this node: the desk that takes changes, and the way round a Redis that
//! does not answer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::join_all;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::listeners::Doors;
use super::serve::Parts;
use crate::config::Settings;
use crate::keeper::{ControlDesk, CoreRecords};
use crate::room::Room;

/// How often the core is asked what is in force, while Redis does not tell.
const ASK_EVERY: Duration = Duration::from_millis(300);

/// The desk of this node.
pub(super) fn desk(parts: &Parts, cores: &[String]) -> anyhow::Result<Arc<ControlDesk>> {
    let secrets = &parts.secrets;
    let cores = CoreRecords::new(
        cores,
        secrets.core_key.clone(),
        secrets.ops_key.clone(),
        &parts.settings.ops.key_env,
    );
    let cores = cores.context("core.url")?;
    Ok(Arc::new(ControlDesk::new(parts.redis.clone(), cores, parts.clock.clone())))
}

/// Keeps asking a core what is in force, for the rooms that Redis does not tell.
pub(super) fn ask_cores(parts: &Parts, desk: &Arc<ControlDesk>, rooms: &[Arc<Room>]) {
    let (desk, rooms, ending) = (Arc::clone(desk), rooms.to_vec(), parts.life.ending());
    parts.life.background("control by the core", keep_asking(desk, rooms, ending));
}

async fn keep_asking(desk: Arc<ControlDesk>, rooms: Vec<Arc<Room>>, ending: CancellationToken) {
    let mut ticks = tokio::time::interval(ASK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut is_told = true;
    while ending.run_until_cancelled(ticks.tick()).await.is_some() {
        let untold = rooms.iter().filter(|room| room.needs_core());
        let asked = untold.map(|room| async {
            let told = desk.cores().control(room.sale()).await;
            told.map(|control| room.told_by_core(&control))
        });
        let all = ending.run_until_cancelled(join_all(asked)).await.unwrap_or_default();
        // Said once at each change.
        let failure = all.into_iter().find_map(Result::err);
        match &failure {
            Some(refusal) if is_told => tracing::error!(
                error = refusal.detail,
                "neither Redis nor a core tells what is in force: a stop cannot reach this node"
            ),
            None if !is_told => tracing::info!("this node is told what is in force again"),
            Some(_) | None => {}
        }
        is_told = failure.is_none();
    }
}

/// This node's name in the audit trail: the machine, and the port of its ops listener.
pub(super) fn node_name(doors: &Doors) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "node",
        host => host,
    };
    match doors.ops.local_addr() {
        Ok(addr) => format!("{host}:{}", addr.port()),
        Err(_) => host.to_owned(),
    }
}

/// Where cores are asked: the one of this process first, if it has one, then `core.url`.
pub(super) fn core_urls(doors: &Doors, settings: &Settings) -> Vec<String> {
    let own = doors.core.as_ref().and_then(|core| core.local_addr().ok()).map(|mut addr| {
        if addr.ip().is_unspecified() {
            addr.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        format!("http://{addr}")
    });
    let mut urls: Vec<String> = own.into_iter().collect();
    for url in settings.core.url.split(',').map(str::trim) {
        if !urls.iter().any(|known| known == url) {
            urls.push(url.to_owned());
        }
    }
    urls
}

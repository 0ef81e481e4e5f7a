//! The keys of this node: made or read at the start, followed while it runs.

use std::sync::Arc;

use anyhow::Context;

use super::serve::{Parts, Role};
use crate::config::Settings;
use crate::room::keys::{Keys, Watch};
use crate::store::redis::RedisStore;
use crate::store::redis::room::RoomStore;

/// Follows the key folder, so that keys are rotated without a restart.
pub(super) fn watch(parts: &Parts) {
    let (keys, dir) = (Arc::clone(&parts.keys), parts.settings.keys.dir.clone());
    parts.metrics.register(|registry| {
        let watch = Watch::new(keys, dir, registry);
        parts.life.background("key folder", watch.run(parts.life.ending()));
    });
}

/// Role `all` makes its own keys in an empty folder, if no other node has told of keys. Any other
/// node that made its own would sign what the others refuse.
pub(super) async fn load(
    settings: &Settings,
    role: Role,
    redis: &RedisStore,
) -> anyhow::Result<Keys> {
    let dir = &settings.keys.dir;
    // Made last: without one there is no whole set yet.
    let is_admission = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b"admission-");
    let empty = match std::fs::read_dir(dir) {
        Ok(mut entries) => !entries.any(|entry| entry.is_ok_and(|e| is_admission(&e.file_name()))),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    let keys = match (empty, role) {
        (false, _) => Keys::load(dir),
        (true, Role::All) => {
            refuse_second_set(settings, redis).await?;
            tracing::info!(dir = %dir.display(), "no keys yet: making them");
            Keys::generate(dir)
        }
        (true, Role::Gateway | Role::Core) => {
            let dir = dir.display();
            anyhow::bail!(
                "keys.dir: {dir} has no keys; make them once with `stanchion keys new --dir {dir}` \
                 and copy the folder to every node"
            )
        }
    };
    keys.context("keys.dir")
}

/// Whoever was here before has keys, and places that only they can read.
async fn refuse_second_set(settings: &Settings, redis: &RedisStore) -> anyhow::Result<()> {
    let dir = settings.keys.dir.display();
    for sale in &settings.sales {
        let known = RoomStore::new(redis.clone(), &sale.id).identity().await;
        let known = known.with_context(|| {
            format!(
                "keys.dir: {dir} has no keys, and whether other nodes have some cannot be asked: \
                 let Redis answer, or make keys with `stanchion keys new --dir {dir}`"
            )
        })?;
        if let Some(identity) = known {
            anyhow::bail!(
                "keys.dir: {dir} has no keys, but nodes with keys (of installation {identity}) \
                 were here before: copy their folder; only if it is lost for good, and the places \
                 with it, make new ones with `stanchion keys new --dir {dir}`"
            );
        }
    }
    Ok(())
}

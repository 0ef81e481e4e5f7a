//! The keys of this node: made or read at the start, followed while it runs.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;

use super::serve::{Parts, Role};
use crate::room::keys::{Keys, Watch};

/// Follows the key folder, so that keys are rotated without a restart.
pub(super) fn watch(parts: &Parts) {
    let (keys, dir) = (Arc::clone(&parts.keys), parts.settings.keys.dir.clone());
    parts.metrics.register(|registry| {
        let watch = Watch::new(keys, dir, registry);
        parts.life.background("key folder", watch.run(parts.life.ending()));
    });
}

/// Role `all` makes its own keys in an empty folder: with one node there is nobody to share them
/// with. Any other node that made its own would sign what the others refuse.
pub(super) fn load(dir: &Path, role: Role) -> anyhow::Result<Keys> {
    let empty = match std::fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    let keys = match (empty, role) {
        (false, _) => Keys::load(dir),
        (true, Role::All) => {
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

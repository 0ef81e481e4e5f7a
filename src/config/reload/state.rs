//! What a node says about its settings file: for the ops page, logs and alarms.

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::config::settings::Settings;

/// As of the last look at the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Reloaded {
    /// The file that is followed.
    pub file: String,
    /// Equal on nodes whose last good files say the same, in whatever order and with whatever
    /// comments: 12 hex digits.
    pub version: String,
    /// Why the file as it is now is refused; the settings before it stay.
    pub error: Option<String>,
    /// Keys that differ and are read only at the start, as `sale[0].hold`.
    pub restart: Vec<String>,
    /// Keys that differ and are refused while their sale is on.
    pub refused: Vec<String>,
    /// Where control records are not as the file says: `drop rate: file 200/s, in force 50/s`.
    pub differs: Vec<String>,
}

/// Written by the one that follows the file, read by whoever shows it.
#[derive(Debug, Default)]
pub struct ReloadState(ArcSwap<Reloaded>);

impl ReloadState {
    /// Nothing looked at yet.
    pub fn new(file: &std::path::Path, settings: &Settings) -> Self {
        let reloaded = Reloaded {
            file: file.display().to_string(),
            version: version(settings),
            ..Reloaded::default()
        };
        Self(ArcSwap::from_pointee(reloaded))
    }

    /// As of now.
    pub fn get(&self) -> Arc<Reloaded> {
        self.0.load_full()
    }

    /// Changes it; there is one writer.
    pub fn update(&self, change: impl FnOnce(&mut Reloaded)) {
        let mut reloaded = Reloaded::clone(&self.0.load());
        change(&mut reloaded);
        self.0.store(Arc::new(reloaded));
    }
}

/// What settings are told apart by, whoever wrote them down.
pub fn version(settings: &Settings) -> String {
    let mut settings = settings.clone();
    settings.sales.sort_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
    let text = serde_json::to_vec(&settings).unwrap_or_default();
    hex::encode(&Sha256::digest(&text)[..6])
}

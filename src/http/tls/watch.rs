//! Follows the files of all certificates: by content, for editors rename, and secrets that are
//! mounted come by a link that is turned around.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::certificates::Certificates;
use super::pair::{Bytes, Pair, PairFiles, TlsError};
use crate::clock::Clock;

/// How often the files are read; new bytes must be seen twice before they are believed.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What a pair of files held, as far as it is told apart from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Bytes with this digest.
    Read([u8; 32]),
    /// One is gone, or not ours to read.
    Unreadable,
}

/// What was last seen of a pair of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    judged: Option<Content>,
    unsettled: Option<Content>,
}

struct Watch {
    certificates: Arc<Certificates>,
    clock: Arc<dyn Clock>,
    seen: BTreeMap<PairFiles, Seen>,
}

impl Certificates {
    /// Follows the files until `ending`.
    pub async fn follow(self: Arc<Self>, clock: Arc<dyn Clock>, ending: CancellationToken) {
        let mut watch = Watch { certificates: self, clock, seen: BTreeMap::new() };
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = ending.cancelled() => return,
                _ = tick.tick() => watch.look(),
            }
        }
    }
}

impl Watch {
    fn look(&mut self) {
        let certificates = Arc::clone(&self.certificates);
        let now_ms = self.clock.now_ms();
        let (wanted, served) = (certificates.wanted.load_full(), certificates.served());
        let mut pairs = vec![];
        let mut changed = false;
        for files in wanted.iter() {
            let old = served.pairs.iter().find(|(known, _)| known == files);
            let old = old.map(|(_, pair)| Arc::clone(pair));
            let new = self.look_at(files, old.as_ref(), now_ms);
            changed |= new.is_some();
            pairs.extend(new.or(old).map(|pair| (files.clone(), pair)));
        }
        changed |= !pairs.iter().map(|(files, _)| files).eq(served.pairs.iter().map(|(f, _)| f));
        // A list of which nothing can be served is no better than the old one.
        if changed && !pairs.is_empty() {
            for (files, _) in served.pairs.iter().filter(|(files, _)| !wanted.contains(files)) {
                certificates.metrics.forget(files);
            }
            certificates.serve(pairs);
        }
        self.seen.retain(|files, _| wanted.contains(files));
        certificates.metrics.served(&certificates.served().pairs, now_ms);
    }

    /// The pair, if its files hold another one than before.
    fn look_at(
        &mut self,
        files: &PairFiles,
        old: Option<&Arc<Pair>>,
        now_ms: u64,
    ) -> Option<Arc<Pair>> {
        let bytes = Bytes::read(files);
        let content =
            bytes.as_ref().map_or(Content::Unreadable, |bytes| Content::Read(bytes.digest()));
        let seen = self.seen.entry(files.clone()).or_default();
        if seen.judged == Some(content) {
            seen.unsettled = None;
            return None;
        }
        if seen.unsettled != Some(content) {
            seen.unsettled = Some(content);
            return None;
        }
        let is_first = seen.judged.is_none();
        *seen = Seen { judged: Some(content), unsettled: None };
        let provider = &self.certificates.provider;
        let pair = bytes.and_then(|bytes| bytes.pair(files, provider));
        match pair.and_then(|pair| acceptable(files, pair, old, now_ms)) {
            // What was read at the start, seen again.
            Ok(pair) if is_first && old.is_some_and(|old| old.key.cert == pair.key.cert) => {
                self.certificates.metrics.read(files, true);
                Some(Arc::new(pair))
            }
            Ok(pair) => {
                self.certificates.metrics.read(files, true);
                let days = pair.seconds_left(now_ms) / 86_400;
                tracing::info!(file = %files.cert.display(), days, "a new certificate is served");
                Some(Arc::new(pair))
            }
            Err(error) => {
                self.certificates.metrics.read(files, false);
                let kept = if old.is_some() { "the old one is still served" } else { "none" };
                tracing::error!(%error, kept, "a certificate is refused");
                None
            }
        }
    }
}

/// One that ran out is served with a warning, but never in place of one that has not.
fn acceptable(
    files: &PairFiles,
    pair: Pair,
    old: Option<&Arc<Pair>>,
    now_ms: u64,
) -> Result<Pair, TlsError> {
    if pair.is_expired(now_ms) {
        if old.is_some_and(|old| !old.is_expired(now_ms)) {
            return Err(TlsError::Expired(files.cert.clone()));
        }
        tracing::warn!(file = %files.cert.display(), "a certificate ran out; renew it");
    }
    Ok(pair)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::telemetry::Metrics;

    const NOW_MS: u64 = 1_800_000_000_000;

    struct Rig {
        folder: tempfile::TempDir,
        metrics: Metrics,
        watch: Watch,
    }

    impl Rig {
        fn files(&self, name: &str) -> PairFiles {
            files(self.folder.path(), name)
        }

        /// Looks until what is there has been judged.
        fn settle(&mut self) {
            self.watch.look();
            self.watch.look();
        }

        fn names(&self) -> Vec<Vec<String>> {
            let served = self.watch.certificates.served();
            served.pairs.iter().map(|(_, pair)| pair.names.clone()).collect()
        }
    }

    fn files(folder: &std::path::Path, name: &str) -> PairFiles {
        let at = |end| folder.join(format!("{name}.{end}"));
        PairFiles { cert: at("crt"), key: at("key") }
    }

    fn write(files: &PairFiles, host: &str, year: i32) {
        let mut wanted = rcgen::CertificateParams::new(vec![host.into()]).unwrap();
        wanted.not_after = rcgen::date_time_ymd(year, 3, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(&files.cert, wanted.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
    }

    fn rig() -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let one = files(folder.path(), "one");
        write(&one, "one.test", 2030);
        let metrics = Metrics::new("gateway");
        let certificates = Certificates::load(vec![one], NOW_MS, &metrics).unwrap();
        let clock = Arc::new(ManualClock::at(NOW_MS));
        let watch = Watch { certificates, clock, seen: BTreeMap::new() };
        let mut rig = Rig { folder, metrics, watch };
        rig.settle();
        rig
    }

    #[test]
    fn ed_80_a_bad_pair_keeps_the_old_one_and_a_good_one_replaces_it() {
        let mut rig = rig();
        let one = rig.files("one");
        let good = [std::fs::read(&one.cert).unwrap(), std::fs::read(&one.key).unwrap()];

        let other = rig.files("other");
        write(&other, "two.test", 2030);
        let foreign_key = std::fs::read(&other.key).unwrap();
        let half = &good[0][..good[0].len() / 2];
        for (cert, key) in [
            (&good[0][..], &foreign_key[..]),
            (b"", &good[1][..]),
            (half, &good[1][..]),
            (&good[0][..], b"-----BEGIN NOTHING-----\n"),
        ] {
            std::fs::write(&one.cert, cert).unwrap();
            std::fs::write(&one.key, key).unwrap();
            rig.settle();
            assert_eq!(rig.names(), [["one.test"]]);
            let text = rig.metrics.text();
            assert!(text.contains("certificate_last_reload_successful{certificate="), "{text}");
            assert!(text.contains("one.crt\"} 0"), "{text}");
        }
        std::fs::remove_file(&one.key).unwrap();
        rig.settle();
        write(&one, "expired.test", 2020);
        rig.settle();
        assert_eq!(rig.names(), [["one.test"]], "what ran out does not replace what has not");
        assert!(rig.metrics.text().contains("certificate_reloads_refused_total 6"));

        write(&one, "new.test", 2029);
        rig.watch.look();
        assert_eq!(rig.names(), [["one.test"]], "seen once, it may still be half written");
        rig.watch.look();
        assert_eq!(rig.names(), [["new.test"]]);
    }

    #[test]
    fn the_list_of_the_settings_may_change_and_an_unusable_newcomer_is_left_out() {
        let mut rig = rig();
        let (one, two, missing) = (rig.files("one"), rig.files("two"), rig.files("missing"));
        write(&two, "two.test", 2031);

        rig.watch.certificates.want(vec![two.clone(), missing.clone(), one]);
        rig.settle();
        assert_eq!(rig.names(), [["two.test"], ["one.test"]]);

        rig.watch.certificates.want(vec![two]);
        rig.settle();
        assert_eq!(rig.names(), [["two.test"]]);
        rig.watch.certificates.want(vec![missing]);
        rig.settle();
        assert_eq!(rig.names(), [["two.test"]], "nothing to serve instead");
    }

    #[test]
    fn how_long_each_is_good_for_is_told() {
        let rig = rig();
        let end: jiff::Timestamp = "2030-03-01T00:00:00Z".parse().unwrap();
        let left = end.as_second() - i64::try_from(NOW_MS / 1000).unwrap();
        let text = rig.metrics.text();
        let line = text.lines().find(|line| line.contains("expires_in_seconds{")).unwrap();
        assert!(line.ends_with(&format!(" {left}")), "{line}");
    }
}

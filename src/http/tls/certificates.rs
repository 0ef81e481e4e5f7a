//! All certificates of the process: found by name, exchanged without a dropped connection.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, ServerConfig};

use super::metrics::CertificateMetrics;
use super::pair::{Bytes, Pair, PairFiles, TlsError, wildcard_of};
use crate::telemetry::Metrics;

/// The certificates that are served, and the files that they come from.
pub struct Certificates {
    pub(super) provider: Arc<CryptoProvider>,
    /// What the settings name, in their order.
    pub(super) wanted: ArcSwap<Vec<PairFiles>>,
    served: Arc<ArcSwap<Served>>,
    config: Arc<ServerConfig>,
    pub(super) metrics: CertificateMetrics,
}

impl Certificates {
    /// Reads all of them; at the start each must be good. `now_ms` is the machine's clock.
    pub fn load(
        files: Vec<PairFiles>,
        now_ms: u64,
        metrics: &Metrics,
    ) -> Result<Arc<Self>, TlsError> {
        let provider = Arc::new(provider());
        let mut pairs = vec![];
        for one in &files {
            let pair = Bytes::read(one)?.pair(one, &provider)?;
            if pair.is_expired(now_ms) {
                tracing::warn!(file = %one.cert.display(), "a certificate ran out; renew it");
            }
            pairs.push((one.clone(), Arc::new(pair)));
        }
        let metrics = CertificateMetrics::new(metrics);
        metrics.served(&pairs, now_ms);
        let served = Arc::new(ArcSwap::from_pointee(Served::new(pairs)));
        let config = config(&provider, Arc::clone(&served)).map_err(TlsError::Unsupported)?;
        let wanted = ArcSwap::from_pointee(files);
        Ok(Arc::new(Self { provider, wanted, served, config, metrics }))
    }

    /// From now on these are served, as soon as they have been read: within a second.
    pub fn want(&self, files: Vec<PairFiles>) {
        self.wanted.store(Arc::new(files));
    }

    /// What handshakes are made with; it stays the same, so that tickets survive an exchange.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// What is served now.
    pub(super) fn served(&self) -> Arc<Served> {
        self.served.load_full()
    }

    /// Exchanges all at once.
    pub(super) fn serve(&self, pairs: Vec<(PairFiles, Arc<Pair>)>) {
        self.served.store(Arc::new(Served::new(pairs)));
    }
}

/// Ours is the order of the ciphers, the cheapest first; none that is offered is weak.
fn provider() -> CryptoProvider {
    let mut provider = default_provider();
    provider.cipher_suites.sort_by_key(|suite| match suite.suite() {
        CipherSuite::TLS13_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => 0,
        CipherSuite::TLS13_AES_256_GCM_SHA384
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => 1,
        _ => 2,
    });
    provider
}

fn config(
    provider: &Arc<CryptoProvider>,
    served: Arc<ArcSwap<Served>>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(ByName(served)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ignore_client_order = true;
    // Their key changes every few hours; nothing is kept per visitor.
    config.ticketer = Ticketer::new()?;
    Ok(Arc::new(config))
}

/// One generation of certificates.
#[derive(Debug, Default)]
pub(super) struct Served {
    pub(super) pairs: Vec<(PairFiles, Arc<Pair>)>,
    /// Places in `pairs`, in their order: there may be one per kind of key.
    by_name: HashMap<String, Vec<usize>>,
}

impl Served {
    fn new(pairs: Vec<(PairFiles, Arc<Pair>)>) -> Self {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, (_, pair)) in pairs.iter().enumerate() {
            for name in &pair.names {
                by_name.entry(name.clone()).or_default().push(at);
            }
        }
        Self { pairs, by_name }
    }

    /// Those for a name (lower case, no trailing dot), the best first: named exactly, then by a
    /// wildcard, then whatever names no host. Nobody asked by name: all, the first first.
    pub(super) fn find(&self, name: Option<&str>) -> Vec<&Arc<Pair>> {
        let all = || self.pairs.iter().map(|(_, pair)| pair);
        let Some(name) = name else { return all().collect() };
        let exact = self.by_name.get(name);
        let wildcard = || wildcard_of(name).and_then(|name| self.by_name.get(&name));
        match exact.or_else(wildcard) {
            Some(places) => places.iter().map(|at| &self.pairs[*at].1).collect(),
            None => all().filter(|pair| pair.names.is_empty()).collect(),
        }
    }
}

#[derive(Debug)]
struct ByName(Arc<ArcSwap<Served>>);

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let served = self.0.load();
        let name = hello.server_name().map(|name| name.trim_end_matches('.').to_ascii_lowercase());
        let found = served.find(name.as_deref());
        let schemes = hello.signature_schemes();
        let fits = |pair: &&Arc<Pair>| pair.key.key.choose_scheme(schemes).is_some();
        let best = found.iter().copied().find(fits).or_else(|| found.first().copied());
        best.map(|pair| Arc::clone(&pair.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(names: &[&str]) -> (PairFiles, Arc<Pair>) {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let files = PairFiles { cert: folder.path().join("c"), key: folder.path().join("k") };
        std::fs::write(&files.cert, made.cert.pem()).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        let pair = Bytes::read(&files).unwrap().pair(&files, &default_provider()).unwrap();
        (files, Arc::new(pair))
    }

    #[test]
    fn the_name_chooses_exactly_then_by_wildcard_and_a_stranger_gets_none() {
        let served = Served::new(vec![
            pair(&["shop.test", "*.shop.test"]),
            pair(&["a.shop.test"]),
            pair(&["*.a.shop.test"]),
        ]);
        let place = |name: Option<&str>| {
            let found = served.find(name).first().map(|pair| Arc::as_ptr(pair));
            served.pairs.iter().position(|(_, pair)| Some(Arc::as_ptr(pair)) == found)
        };
        assert_eq!(place(Some("shop.test")), Some(0));
        assert_eq!(place(Some("b.shop.test")), Some(0));
        assert_eq!(place(Some("a.shop.test")), Some(1), "an own name goes before a wildcard");
        assert_eq!(place(Some("x.a.shop.test")), Some(2));
        assert_eq!(place(Some("x.b.shop.test")), None, "a wildcard is one label");
        assert_eq!(place(Some("evil.test")), None);
        assert_eq!(place(None), Some(0));
    }

    #[test]
    fn a_certificate_without_names_is_served_for_every_name_that_no_other_has() {
        let served = Served::new(vec![pair(&["shop.test"]), pair(&[])]);
        assert_eq!(served.find(Some("shop.test")).len(), 1);
        assert!(served.find(Some("else.test"))[0].names.is_empty());
        assert!(served.find(Some("else.test"))[0].covers("any.test"));
        let named = &served.pairs[0].1;
        assert!(named.covers("shop.test") && !named.covers("else.test"));
    }
}

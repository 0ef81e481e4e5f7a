//! The seed at rest: AES-256-GCM under the keys' seal key, bound to sale and run.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};

use crate::domain::id::SaleId;

fn bound(sale: &SaleId, run: u64) -> Aad<Vec<u8>> {
    Aad::from(format!("stanchion/seed/v1\0{sale}\0{run}").into_bytes())
}

/// Nonce, then the sealed seed with its tag.
pub(super) fn seal(key: &[u8; 32], sale: &SaleId, run: u64, seed: &[u8; 32]) -> Option<Vec<u8>> {
    let key = RandomizedNonceKey::new(&AES_256_GCM, key).ok()?;
    let mut body = seed.to_vec();
    let nonce = key.seal_in_place_append_tag(bound(sale, run), &mut body).ok()?;
    let mut sealed = nonce.as_ref().to_vec();
    sealed.extend(body);
    Some(sealed)
}

/// The seed, if it was sealed with this key for this sale and run.
pub(super) fn unseal(key: &[u8; 32], sale: &SaleId, run: u64, sealed: &[u8]) -> Option<[u8; 32]> {
    let key = RandomizedNonceKey::new(&AES_256_GCM, key).ok()?;
    let (nonce, body) = sealed.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut body = body.to_vec();
    let seed = key.open_in_place(nonce, bound(sale, run), &mut body).ok()?;
    <[u8; 32]>::try_from(&*seed).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_seed_opens_only_with_its_key_sale_and_run() {
        let (spring, autumn) = (SaleId::parse("spring").unwrap(), SaleId::parse("autumn").unwrap());
        let sealed = seal(&[1; 32], &spring, 1, &[7; 32]).unwrap();

        assert_eq!(unseal(&[1; 32], &spring, 1, &sealed), Some([7; 32]));
        assert_eq!(unseal(&[2; 32], &spring, 1, &sealed), None);
        assert_eq!(unseal(&[1; 32], &autumn, 1, &sealed), None);
        assert_eq!(unseal(&[1; 32], &spring, 2, &sealed), None);
        assert_eq!(unseal(&[1; 32], &spring, 1, &sealed[..40]), None);
        assert_eq!(unseal(&[1; 32], &spring, 1, b"short"), None);
        assert_ne!(seal(&[1; 32], &spring, 1, &[7; 32]).unwrap(), sealed);
    }
}

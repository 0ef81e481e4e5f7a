//! Signatures as Standard Webhooks has them: HMAC-SHA256 over id, time and body.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use sha2::Sha256;

/// Before a secret that is written in base64.
const PREFIX: &str = "whsec_";

/// A receiver's signing secret.
#[derive(Debug)]
pub struct Signer(SecretSlice<u8>);

impl Signer {
    /// `whsec_` and base64, or the bytes of any other text.
    pub fn new(secret: &SecretString) -> Self {
        let raw = secret.expose_secret();
        let decoded = raw.strip_prefix(PREFIX).and_then(|rest| BASE64_STANDARD.decode(rest).ok());
        Self(decoded.unwrap_or_else(|| raw.as_bytes().to_vec()).into())
    }

    /// The value of `webhook-signature`.
    pub fn sign(&self, id: &str, unix_seconds: u64, body: &str) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.expose_secret()).ok()?;
        mac.update(format!("{id}.{unix_seconds}.{body}").as_bytes());
        Some(format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_specification_is_signed_as_it_says() {
        let signer = Signer::new(&"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into());
        let said =
            signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        let wanted = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(said.as_deref(), Some(wanted));
    }

    #[test]
    fn any_other_text_is_a_secret_as_it_stands() {
        let one = Signer::new(&"a secret".into()).sign("evt", 1, "{}");
        assert!(one.is_some_and(|signed| signed.starts_with("v1,")));
    }
}

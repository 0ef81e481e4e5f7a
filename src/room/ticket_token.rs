//! A ticket's token in the form in which we write it, written and read in a quarter of the time
//! that it takes for any JSON web token: every poll brings one, every join takes one. What is
//! written otherwise is for a reader of any.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use jsonwebtoken::{Algorithm, Header};
use sha2::Sha256;

use super::glance::Glance;
use crate::domain::id::SaleId;
use crate::domain::ticket::{TICKET_TYP, TicketClaims};

/// Claims that a glance is enough for are not longer.
const CLAIMS_BYTES: usize = 512;

/// The first part of all tickets that we write, with its dot.
static HEAD: LazyLock<String> = LazyLock::new(|| {
    let head = serde_json::to_vec(&header()).unwrap_or_default();
    format!("{}.", URL_SAFE_NO_PAD.encode(head))
});

/// Room for a token without an account.
const TOKEN_BYTES: usize = 320;

/// The header of a ticket.
pub(super) fn header() -> Header {
    Header { typ: Some(TICKET_TYP.into()), ..Header::new(Algorithm::HS256) }
}

/// A key that tickets are signed with, prepared.
#[derive(Clone)]
pub(super) struct TicketKey(Hmac<Sha256>);

impl TicketKey {
    /// Prepares it.
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
        Self(Hmac::new_from_slice(secret).expect("HMAC takes keys of any length"))
    }

    /// The token that says so.
    pub(super) fn sign(&self, claims: &TicketClaims) -> String {
        let mut token = String::with_capacity(TOKEN_BYTES);
        token.push_str(&HEAD);
        URL_SAFE_NO_PAD.encode_string(serde_json::to_vec(claims).unwrap_or_default(), &mut token);
        let mut mac = self.0.clone();
        mac.update(token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(mac.finalize().into_bytes(), &mut token);
        token
    }
}

/// A token that begins as ours do.
pub(super) struct TicketToken<'a> {
    signed: &'a str,
    claims: &'a str,
    signature: [u8; 32],
}

/// What a token looks like before its signature is checked.
pub(super) enum Look<'a> {
    /// As we write them.
    Ours(TicketToken<'a>),
    /// As we do, but with no signature that could be ours.
    Broken,
    /// Otherwise.
    Other,
}

impl<'a> TicketToken<'a> {
    /// Takes a token apart.
    pub(super) fn look(raw: &'a str) -> Look<'a> {
        let Some(rest) = raw.strip_prefix(HEAD.as_str()) else { return Look::Other };
        let Some((claims, end)) = rest.split_once('.') else { return Look::Broken };
        let mut signature = [0; 33];
        match URL_SAFE_NO_PAD.decode_slice(end, &mut signature) {
            Ok(32) => {}
            Ok(_) | Err(_) => return Look::Broken,
        }
        let signed = &raw[..HEAD.len() + claims.len()];
        let mut exact = [0; 32];
        exact.copy_from_slice(&signature[..32]);
        Look::Ours(Self { signed, claims, signature: exact })
    }

    /// What it says, if one of the keys has signed it.
    pub(super) fn read<'k>(
        &self,
        keys: impl Iterator<Item = &'k TicketKey>,
    ) -> Option<TicketClaims> {
        let claims = self.is_signed(keys).then(|| URL_SAFE_NO_PAD.decode(self.claims))?.ok()?;
        serde_json::from_slice(&claims).ok()
    }

    /// The same of what a poll is answered by.
    pub(super) fn glance<'k>(
        &self,
        keys: impl Iterator<Item = &'k TicketKey>,
        sale: &SaleId,
    ) -> Option<Glance> {
        let mut claims = [0; CLAIMS_BYTES];
        let length = URL_SAFE_NO_PAD.decode_slice(self.claims, &mut claims).ok()?;
        let glance = Glance::at(claims.get(..length)?, sale)?;
        self.is_signed(keys).then_some(glance)
    }

    fn is_signed<'k>(&self, mut keys: impl Iterator<Item = &'k TicketKey>) -> bool {
        keys.any(|key| {
            let mut mac = key.0.clone();
            mac.update(self.signed.as_bytes());
            mac.verify_slice(&self.signature).is_ok()
        })
    }
}

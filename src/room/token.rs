//! Tickets and admissions as signed tokens. What is not verified here does not exist.

use std::sync::Arc;

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::glance::Glance;
use super::keys::Keys;
use super::ticket_token::{Look, TicketToken};
use crate::domain::admission::{ADMISSION_TYP, Admission, ISSUER};
use crate::domain::id::SaleId;
use crate::domain::pass::{PASS_TYP, Pass};
use crate::domain::ticket::{TICKET_TYP, Ticket, TicketClaims};

/// Longer tokens are refused unread.
pub const TOKEN_BYTES_MAX: usize = 4096;

impl Keys {
    /// Signs a ticket.
    pub fn mint_ticket(&self, ticket: Ticket) -> String {
        self.set().ticket_signer().key.sign(&TicketClaims::from(ticket))
    }

    /// Reads a ticket of this sale; anything else is no ticket. The run is the caller's to check.
    pub fn read_ticket(&self, raw: &str, sale: &SaleId) -> Option<Ticket> {
        if raw.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let claims = match TicketToken::look(raw) {
            Look::Ours(token) => token.read(self.set().ticket_readers.iter().map(|(_, key)| key)),
            Look::Broken => None,
            Look::Other => self.read_other_ticket(raw, sale),
        };
        claims?.read().filter(|ticket| ticket.sale == *sale)
    }

    /// What a poll is answered by, of a ticket of this sale in the form in which we write it; for
    /// all others [`Keys::read_ticket`] has to be asked.
    pub fn glance_at_ticket(&self, raw: &str, sale: &SaleId) -> Option<Glance> {
        let Look::Ours(token) = TicketToken::look(raw) else { return None };
        token.glance(self.set().ticket_readers.iter().map(|(_, key)| key), sale)
    }

    /// As another version of this program may write it.
    fn read_other_ticket(&self, raw: &str, sale: &SaleId) -> Option<TicketClaims> {
        let header = header(raw, Algorithm::HS256, TICKET_TYP)?;
        if header.kid.is_some() {
            return None;
        }
        let mut rules = rules(Algorithm::HS256);
        rules.validate_aud = true;
        rules.set_audience(&[sale]);
        let set = self.set();
        let mut keys = set.ticket_readers.iter();
        keys.find_map(|(key, _)| verify(raw, key, &rules))
    }

    /// Signs an admission.
    pub fn mint_admission(&self, admission: &Admission) -> String {
        let set = self.set();
        let signer = set.admission_signer();
        let header = Header {
            typ: Some(ADMISSION_TYP.into()),
            kid: Some(signer.kid.clone()),
            ..Header::new(Algorithm::EdDSA)
        };
        sign(&header, admission, &signer.key)
    }

    /// Reads an admission that we signed, of any sale, epoch and time: whether it counts is for
    /// [`Admission::holds`] to say. A token once verified is recognised.
    pub fn read_admission(&self, raw: &str) -> Option<Arc<Admission>> {
        if raw.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let set = self.set();
        if let Some(known) = set.verified.get(raw) {
            return Some(known);
        }
        let header = header(raw, Algorithm::EdDSA, ADMISSION_TYP)?;
        let key = set.verifying.get(header.kid.as_deref()?)?;
        let mut rules = rules(Algorithm::EdDSA);
        rules.set_issuer(&[ISSUER]);
        let admission = Arc::new(verify::<Admission>(raw, key, &rules)?);
        set.verified.put(raw, admission.clone());
        Some(admission)
    }

    /// The same, if it was read of late.
    pub fn recall_admission(&self, raw: &str) -> Option<Arc<Admission>> {
        if raw.len() > TOKEN_BYTES_MAX {
            return None;
        }
        self.set().verified.get(raw)
    }

    /// Signs a staff pass.
    pub fn mint_pass(&self, pass: &Pass) -> String {
        let header = Header { typ: Some(PASS_TYP.into()), ..Header::new(Algorithm::HS256) };
        sign(&header, pass, &self.set().passes.0)
    }

    /// Reads a staff pass that we signed; whether it counts, the ledger knows.
    pub fn read_pass(&self, raw: &str) -> Option<Pass> {
        let header = header(raw, Algorithm::HS256, PASS_TYP)?;
        if header.kid.is_some() {
            return None;
        }
        verify(raw, &self.set().passes.1, &rules(Algorithm::HS256))
    }
}

/// No ambient leeway and no clock of the library's own: our rules decide about time.
fn rules(algorithm: Algorithm) -> Validation {
    let mut rules = Validation::new(algorithm);
    rules.leeway = 0;
    rules.validate_exp = false;
    rules.validate_nbf = false;
    rules.validate_aud = false;
    rules.required_spec_claims.clear();
    rules
}

fn header(raw: &str, algorithm: Algorithm, typ: &str) -> Option<Header> {
    if raw.len() > TOKEN_BYTES_MAX {
        return None;
    }
    let header = jsonwebtoken::decode_header(raw).ok()?;
    (header.alg == algorithm && header.typ.as_deref() == Some(typ)).then_some(header)
}

fn verify<T: DeserializeOwned>(raw: &str, key: &DecodingKey, rules: &Validation) -> Option<T> {
    jsonwebtoken::decode(raw, key, rules).ok().map(|token| token.claims)
}

fn sign(header: &Header, claims: &impl Serialize, key: &EncodingKey) -> String {
    #[expect(clippy::expect_used, reason = "the key was parsed when it was loaded")]
    jsonwebtoken::encode(header, claims, key).expect("a key that was parsed signs")
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use serde_json::{Value, json};

    use super::super::ticket_token;
    use super::*;
    use crate::domain::ticket::Cohort;

    fn sale(id: &str) -> SaleId {
        SaleId::parse(id).unwrap()
    }

    fn keys() -> Keys {
        keys_and_signer().0
    }

    /// Keys, and the one that signs their tickets, for a library's hands.
    fn keys_and_signer() -> (Keys, EncodingKey) {
        let dir = tempfile::tempdir().unwrap();
        let keys = Keys::generate(&dir.path().join("keys")).unwrap();
        let secret = std::fs::read_to_string(dir.path().join("keys/tickets-0001.key")).unwrap();
        let secret = hex::decode(secret.lines().next().unwrap()).unwrap();
        (keys, EncodingKey::from_secret(&secret).unwrap())
    }

    fn ticket(keys: &Keys) -> Ticket {
        let (sale, cohort) = (sale("spring-drop"), Cohort::Entry(17));
        let sub = keys.subject(&sale, 1, cohort);
        Ticket { sale, run: 1, sub, cohort, account: None, issued_at: 100 }
    }

    fn admission(keys: &Keys) -> Admission {
        let ticket = ticket(keys);
        let jti = keys.admission_id(&ticket.sub, 1);
        Admission::at_slot(&ticket, 1, 7, 100_000, 600_000, jti)
    }

    fn encode(part: &Value) -> String {
        URL_SAFE_NO_PAD.encode(part.to_string())
    }

    #[test]
    fn tickets_and_admissions_read_back_as_they_were_signed() {
        let keys = keys();
        let (ticket, admission) = (ticket(&keys), admission(&keys));
        let raw = keys.mint_ticket(ticket.clone());
        assert_eq!(keys.read_ticket(&raw, &ticket.sale), Some(ticket));
        let raw = keys.mint_admission(&admission);
        assert_eq!(keys.read_admission(&raw).as_deref(), Some(&admission));
        assert_eq!(keys.read_admission(&raw).as_deref(), Some(&admission), "from memory");
    }

    #[test]
    fn a_ticket_as_we_write_it_and_as_any_library_might_are_read_alike() {
        let (keys, signer) = keys_and_signer();
        let ticket = ticket(&keys);
        let claims = TicketClaims::from(ticket.clone());
        let raw = keys.mint_ticket(ticket.clone());
        assert_eq!(raw, sign(&ticket_token::header(), &claims, &signer));
        assert!(matches!(TicketToken::look(&raw), Look::Ours(_)));
        assert!(matches!(TicketToken::look(&raw[..raw.len() - 1]), Look::Broken));

        let header = Header { cty: Some("json".into()), ..ticket_token::header() };
        let other = sign(&header, &claims, &signer);
        assert!(matches!(TicketToken::look(&other), Look::Other));
        assert_eq!(keys.read_ticket(&other, &ticket.sale), Some(ticket.clone()));
        assert_eq!(keys.read_ticket(&other, &sale("other")), None);

        let stranger = sign(&header, &claims, &keys_and_signer().1);
        assert_eq!(keys.read_ticket(&stranger, &ticket.sale), None);
    }

    #[test]
    fn ed_90_forged_admissions_are_no_admissions() {
        let keys = keys();
        let claims = serde_json::to_value(admission(&keys)).unwrap();
        let kid = keys.set().admission_signer().kid.clone();
        let head = |alg: &str| json!({"typ": ADMISSION_TYP, "alg": alg, "kid": kid});

        let none = format!("{}.{}.", encode(&head("none")), encode(&claims));
        assert!(keys.read_admission(&none).is_none());

        let jwks: Value = serde_json::from_str(&keys.jwks()).unwrap();
        let public = URL_SAFE_NO_PAD.decode(jwks["keys"][0]["x"].as_str().unwrap()).unwrap();
        let header = Header {
            typ: Some(ADMISSION_TYP.into()),
            kid: Some(kid.clone()),
            ..Header::new(Algorithm::HS256)
        };
        let with_public = sign(&header, &claims, &EncodingKey::from_secret(&public).unwrap());
        assert!(keys.read_admission(&with_public).is_none());

        let stranger = self::keys().mint_admission(&admission(&keys));
        assert!(keys.read_admission(&stranger).is_none());
        let as_ticket = keys.mint_ticket(ticket(&keys));
        assert!(keys.read_admission(&as_ticket).is_none());
        let untyped = Header { kid: Some(kid), ..Header::new(Algorithm::EdDSA) };
        assert!(
            keys.read_admission(&sign(&untyped, &claims, &keys.set().admission_signer().key))
                .is_none()
        );
    }

    #[test]
    fn an_admission_of_another_sale_or_epoch_does_not_hold() {
        let keys = keys();
        let raw = keys.mint_admission(&admission(&keys));
        let read = keys.read_admission(&raw).unwrap();
        assert!(read.holds(&sale("spring-drop"), 1, 100_000, 0));
        assert!(!read.holds(&sale("other"), 1, 100_000, 0));
        assert!(!read.holds(&sale("spring-drop"), 2, 100_000, 0));
    }

    #[test]
    fn wr_41_garbage_truncated_long_and_foreign_tickets_are_absent() {
        let keys = keys();
        let spring = sale("spring-drop");
        let raw = keys.mint_ticket(ticket(&keys));
        let long = "a".repeat(8_192);
        let padded = format!("{raw}{}", "A".repeat(8_192));
        let cut = &raw[..raw.len() - 1];
        for bad in ["", ".", "..", "...", "é.é.é", "garbage", cut, &long, &padded] {
            assert_eq!(keys.read_ticket(bad, &spring), None, "{bad:.40}");
            assert!(keys.read_admission(bad).is_none());
        }
        assert_eq!(keys.read_ticket(&raw, &sale("other")), None);
        assert_eq!(self::keys().read_ticket(&raw, &spring), None);
        assert_eq!(keys.read_ticket(&keys.mint_admission(&admission(&keys)), &spring), None);
    }

    #[test]
    fn wr_40_no_mutation_of_a_token_is_accepted() {
        let keys = keys();
        let spring = sale("spring-drop");
        let tokens = [keys.mint_ticket(ticket(&keys)), keys.mint_admission(&admission(&keys))];
        let mut rng = SmallRng::seed_from_u64(40);
        for round in 0..1_000_000 {
            let original = &tokens[round % 2];
            let mutated = mutate(original, &mut rng);
            if mutated == *original {
                continue;
            }
            assert_eq!(keys.read_ticket(&mutated, &spring), None, "{mutated}");
            assert!(keys.read_admission(&mutated).is_none(), "{mutated}");
        }
    }

    #[test]
    fn wr_40_claims_moved_dropped_doubled_or_recased_are_refused() {
        let keys = keys();
        let spring = sale("spring-drop");
        for token in [keys.mint_ticket(ticket(&keys)), keys.mint_admission(&admission(&keys))] {
            let parts: Vec<&str> = token.split('.').collect();
            for part in 0..2 {
                let told = URL_SAFE_NO_PAD.decode(parts[part]).unwrap();
                for other in other_words(std::str::from_utf8(&told).unwrap()) {
                    let mut forged = [parts[0].to_owned(), parts[1].to_owned()];
                    forged[part] = URL_SAFE_NO_PAD.encode(&other);
                    let forged = format!("{}.{}.{}", forged[0], forged[1], parts[2]);
                    assert_eq!(keys.read_ticket(&forged, &spring), None, "{other}");
                    assert!(keys.read_admission(&forged).is_none(), "{other}");
                }
            }
        }
    }

    /// The same object told otherwise: claims dropped, doubled, in another order, with characters
    /// moved over the boundary of two values, recased, or with room between them.
    fn other_words(told: &str) -> Vec<String> {
        let object: serde_json::Map<String, Value> = serde_json::from_str(told).unwrap();
        let names: Vec<&String> = object.keys().collect();
        let with = |change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
            let mut changed = object.clone();
            change(&mut changed);
            Value::Object(changed).to_string()
        };
        let mut words = vec![format!(" {told}"), told.to_uppercase(), told.replace("\":", "\": ")];
        for (name, next) in names.iter().zip(names.iter().cycle().skip(1)) {
            let (value, follows) = (object[*name].clone(), object[*next].clone());
            words.push(with(&|object| {
                object.remove(*name);
            }));
            words.push(told.replacen('{', &format!("{{\"{name}\":{value},"), 1));
            words.push(with(&|object| {
                object.insert((*name).clone(), follows.clone());
            }));
            if let (Some(one), Some(two)) = (value.as_str(), follows.as_str()) {
                let (kept, moved) = one.split_at(one.len() - 1);
                words.push(with(&|object| {
                    object.insert((*name).clone(), kept.into());
                    object.insert((*next).clone(), format!("{moved}{two}").into());
                }));
                words.push(with(&|object| {
                    object.insert((*name).clone(), one.to_uppercase().into());
                }));
            }
        }
        words.retain(|word| word != told);
        words
    }

    /// Changes, drops, doubles, swaps or recases characters.
    fn mutate(token: &str, rng: &mut SmallRng) -> String {
        const ALPHABET: &[u8] = b"ABCXYZabcxyz0189-_.=";
        let mut bytes = token.as_bytes().to_vec();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..bytes.len());
            match rng.random_range(0..5) {
                0 => bytes[at] = ALPHABET[rng.random_range(0..ALPHABET.len())],
                1 => {
                    bytes.remove(at);
                }
                2 => bytes.insert(at, bytes[at]),
                3 => {
                    let other = rng.random_range(0..bytes.len());
                    bytes.swap(at, other);
                }
                _ if bytes[at].is_ascii_lowercase() => bytes[at] = bytes[at].to_ascii_uppercase(),
                _ => bytes[at] = bytes[at].to_ascii_lowercase(),
            }
        }
        String::from_utf8(bytes).unwrap()
    }
}

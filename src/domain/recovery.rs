//! The recovery code: sixteen characters that a person can write down, and that lead back to a
//! place. It is stored nowhere: number and proof are in the code itself.
//!
//! 80 bits: latecomer, tied to an account, 26 of the number, 52 of an HMAC.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::id::SaleId;
use super::ticket::Cohort;

/// Characters of a code.
pub const CODE_CHARS: usize = 16;
/// Crockford's alphabet: no I, L, O, U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const NUMBER_BITS: u32 = 26;
const MAC_BITS: u32 = 52;

/// The place that a code leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// Its number.
    pub cohort: Cohort,
    /// It belongs to an account, and only to that.
    pub tied: bool,
}

/// The code of a place; nothing for a number beyond 67 million, which no code has room for.
pub fn code(place_key: &[u8; 32], sale: &SaleId, run: u64, place: Recovered) -> Option<String> {
    let (late, number) = match place.cohort {
        Cohort::Entry(number) => (0, number),
        Cohort::Late(number) => (1, number),
    };
    if number >> NUMBER_BITS != 0 {
        return None;
    }
    let head = late << (NUMBER_BITS + 1) | u64::from(place.tied) << NUMBER_BITS | number;
    let bits = u128::from(head) << MAC_BITS | u128::from(proof(place_key, sale, run, head));
    let digit = |at: usize| {
        let five = (bits >> (5 * (CODE_CHARS - 1 - at))) & 31;
        char::from(ALPHABET[usize::try_from(five).unwrap_or_default()])
    };
    Some((0..CODE_CHARS).map(digit).collect())
}

/// Reads a code as people write it: any case, with spaces and dashes, I and L for 1, O for 0.
pub fn read(place_key: &[u8; 32], sale: &SaleId, run: u64, raw: &str) -> Option<Recovered> {
    let mut bits: u128 = 0;
    let mut digits = 0;
    for letter in raw.chars().filter(|letter| !matches!(letter, '-' | ' ')) {
        let letter = match letter.to_ascii_uppercase() {
            'I' | 'L' => '1',
            'O' => '0',
            other => other,
        };
        let five = ALPHABET.iter().position(|known| char::from(*known) == letter)?;
        bits = bits << 5 | five as u128;
        digits += 1;
        if digits > CODE_CHARS {
            return None;
        }
    }
    if digits != CODE_CHARS {
        return None;
    }
    let head = u64::try_from(bits >> MAC_BITS).ok()?;
    let claimed = u64::try_from(bits & ((1 << MAC_BITS) - 1)).ok()?;
    if !bool::from(claimed.ct_eq(&proof(place_key, sale, run, head))) {
        return None;
    }
    let number = head & ((1 << NUMBER_BITS) - 1);
    let late = head >> (NUMBER_BITS + 1) == 1;
    let cohort = if late { Cohort::Late(number) } else { Cohort::Entry(number) };
    Some(Recovered { cohort, tied: head >> NUMBER_BITS & 1 == 1 })
}

fn proof(place_key: &[u8; 32], sale: &SaleId, run: u64, head: u64) -> u64 {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(place_key).expect("HMAC takes keys of any length");
    mac.update(b"stanchion/recovery/v1\0");
    mac.update(sale.as_str().as_bytes());
    mac.update(&[0]);
    mac.update(&run.to_le_bytes());
    mac.update(&head.to_le_bytes());
    let bytes = mac.finalize().into_bytes();
    let first = bytes.iter().take(8).fold(0, |word: u64, byte| word << 8 | u64::from(*byte));
    first >> (64 - MAC_BITS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn sale(id: &str) -> SaleId {
        SaleId::parse(id).unwrap()
    }

    fn of(cohort: Cohort) -> Recovered {
        Recovered { cohort, tied: false }
    }

    #[test]
    fn a_code_is_read_as_people_write_it() {
        let drop = sale("drop");
        let code = code(&KEY, &drop, 1, of(Cohort::Entry(17))).unwrap();
        assert_eq!(code.len(), CODE_CHARS);
        let grouped: Vec<_> = code.as_bytes().chunks(4).map(String::from_utf8_lossy).collect();
        let grouped = grouped.join("-");
        for written in [
            code.to_lowercase(),
            grouped.clone(),
            format!(" {} ", grouped.replace('-', " ")),
            code.replace('1', "l").replace('0', "o"),
            code.replace('1', "I").replace('0', "O"),
        ] {
            assert_eq!(read(&KEY, &drop, 1, &written), Some(of(Cohort::Entry(17))), "{written}");
        }
    }

    #[test]
    fn a_code_of_another_sale_run_or_key_leads_nowhere() {
        let drop = sale("drop");
        let code = code(&KEY, &drop, 1, of(Cohort::Late(5))).unwrap();
        assert_eq!(read(&KEY, &sale("other"), 1, &code), None);
        assert_eq!(read(&KEY, &drop, 2, &code), None);
        assert_eq!(read(&[8; 32], &drop, 1, &code), None);
        let long = format!("{code}{code}");
        for bad in ["", "0", &code[1..], &long, "UUUUUUUUUUUUUUUU", "é234567890123456"] {
            assert_eq!(read(&KEY, &drop, 1, bad), None, "{bad}");
        }
        assert_eq!(super::code(&KEY, &drop, 1, of(Cohort::Entry(1 << 26))), None);
    }

    proptest! {
        #[test]
        fn every_place_reads_back_and_no_other_letter_does(
            number in 0_u64..1 << 26, late: bool, tied: bool, at in 0_usize..16, other in 0_usize..32,
        ) {
            let drop = sale("drop");
            let cohort = if late { Cohort::Late(number) } else { Cohort::Entry(number) };
            let place = Recovered { cohort, tied };
            let code = code(&KEY, &drop, 3, place).unwrap();
            prop_assert_eq!(read(&KEY, &drop, 3, &code), Some(place));

            let mut letters = code.clone().into_bytes();
            letters[at] = ALPHABET[other];
            let changed = String::from_utf8(letters).unwrap();
            prop_assume!(changed != code);
            prop_assert_eq!(read(&KEY, &drop, 3, &changed), None);
        }
    }
}

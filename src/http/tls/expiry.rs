//! When a certificate ends: the one field that rustls does not tell.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// `notAfter` of a certificate in DER, in seconds since the epoch.
pub(super) fn not_after(certificate: &[u8]) -> Option<i64> {
    let (certificate, _) = take(certificate, SEQUENCE)?;
    let (signed, _) = take(certificate, SEQUENCE)?;
    let signed = take(signed, VERSION).map_or(signed, |(_, rest)| rest);
    // Serial number, signature algorithm, issuer.
    let signed = (0..3).try_fold(signed, |rest, _| any(rest).map(|(_, _, rest)| rest))?;
    let (validity, _) = take(signed, SEQUENCE)?;
    let (_, _, rest) = any(validity)?;
    let (tag, time, _) = any(rest)?;
    seconds(tag, time)
}

/// Tag, content, and what follows.
fn any(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, first, rest @ ..] = der else { return None };
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if bytes.len() > 4 {
            return None;
        }
        (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

fn take(der: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = any(der)?;
    (tag == wanted).then_some((content, rest))
}

/// `YYMMDDHHMMSSZ`, the years from 1950 to 2049, or `YYYYMMDDHHMMSSZ`.
fn seconds(tag: u8, time: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(time).ok()?.strip_suffix('Z')?;
    let text = match tag {
        UTC_TIME => {
            let century = if text.get(..2)? < "50" { "20" } else { "19" };
            format!("{century}{text}")
        }
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%S", &text).ok()?;
    Some(TimeZone::UTC.to_timestamp(time).ok()?.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(year: i32) -> Vec<u8> {
        let mut wanted = rcgen::CertificateParams::new(vec!["shop.test".into()]).unwrap();
        wanted.not_after = rcgen::date_time_ymd(year, 3, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        wanted.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_end_is_read_in_both_ways_of_writing_it() {
        for (year, wanted) in [(2027, "2027-03-01T00:00:00Z"), (2051, "2051-03-01T00:00:00Z")] {
            let wanted: jiff::Timestamp = wanted.parse().unwrap();
            assert_eq!(not_after(&made(year)), Some(wanted.as_second()));
        }
    }

    #[test]
    fn what_is_cut_short_has_no_end() {
        let whole = made(2027);
        for length in 0..60 {
            assert_eq!(not_after(&whole[..length]), None);
        }
        assert_eq!(not_after(&[SEQUENCE, 0x88, 1, 1, 1, 1, 1, 1, 1, 1]), None);
    }
}

//! How long a service says that its answer is: said in two ways, one is wrong, and whoever believes
//! the wrong one reads too little or waits for more.

use hyper::HeaderMap;
use hyper::header::{self, HeaderValue};

use super::failure::UpstreamError;

/// Leaves one word about the length of an answer that hyper has begun to read: with chunks a
/// `Content-Length` does not count (RFC 9112, 6.3), and a length told several times is told once.
/// Codings that only the service and we would know of, and lengths that differ, are its fault.
pub(super) fn settle(headers: &mut HeaderMap) -> Result<(), UpstreamError> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        let coding = coding.as_bytes().trim_ascii();
        let is_known = |known: &&str| coding.eq_ignore_ascii_case(known.as_bytes());
        if codings.next().is_some() || !["chunked", "identity"].iter().any(is_known) {
            return Err(UpstreamError::Framing);
        }
        headers.remove(header::CONTENT_LENGTH);
        return Ok(());
    }
    let mut lines = headers.get_all(header::CONTENT_LENGTH).iter();
    let Some(first) = lines.next() else { return Ok(()) };
    if lines.next().is_none() && first.as_bytes().iter().all(u8::is_ascii_digit) {
        return Ok(());
    }
    let lines = headers.get_all(header::CONTENT_LENGTH).iter();
    let mut told = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let length = told.next().map(<[u8]>::trim_ascii).unwrap_or_default();
    if told.any(|other| other.trim_ascii() != length) {
        return Err(UpstreamError::Framing);
    }
    let length = HeaderValue::from_bytes(length).map_err(|_| UpstreamError::Framing)?;
    headers.insert(header::CONTENT_LENGTH, length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of the lengths; nothing if the answer is refused.
    fn settled(lines: &[(&str, &str)]) -> Option<Vec<String>> {
        let lines = lines.iter().map(|(name, value)| {
            (name.parse::<header::HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        });
        let mut headers: HeaderMap = lines.collect();
        settle(&mut headers).ok()?;
        let left = headers.get_all(header::CONTENT_LENGTH).iter();
        Some(left.map(|value| value.to_str().unwrap().to_owned()).collect())
    }

    #[test]
    fn an_answer_says_once_how_long_it_is() {
        let (te, cl) = ("transfer-encoding", "content-length");
        for (lines, left) in [
            (vec![], Some(vec![])),
            (vec![(cl, "5")], Some(vec!["5"])),
            (vec![(te, "chunked"), (cl, "1")], Some(vec![])),
            (vec![(cl, "200"), (te, "Chunked ")], Some(vec![])),
            (vec![(te, "identity"), (cl, "2")], Some(vec![])),
            (vec![(cl, "2, 2")], Some(vec!["2"])),
            (vec![(cl, "2"), (cl, "2")], Some(vec!["2"])),
            (vec![(cl, "2"), (cl, "3")], None),
            (vec![(te, "gzip, chunked")], None),
            (vec![(te, "gzip"), (te, "chunked")], None),
        ] {
            let left: Option<Vec<String>> =
                left.map(|left| left.into_iter().map(str::to_owned).collect());
            assert_eq!(settled(&lines), left, "{lines:?}");
        }
    }
}

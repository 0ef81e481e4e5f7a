//! How a subject stands with its quota, told as in draft-ietf-httpapi-ratelimit-headers:
//! `RateLimit-Policy: "poll";q=5;w=5` and `RateLimit: "poll";r=4;t=1`.

use std::fmt::{self, Write};
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::HeaderName;

use crate::domain::limits::Quota;
use crate::gateway::headers::Writer;

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// What a value takes as a rule.
const VALUE_BYTES: usize = 40;

/// After one request was counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::gateway) struct Standing {
    /// The quota, as the settings name it.
    limit: &'static str,
    quota: Quota,
    /// Requests that would pass now.
    left: u32,
    /// Whole seconds until all of the quota is there again; after a refusal, until one passes.
    seconds: u64,
}

impl Standing {
    /// The request passed, and so would `left` more.
    pub(super) fn served(limit: &'static str, quota: Quota, left: u32) -> Self {
        let used = quota.burst.saturating_sub(left);
        Self { limit, quota, left, seconds: seconds(times(quota, used)) }
    }

    /// The request was refused, the next passes after `wait`.
    pub(super) fn refused(limit: &'static str, quota: Quota, wait: Duration) -> Self {
        Self { limit, quota, left: 0, seconds: seconds(wait) }
    }

    /// Tells it, unless the shop has told of a quota of its own.
    pub(in crate::gateway) fn tell(&self, headers: &mut HeaderMap) {
        if headers.contains_key(RATELIMIT) || headers.contains_key(RATELIMIT_POLICY) {
            return;
        }
        let mut writer = Writer::on(headers, FIELDS.len() * VALUE_BYTES);
        for (name, write) in FIELDS {
            writer.write(name, |text| write(self, text));
        }
    }

    /// The same as lines of a head.
    pub(in crate::gateway) fn write(&self, lines: &mut impl Write) -> fmt::Result {
        for (name, write) in FIELDS {
            lines.write_str(name.as_str())?;
            lines.write_str(": ")?;
            write(self, lines)?;
            lines.write_str("\r\n")?;
        }
        Ok(())
    }

    fn policy(&self, text: &mut dyn Write) -> fmt::Result {
        let burst = self.quota.burst;
        self.pair(text, (";q=", burst), (";w=", seconds(times(self.quota, burst))))
    }

    fn rest(&self, text: &mut dyn Write) -> fmt::Result {
        self.pair(text, (";r=", self.left), (";t=", self.seconds))
    }

    /// Without the formatting machinery: every answer to a poll tells it.
    fn pair(
        &self,
        text: &mut dyn Write,
        (first, count): (&str, u32),
        (second, time): (&str, u64),
    ) -> fmt::Result {
        let mut digits = itoa::Buffer::new();
        for part in ["\"", self.limit, "\"", first, digits.format(count), second] {
            text.write_str(part)?;
        }
        text.write_str(digits.format(time))
    }
}

type WriteField = fn(&Standing, &mut dyn Write) -> fmt::Result;

/// The fields it is told in.
const FIELDS: [(HeaderName, WriteField); 2] =
    [(RATELIMIT_POLICY, Standing::policy), (RATELIMIT, Standing::rest)];

/// How long it takes for `count` to be there again.
fn times(quota: Quota, count: u32) -> Duration {
    Duration::try_from_secs_f64(quota.rate.interval_ms() / 1000.0 * f64::from(count))
        .unwrap_or(Duration::MAX)
}

/// Rounded up: whoever waits as told is served.
fn seconds(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::rate::Rate;
    use hyper::header::HeaderValue;

    fn told(standing: Standing) -> (String, String) {
        let mut headers = HeaderMap::new();
        standing.tell(&mut headers);
        let text = |name: HeaderName| headers[name].to_str().unwrap().to_owned();
        (text(RATELIMIT_POLICY), text(RATELIMIT))
    }

    #[test]
    fn a_standing_is_told_as_structured_fields() {
        let quota = Quota { rate: Rate::whole(20), burst: 60 };
        let (policy, standing) = told(Standing::served("per_ip", quota, 15));
        assert_eq!(policy, "\"per_ip\";q=60;w=3");
        assert_eq!(standing, "\"per_ip\";r=15;t=3");

        let refused = Standing::refused("per_ip", quota, Duration::from_millis(50));
        assert_eq!(told(refused).1, "\"per_ip\";r=0;t=1");
    }

    #[test]
    fn what_the_shop_tells_of_its_own_quotas_stays() {
        let quota = Quota { rate: Rate::whole(1), burst: 5 };
        let mut headers = HeaderMap::new();
        headers.insert(RATELIMIT, HeaderValue::from_static("\"shop\";r=1;t=1"));
        Standing::served("poll", quota, 4).tell(&mut headers);
        assert_eq!((headers.len(), &headers[RATELIMIT]), (1, &"\"shop\";r=1;t=1".parse().unwrap()));
    }
}

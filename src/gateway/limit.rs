//! The step of the pipeline that counts: whom a request goes against, and in which sale.

use super::Gateway;
use super::asked::Asked;
use super::identify::{Pass, Visitor};
use super::sale::SaleGate;
use crate::domain::limits::{Deed, Subject};
use crate::domain::refusal::Refusal;

impl Gateway {
    /// Counts a request against the narrowest that is known of its visitor.
    pub(super) fn limit(
        &self,
        asked: &mut Asked,
        sale: &SaleGate,
        visitor: &Visitor,
        deed: Deed,
        holder: Option<&str>,
    ) -> Result<(), Refusal> {
        let account = visitor.account_id();
        let subject = Subject::narrowest(deed, holder, account, asked.client.ip);
        self.count(asked, sale.id().as_str(), subject)
    }

    /// Counts what is done under an admission.
    pub(super) fn limit_admitted(
        &self,
        asked: &mut Asked,
        sale: &SaleGate,
        visitor: &Visitor,
        pass: &Pass,
    ) -> Result<(), Refusal> {
        let subject = match visitor.name(pass) {
            Some(name) => Subject::Admission(name),
            None => Subject::passer(&pass.admission.sub, asked.client.ip),
        };
        self.count(asked, sale.id().as_str(), subject)
    }

    pub(super) fn count(
        &self,
        asked: &mut Asked,
        sale: &str,
        subject: Subject<'_>,
    ) -> Result<(), Refusal> {
        let is_known = !subject.is_stranger();
        let (standing, counted) = match self.limiter.load().count(sale, subject) {
            Ok(standing) => (standing, Ok(())),
            Err((standing, refusal)) => (standing, Err(refusal)),
        };
        // Only who keeps to the quota: one ticket must not open all doors of a node.
        if is_known && counted.is_ok() {
            asked.peer.guest.know();
        }
        asked.standing = Some(standing);
        counted
    }
}

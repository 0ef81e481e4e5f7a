//! The step of the pipeline that counts: whom a request goes against, and in which sale.

use super::Gateway;
use super::asked::Asked;
use super::identify::Visitor;
use super::route::Call;
use super::sale::SaleGate;
use crate::domain::limits::{AddressKey, Deed, Subject};
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

    /// The same for a call to one of our own endpoints.
    pub(super) fn limit_call(
        &self,
        asked: &mut Asked,
        sale: &SaleGate,
        call: Call,
        visitor: &Visitor,
    ) -> Result<(), Refusal> {
        let pass = visitor.pass.as_ref().map(|pass| pass.admission.sub.as_str());
        let (deed, holder) = match call {
            Call::Recover => {
                let address = AddressKey::of(asked.client.ip);
                return self.count(asked, sale.id().as_str(), Subject::Recovery(address));
            }
            Call::Status if visitor.holder().is_none() => return Ok(()),
            Call::Page | Call::Status | Call::Events => (Deed::Look, visitor.holder()),
            Call::Draw | Call::DrawCheck | Call::Receipt | Call::Stock => {
                (Deed::Look, visitor.holder())
            }
            Call::Join | Call::Claim | Call::Leave => (Deed::Act, visitor.holder()),
            Call::Reserve | Call::Orders | Call::Release(_) | Call::Extend(_) => {
                (Deed::Act, pass.or(visitor.holder()))
            }
        };
        self.limit(asked, sale, visitor, deed, holder)
    }
}

//! A sale's draw for whoever wants to check it: the proof, a page that recomputes it, a receipt.

use hyper::{Response, StatusCode, header};

use super::asked::Asked;
use super::headers::put;
use super::identify::Visitor;
use super::pages::{self, DrawView, Receipt};
use super::respond::{self, Kind};
use super::route::not_found;
use super::sale::SaleGate;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::ticket::Cohort;
use crate::http::body::Body;

/// `GET …/draw`: no proof without the commitment that it begins with.
pub(super) fn proof(sale: &SaleGate) -> Result<Response<Body>, Refusal> {
    let Some(proof) = sale.room.snapshot().proof(sale.id()) else {
        let detail = "the commitment is not known at this moment; ask again";
        return Err(Refusal::new(Problem::Paused, detail).retry_after_ms(1_000));
    };
    Ok(respond::json(StatusCode::OK, &proof, Kind::Own))
}

/// `GET …/draw/check`: the reader's own number is never in the address.
pub(super) fn check(asked: &Asked, sale: &SaleGate, visitor: &Visitor) -> Response<Body> {
    let view = DrawView {
        sale: sale.id().as_str().to_owned(),
        origin: origin(asked),
        receipt: receipt_of(asked, sale, visitor),
    };
    respond::html(StatusCode::OK, pages::draw_page(&view), Kind::Own)
}

/// `GET …/receipt`: what whoever is in the draw may keep.
pub(super) fn receipt(
    asked: &Asked,
    sale: &SaleGate,
    visitor: &Visitor,
) -> Result<Response<Body>, Refusal> {
    let receipt = receipt_of(asked, sale, visitor).ok_or_else(|| {
        not_found("only who is in the draw has a receipt; join before the opening")
    })?;
    let text = receipt.text();
    let mut response = respond::bytes(StatusCode::OK, "text/plain; charset=utf-8", text, Kind::Own);
    let name = format!("inline; filename=\"{}-receipt.txt\"", sale.id());
    put(response.headers_mut(), header::CONTENT_DISPOSITION, &name);
    Ok(response)
}

fn receipt_of(asked: &Asked, sale: &SaleGate, visitor: &Visitor) -> Option<Receipt> {
    let Cohort::Entry(entry) = visitor.ticket.as_ref()?.cohort else { return None };
    let proof = sale.room.snapshot().proof(sale.id())?;
    Some(Receipt {
        sale: proof.sale.as_str().to_owned(),
        run: proof.run,
        entry,
        commitment: proof.commitment,
        round: proof.round,
        origin: origin(asked),
    })
}

/// Where the visitor sees this site.
fn origin(asked: &Asked) -> String {
    let scheme = if asked.client.https { "https" } else { "http" };
    format!("{scheme}://{}", asked.head.authority)
}

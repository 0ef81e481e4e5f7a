//! The beacon of a draw, told by the operators once it is published.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::json;

use super::Api;
use super::answer::{Answer, ok};
use super::auth::Operator;
use super::body::Body;
use super::upkeep::{named, unknown};
use crate::domain::beacon::{self, Published};
use crate::domain::refusal::{Problem, Refusal};

/// `POST /v1/draw/{sale}/beacon`: the round that the run has committed to, checked with the chain's
/// key before it is believed.
pub(super) async fn beacon(
    State(api): State<Arc<Api>>,
    operator: Operator,
    Path(sale): Path<String>,
    Body(told): Body<Published>,
) -> Answer {
    let sale = named(&sale)?;
    let run = api.reservations.control(&sale).ok_or_else(|| unknown(&sale))?.run;
    let database = api.reservations.ledger().database();
    let draw = database.draw(&sale, run).await?.ok_or_else(|| unknown(&sale))?;
    if draw.round == 0 {
        let detail = format!("run {run} of {sale} has committed to a draw without a beacon");
        return Err(Refusal::new(Problem::BadRequest, detail).status(409).into());
    }
    if told.round != draw.round {
        let cure = format!("must be {}, which run {run} of {sale} has committed to", draw.round);
        return Err(Refusal::bad_request("round", cure).into());
    }
    let wrong = |error: beacon::BeaconError| {
        Refusal::new(Problem::BadRequest, error.to_string()).with("field", error.field())
    };
    let signature = told.verified().map_err(wrong)?;
    database.keep_beacon(&sale, run, &signature).await?;
    let randomness = hex::encode(beacon::randomness(&signature));
    let changes = json!({ "round": told.round, "randomness": randomness });
    api.note(&operator, format!("beacon {sale} {run}"), "beacon", Some(&sale), changes).await;
    let Published { round, signature, .. } = told;
    Ok(ok(&Published { round, signature, randomness: Some(randomness) }))
}

//! The judge of the draw: fair-draw.

use std::collections::HashMap;

use super::evidence::Evidence;
use super::promise::Verdict;
use crate::domain::draw::{Draw, Proof};
use crate::lab::crowd::{Observations, ShopperSeen};

/// fair-draw: the proof stands, is the one committed to, and every place seen follows from it.
pub(super) fn fair_draw(seen: &Observations, evidence: &Evidence) -> Verdict {
    let proof = match &evidence.draw {
        Ok(proof) => proof,
        Err(reason) => return Verdict::unchecked(reason),
    };
    let draw = match proof.verify() {
        Ok(draw) => draw,
        Err(error) => return Verdict::broken(format!("the proof does not verify: {error}")),
    };
    let mut faults: Vec<String> = committed_before(seen.draw_before.as_ref(), proof);
    let (mut entries, mut positions) = (HashMap::new(), HashMap::new());
    let mut recomputed = 0;
    for (number, shopper) in (1..).zip(&seen.shoppers) {
        faults.extend(place(number, shopper, &draw));
        faults.extend(taken("entry", number, shopper.entry, &mut entries));
        faults.extend(taken(
            "position",
            number,
            shopper.positions.first().copied(),
            &mut positions,
        ));
        recomputed += usize::from(shopper.entry.is_some() && !shopper.positions.is_empty());
    }
    if recomputed == 0 && faults.is_empty() {
        return Verdict::unchecked("no position of a lobby join was seen");
    }
    let n = draw.n();
    Verdict::of(&faults, format!("{recomputed} positions of {n} entries recomputed from the proof"))
}

fn committed_before(before: Option<&Proof>, after: &Proof) -> Vec<String> {
    match before {
        None => vec!["no commitment was shown before the lobby".into()],
        Some(before) if before.commitment != after.commitment => {
            vec!["the commitment was changed after people had joined".into()]
        }
        Some(before) if before.seed.is_some() && before.opened_at != after.opened_at => {
            vec!["the draw was held again".into()]
        }
        Some(_) => Vec::new(),
    }
}

/// What is wrong with one shopper's place.
fn place(number: u64, shopper: &ShopperSeen, draw: &Draw) -> Vec<String> {
    let mut faults = Vec::new();
    if shopper.positions.len() > 1 {
        faults.push(format!("shopper {number}: positions {:?}", shopper.positions));
    }
    if shopper.joined_in_lobby && shopper.entry.is_none() {
        faults.push(format!("shopper {number} joined in the lobby and was not drawn"));
    }
    for position in &shopper.positions {
        match shopper.entry {
            Some(entry) if draw.position(entry) != Some(*position) => faults.push(format!(
                "shopper {number}: entry {entry} drew {:?}, told {position}",
                draw.position(entry)
            )),
            None if *position < draw.n() => {
                faults.push(format!("shopper {number} came late and stands at {position}"));
            }
            Some(_) | None => {}
        }
    }
    faults
}

fn taken(
    what: &str,
    number: u64,
    value: Option<u64>,
    owners: &mut HashMap<u64, u64>,
) -> Option<String> {
    let value = value?;
    let other = owners.insert(value, number)?;
    Some(format!("shoppers {other} and {number} have the same {what} {value}"))
}

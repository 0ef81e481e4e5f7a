//! The judges of places: place-kept, one-place-per-account.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::evidence::Evidence;
use super::promise::Verdict;
use crate::lab::crowd::{Event, KeptSeen, Observations, ShopperSeen, TicketSeen};

/// How many places were seen to survive each kind of event, by its name.
pub(super) fn kept_by(seen: &Observations) -> BTreeMap<&'static str, u64> {
    let mut by = BTreeMap::new();
    for kept in seen.shoppers.iter().flat_map(|shopper| &shopper.kept) {
        *by.entry(kept.event.name()).or_default() += 1;
    }
    by
}

/// place-kept: whatever came between two readings, they tell of the same place.
pub(super) fn place_kept(seen: &Observations, _: &Evidence) -> Verdict {
    let mut faults: Vec<String> = Vec::new();
    for (number, shopper) in (1..).zip(&seen.shoppers) {
        let lost = shopper.kept.iter().filter_map(difference);
        faults.extend(lost.map(|what| format!("shopper {number}: {what}")));
    }
    let lasting = seen.upheavals.iter().filter(|upheaval| upheaval.over_ms.is_none());
    faults.extend(lasting.map(|upheaval| format!("{}: never over", upheaval.event.name())));
    let by = kept_by(seen);
    if by.is_empty() && faults.is_empty() {
        return Verdict::unchecked("nobody reloaded, came back or lost anything");
    }
    let flushed = seen.upheavals.iter().any(|upheaval| upheaval.event == Event::Flush);
    if flushed && !by.contains_key(Event::Flush.name()) && faults.is_empty() {
        return Verdict::unchecked("nobody waited when Redis was emptied; empty it earlier");
    }
    let counts: Vec<_> = by.iter().map(|(name, times)| format!("{times} {name}")).collect();
    Verdict::of(&faults, format!("the same place after {}", counts.join(", ")))
}

/// What a place has lost, if anything. Before the draw there is no position.
pub(super) fn difference(kept: &KeptSeen) -> Option<String> {
    let (before, after) = (&kept.before, &kept.after);
    let same = |a: Option<u64>, b: Option<u64>| a.is_none() || b.is_none() || a == b;
    let had = before.entry.is_some() || before.position.is_some();
    let has = after.entry.is_some() || after.position.is_some();
    let visitors = before.visitor.is_none() || before.visitor == after.visitor;
    let fault = if had && !has {
        "the place was lost"
    } else if !visitors || !same(before.entry, after.entry) {
        "the place became another one"
    } else if !same(before.position, after.position) {
        "the position changed"
    } else if before.ahead.zip(after.ahead).is_some_and(|(before, after)| before.rose_to(&after)) {
        "ahead rose"
    } else {
        return None;
    };
    Some(format!("{fault} by a {}: {before:?}, then {after:?}", kept.event.name()))
}

/// one-place-per-account: over all devices of an account one number, one admission in each epoch,
/// and one buyer in the ledger.
pub(super) fn one_place_per_account(seen: &Observations, evidence: &Evidence) -> Verdict {
    if let Some(reason) = &seen.no_accounts {
        return Verdict::unchecked(reason);
    }
    let signed_in = || seen.shoppers.iter().filter_map(|s| Some((s.account.as_ref()?, s)));
    if !signed_in().any(|(_, shopper)| !shopper.tickets.is_empty()) {
        return Verdict::unchecked("nobody was signed in");
    }
    if !signed_in().any(|(_, s)| s.tickets.iter().any(|ticket| ticket.account.is_some())) {
        return Verdict::unchecked("the gateway knows no accounts: account.source is none");
    }
    let (mut faults, mut owners) = (Vec::new(), HashMap::new());
    let (mut accounts, mut again, mut orders) = (0, 0, 0);
    for (account, shopper) in signed_in() {
        accounts += 1;
        again += u64::from(joined_again(shopper));
        faults.extend(numbers(account, shopper, &mut owners));
        faults.extend(admissions(account, shopper));
        if let Ok(ledger) = &evidence.ledger {
            for buyer in buyers(shopper, &ledger.buyers) {
                orders += 1;
                if buyer != account {
                    faults.push(format!("{account}: an order of the buyer {buyer}"));
                }
            }
        }
    }
    if again == 0 && faults.is_empty() {
        return Verdict::unchecked("no account joined twice");
    }
    let inside = match &evidence.ledger {
        Ok(_) => format!("{orders} orders of theirs in the ledger"),
        Err(reason) => format!("their orders were not looked at: {reason}"),
    };
    let said = format!("{accounts} accounts, one place each; {again} joined again; {inside}");
    Verdict::of(&faults, said)
}

/// Whether there were two joins that might have made two places.
fn joined_again(shopper: &ShopperSeen) -> bool {
    let lost = Event::Detour(crate::lab::crowd::Detour::LostCookies);
    shopper.second.as_ref().is_some_and(|device| !device.tickets.is_empty())
        || shopper.kept.iter().any(|kept| kept.event == lost)
}

fn all_tickets(shopper: &ShopperSeen) -> impl Iterator<Item = &TicketSeen> {
    shopper.tickets.iter().chain(shopper.second.iter().flat_map(|device| &device.tickets))
}

/// More than one number, somebody else's, or one without the account.
fn numbers<'a>(
    account: &'a str,
    shopper: &'a ShopperSeen,
    owners: &mut HashMap<(u64, &'a str), &'a str>,
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut own = BTreeSet::new();
    for ticket in all_tickets(shopper) {
        own.insert((ticket.run, ticket.number.as_str()));
        if ticket.account.as_deref() != Some(account) {
            faults.push(format!("{account}: a ticket of {:?}", ticket.account));
        }
    }
    let mut runs = BTreeSet::new();
    for number in own {
        if !runs.insert(number.0) {
            faults.push(format!("{account}: a second place, {}", number.1));
        }
        match owners.insert(number, account) {
            Some(other) if other != account => {
                faults.push(format!("{account} and {other}: both have {}", number.1));
            }
            Some(_) | None => {}
        }
    }
    faults
}

fn admissions(account: &str, shopper: &ShopperSeen) -> Vec<String> {
    let mut by_epoch: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    for admission in shopper.all_admissions() {
        by_epoch.entry(admission.epoch).or_default().insert(&admission.jti);
    }
    let several = by_epoch.into_iter().filter(|(_, ids)| ids.len() > 1);
    several
        .map(|(epoch, ids)| format!("{account}: {} admissions in the epoch {epoch}", ids.len()))
        .collect()
}

fn buyers<'a>(
    shopper: &'a ShopperSeen,
    all: &'a HashMap<String, String>,
) -> impl Iterator<Item = &'a String> {
    let answers = shopper.orders.iter().flat_map(|order| &order.answers);
    let ids: BTreeSet<_> = answers.filter_map(|answer| answer.reservation.as_ref()).collect();
    ids.into_iter().filter_map(|id| all.get(id))
}

//! Places that are lost or doubled on purpose.

use super::*;
use crate::lab::crowd::{Detour, Event, KeptSeen, PlaceSeen, TicketSeen, Upheaval};

fn place(entry: u64, ahead: u64, at_ms: u64) -> PlaceSeen {
    PlaceSeen {
        visitor: Some(format!("v{entry}")),
        entry: Some(entry),
        position: draw().position(entry),
        ahead: Some(AheadSeen { at_ms: T0 + at_ms, ahead, gateway: 0 }),
    }
}

/// Everybody has done something and has the place still; shoppers 0 to 4 have accounts, 0 and 1
/// on two devices.
fn tried() -> Observations {
    let mut seen = seen();
    let events = [
        Event::Detour(Detour::Reload),
        Event::Detour(Detour::NewTab),
        Event::Detour(Detour::Restart),
        Event::Detour(Detour::LostCookies),
        Event::OtherDevice,
        Event::Flush,
        Event::Stop,
    ];
    for ((entry, shopper), event) in (0..).zip(&mut seen.shoppers).zip(events.into_iter().cycle()) {
        let (before, after) = (place(entry, 5, 0), place(entry, 3, 100));
        shopper.kept.push(KeptSeen { event, before, after });
        shopper.role.detour = Some(Detour::Reload);
        let account = (entry < 5).then(|| format!("a{entry}"));
        let (number, sub) = (format!("e{entry}"), format!("v{entry}"));
        shopper.tickets = vec![TicketSeen { run: 1, number, sub, account: account.clone() }];
        shopper.account = account;
        if entry < 2 {
            let (tickets, admissions) = (shopper.tickets.clone(), shopper.admissions.clone());
            shopper.second = Some(DeviceSeen { tickets, admissions, ahead: Vec::new() });
        }
    }
    seen.upheavals = vec![Upheaval { event: Event::Flush, from_ms: T0, over_ms: Some(T0 + 300) }];
    seen.accounts_asked = true;
    seen
}

/// The ledger's rows name the accounts as buyers.
fn read() -> Evidence {
    let mut evidence = evidence();
    let orders = tried().shoppers.into_iter().filter_map(|shopper| {
        let account = shopper.account?;
        Some((shopper.orders[0].answers[0].reservation.clone()?, account))
    });
    ledger(&mut evidence).buyers = orders.collect();
    assert!(!ledger(&mut evidence).buyers.is_empty());
    evidence
}

#[test]
fn a_crowd_that_kept_its_places_says_what_they_survived() {
    let report = judge(&tried(), &read());
    assert!(report.is_good(), "{}", table(&report));
    let kept = &report.promises["place-kept"];
    assert_eq!(kept.holds, Some(true));
    for what in ["reload", "closed tab", "restarted", "lost cookies", "second device", "flushed"] {
        assert!(kept.evidence.contains(what), "{}", kept.evidence);
    }
    let accounts = &report.promises["one-place-per-account"];
    assert_eq!(accounts.holds, Some(true), "{}", accounts.evidence);
    assert_eq!((report.accounts.signed_in, report.accounts.two_devices), (5, 2));
    assert_eq!(report.flushed_ms, Some(T0));
}

#[test]
fn a_place_that_became_another_one_breaks_place_kept() {
    let changes: [fn(&mut PlaceSeen); 5] = [
        |after| (after.entry, after.position) = (None, None),
        |after| after.entry = Some(99),
        |after| after.position = Some(99),
        |after| after.visitor = Some("somebody else".into()),
        |after| after.ahead.as_mut().unwrap().ahead = 6,
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut lost = tried();
        change(&mut lost.shoppers[number].kept[0].after);
        assert_eq!(broken(&lost, &read()), ["place-kept"], "{number}");
    }
}

#[test]
fn a_room_that_was_never_restored_breaks_place_kept() {
    let mut lasting = tried();
    lasting.upheavals[0].over_ms = None;
    assert_eq!(broken(&lasting, &read()), ["place-kept"]);
}

#[test]
fn places_that_nobody_put_to_the_test_are_not_good_enough() {
    let mut idle = tried();
    idle.shoppers.iter_mut().for_each(|shopper| shopper.kept.clear());
    let report = judge(&idle, &read());
    assert_eq!(report.promises["place-kept"].holds, None);
    assert!(!report.is_good());

    let mut gone = tried();
    gone.shoppers[5].kept.clear();
    assert_eq!(judge(&gone, &read()).promises["place-kept"].holds, None, "nobody saw the flush");
}

#[test]
fn before_the_draw_there_is_no_position_to_compare() {
    let mut early = tried();
    early.shoppers[0].kept[0].before.position = None;
    early.shoppers[0].kept[0].before.ahead = None;
    assert!(judge(&early, &read()).is_good());
}

#[test]
fn a_second_place_breaks_one_place_per_account() {
    let mut doubled = tried();
    let device = doubled.shoppers[0].second.as_mut().unwrap();
    device.tickets[0].number = "l3".into();
    assert_eq!(broken(&doubled, &read()), ["one-place-per-account"]);

    let mut anonymous = tried();
    let device = anonymous.shoppers[0].second.as_mut().unwrap();
    device.tickets[0].account = None;
    assert_eq!(broken(&anonymous, &read()), ["one-place-per-account"]);

    let mut shared = tried();
    shared.shoppers[3].tickets[0].number = "e4".into();
    assert_eq!(broken(&shared, &read()), ["one-place-per-account"]);
}

#[test]
fn two_admissions_or_another_buyer_break_one_place_per_account() {
    let mut admitted = tried();
    let device = admitted.shoppers[1].second.as_mut().unwrap();
    device.admissions[0].jti = "another".into();
    assert!(broken(&admitted, &read()).contains(&"one-place-per-account"));

    let mut renewed = tried();
    let device = renewed.shoppers[1].second.as_mut().unwrap();
    (device.admissions[0].epoch, device.admissions[0].slot_ms) = (2, T0 + 5_000);
    assert!(judge(&renewed, &read()).is_good(), "a stop lets everybody claim once more");

    let mut evidence = read();
    ledger(&mut evidence).buyers.values_mut().for_each(|buyer| *buyer = "v1".into());
    assert_eq!(broken(&tried(), &evidence), ["one-place-per-account"]);
}

#[test]
fn a_sale_without_accounts_is_good_unless_they_were_asked_for() {
    let mut without = tried();
    for shopper in &mut without.shoppers {
        shopper.second = None;
        shopper.tickets.iter_mut().for_each(|ticket| ticket.account = None);
    }
    let report = judge(&without, &read());
    assert_eq!(report.promises["one-place-per-account"].holds, None);
    assert!(!report.is_good());
    without.accounts_asked = false;
    assert!(judge(&without, &read()).is_good());
}

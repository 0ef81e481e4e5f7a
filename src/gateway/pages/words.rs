//! The texts of the pages, gathered so that another language is another catalogue.
//!
//! `{}` stands for one value. A catalogue that forgets a text does not compile.

use super::view::PageState;
use crate::domain::queue::Odds;

/// The head of a page: a short label, a headline, and what it means for the shopper.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) tag: &'static str,
    pub(super) title: &'static str,
    pub(super) lead: &'static str,
}

macro_rules! catalogue {
    ($name:ident; heads { $($head:ident: $tag:literal, $title:literal, $lead:literal;)* }
     texts { $($text:ident: $value:literal;)* }) => {
        /// Every text of the pages in one language.
        #[derive(Debug)]
        pub(super) struct Words {
            $(pub(super) $head: Head,)*
            $(pub(super) $text: &'static str,)*
        }

        /// English.
        pub(super) static $name: Words = Words {
            $($head: Head { tag: $tag, title: $title, lead: $lead },)*
            $($text: $value,)*
        };
    };
}

catalogue! { ENGLISH;
heads {
    upcoming: "Announced", "The waiting room is not open yet",
        "Come back when it opens, any time before the sale starts. Coming first gives no advantage.";
    lobby: "Lobby open", "Join the draw",
        "At the opening second a draw puts everyone who has joined in line. Each has the same chance: it does not matter when you join, as long as it is before then.";
    entered: "Lobby open", "You are in the draw",
        "At the opening second a draw puts everyone in line. Each has the same chance, however early they came.";
    drawing: "Drawing", "The line is being drawn",
        "Everyone who joined in time gets a place now. This takes a few seconds.";
    open: "Sale open", "Join the line",
        "The draw is over. You stand behind everyone who is in line already, in the order of arrival.";
    waiting: "In line", "You are in line",
        "People are let into the shop one by one, at a steady pace. You are taken on when it is your turn.";
    called: "Your turn", "It is your turn",
        "Go in now. You enter at the next free moment.";
    booked: "Your turn", "You are about to go in",
        "It is your turn, and a few others have it too. You go in one after the other, in a fixed order; your moment is booked.";
    admitted: "Come in", "You are in",
        "The shop is open for you. Your turn lasts for a limited time, so go on now.";
    missed: "Missed", "Your turn has passed",
        "You were called, and your time to go in is over. You can join again at the end of the line.";
    left: "Left", "You have left the line",
        "Your place has gone to those behind you. You can join again at any time: that is a new place, not the old one.";
    code_over: "Recovery code", "This code leads nowhere any more",
        "A place that you have in this browser is kept.";
    cookies: "Cookies", "This page needs cookies",
        "Your place in line is kept in a cookie, and your browser has not sent ours back. Allow cookies for this site, then go on.";
    paused: "Paused", "The sale is paused",
        "Nobody is let in at the moment, and nobody loses a place. It goes on by itself.";
    all_held: "All held", "Every unit is in a basket right now",
        "Sold out for the moment, but not for certain: units are held while people pay. What they do not buy comes back, and the line goes on.";
    gone: "Sold out", "Sold out: every unit is sold",
        "Nothing is held any more, so nothing comes back. You may close this page.";
    closed: "Over", "The sale is over",
        "Nobody is let in any more. A unit that you hold already stays yours to the end of its hold.";
    sign_in: "Sign in", "Sign in to join",
        "This sale gives one place to each account. Sign in at the shop and you come back here.";
    full: "Full", "The line is full",
        "Every place has been given out, so joining is not possible now. There is a chance only if a place becomes free; this page keeps trying.";
    unavailable: "One moment", "We cannot answer just now",
        "Something on our side is not answering. If you have a place, it is kept. This page tries again by itself.";
    shop_unavailable: "One moment", "The shop is not answering",
        "You have done nothing wrong, and your place is kept. This page tries again by itself.";
}
texts {
    lang: "en";
    dir: "ltr";
    site: "Waiting room";
    problem_tag: "Not possible";
    problem_title: "That did not work";
    problem_text: "Go back and try again.";
    not_submitted: "What you sent was not passed on to the shop: nothing was ordered and nothing was paid.";
    until_lobby: "until the waiting room opens";
    until_draw: "until the draw";
    until_slot: "until you go in";
    lobby_opens: "Waiting room opens";
    opens: "Sale opens";
    closes: "Sale ends";
    ahead_one: "person ahead of you";
    ahead_other: "people ahead of you";
    ahead_none: "You are next";
    wait: "Your wait";
    wait_up_to: "up to {}";
    wait_unknown: "not known now";
    odds: "Chance of a unit";
    odds_certain: "certain";
    odds_likely: "likely";
    odds_even: "as likely as not";
    odds_unlikely: "unlikely";
    odds_none: "none";
    entry: "Your entry";
    drawn: "Your place in line";
    admitted_at: "You go in at";
    number: "No. {}";
    free: "free";
    held: "held";
    sold: "sold";
    stock: "Units of this sale";
    stock_note: "Held units are in someone’s basket; unpaid ones come back.";
    join_draw: "Join the draw";
    join_line: "Join the line";
    rejoin: "Join again at the end";
    join_again: "Join again";
    leave: "Leave the line";
    leave_text: "Your place goes to those behind you at once. Joining again is a new place, behind everybody.";
    leave_yes: "Give my place up";
    code_title: "Your place on another device";
    code_text: "This code leads back to your place. Show it to nobody:";
    code_label: "Recovery code";
    code_go: "Go to its place";
    go_in: "Go in";
    go_on: "Go on to the shop";
    sign_in_button: "Sign in";
    back: "Go back";
    back_to_shop: "Back to the shop";
    room: "To the waiting room";
    try_again: "Try again";
    retry_in: "Try again in {}.";
    claim_within: "You have {} from the call.";
    last_chance: "Your first time to go in has passed. This may be your last chance.";
    know: "Good to know";
    order: "What decides the order";
    order_draw: "Chance alone: a draw at the opening second. Its secret is fixed before anybody can join: no shopper can steer it, nobody can change it later, anybody can recompute it.";
    order_beacon: "Chance alone: a draw just after the opening. Public randomness that nobody knows before entries close is part of it, so nobody can tilt it, and anybody can recompute it.";
    order_drawn: "The draw at the opening second decided your place, by chance alone. Joining early did not count. Your number never goes up.";
    order_late: "You joined after the opening: everyone in the draw goes first, then all others by arrival. Your number never goes up.";
    order_open: "Everyone in the draw goes first, then all others by arrival.";
    proof: "See the proof";
    check: "Check the draw";
    receipt: "Receipt";
    receipt_keep: "keep and check";
    receipt_title: "Receipt for the draw";
    receipt_sale: "Sale";
    receipt_run: "run {}";
    receipt_number: "Your number";
    receipt_commitment: "Commitment";
    receipt_round: "Beacon";
    receipt_round_of: "round {} of drand quicknet";
    receipt_check: "Check it at";
    receipt_chance: "Every number has the same chance. Joining early does not count.";
    receipt_text: "This is no ticket: it leads nobody to your place.";
    away: "Closing and reloading";
    away_lobby: "Close, reload, lock your phone: your place is kept in this browser. Be back here when the sale opens.";
    away_line: "Close, reload, lock your phone: your place is kept in this browser. When called you have {} to go in, so look in now and then.";
    away_account: "Your place is tied to your account: close this page, or sign in on another device, and it is there. When called you have {} to go in.";
    limited_time: "a limited time";
    away_before: "Nothing is lost by closing this page. Once you have joined, your place is kept in this browser.";
    away_slot: "Keep this page open now. If you lose it, come back: your turn is not lost.";
    once: "More tabs do not help";
    once_text: "One visitor has one place. Reloading or a second tab moves nobody.";
    refresh_off: "Pause the refresh";
    refresh_on: "Refresh by itself again";
    server_time_head: "Our clock:";
    seconds_one: "{} second";
    seconds_other: "{} seconds";
    minutes_one: "{} minute";
    minutes_other: "{} minutes";
    hours_one: "{} hour";
    hours_other: "{} hours";
    check_tag: "The draw";
    check_title: "Check the draw";
    check_lead: "Your browser recomputes the draw from its published proof, step by step. What you type stays in this browser.";
    check_no_script: "This page needs JavaScript to compute. Without it, the two commands below do the same.";
    check_number: "Your number, as on your receipt";
    check_commitment: "Commitment on your receipt";
    check_passed: "Every step that can be checked here holds.";
    check_failed: "A step does not hold: this is not the draw that was committed to, or something was typed in wrong.";
    check_later: "The draw has not been made yet. Come back after the opening.";
    check_silent: "The proof cannot be fetched at the moment. Trying again.";
    check_place: "place {} of {} in the draw";
    check_nobody: "no such number took part";
    check_keep: "Save as a file";
    check_by_hand: "Without this page";
    check_by_hand_text: "A shop’s own page is not the best witness of its draw. The rule is public; this checks every step on your own machine, the beacon’s signature too:";
    step_passed: "passed";
    step_failed: "failed";
    step_later: "not yet";
    step_none: "not in this draw";
    step_unknown: "not checked here";
    step_ask: "type it in above";
    step_algorithm: "The rule is the public one";
    step_algorithm_text: "Swap-or-not in 90 rounds of SHA-256, as the Ethereum consensus specification has it.";
    step_commitment: "The secret is the one fixed beforehand";
    step_commitment_text: "SHA-256 of sale, run, beacon round and secret is the commitment that was published before anybody could join.";
    step_receipt: "The commitment is the one you were given";
    step_receipt_text: "A receipt of another run than this one belongs to another draw of the sale. If the runs are the same and the commitments differ, the secret was changed after you joined.";
    step_round: "The beacon is as committed to";
    step_round_text: "A draw that was committed to without public randomness has none, and one that names a round has its randomness.";
    step_signature: "The beacon’s signature is drand’s";
    step_signature_text: "Browsers cannot check this kind of signature (BLS12-381). The command below does, and drand publishes the round for comparison.";
    step_beacon: "The randomness follows from the signature";
    step_beacon_text: "It is the SHA-256 of the signature, so nobody can choose it.";
    step_key: "The key follows from all of it";
    step_key_text: "SHA-256 of sale, secret, number of entries and randomness is the key of the draw.";
    step_place: "Your number leads to your place";
    step_place_text: "The key alone turns each number into a place. If you have a place in this browser, it is compared with what the line tells you.";
    js_offline: "No connection. Your place is kept; trying again.";
    js_busy: "Very busy. Your place is kept; trying again.";
    js_cookies: "Allow cookies for this site and reload: your place is kept in one.";
    js_anew: "The draw begins anew, and you are in it again.";
    js_stranger: "You came as a new visitor, so this place is a new one. A recovery code leads back to the old one.";
    js_title_ahead: "{} ahead";
}}

impl Words {
    /// The head of a page; nothing for a problem, which has words of its own.
    pub(super) fn head(&self, state: PageState, has_place: bool) -> Option<&Head> {
        Some(match state {
            PageState::Upcoming => &self.upcoming,
            PageState::Lobby if has_place => &self.entered,
            PageState::Lobby => &self.lobby,
            PageState::Drawing => &self.drawing,
            PageState::Open => &self.open,
            PageState::Waiting => &self.waiting,
            PageState::Called => &self.called,
            PageState::Booked => &self.booked,
            PageState::Admitted => &self.admitted,
            PageState::Missed => &self.missed,
            PageState::Left => &self.left,
            PageState::CodeOver => &self.code_over,
            PageState::Cookies => &self.cookies,
            PageState::Paused => &self.paused,
            PageState::AllHeld => &self.all_held,
            PageState::Gone => &self.gone,
            PageState::Closed => &self.closed,
            PageState::SignIn => &self.sign_in,
            PageState::Full => &self.full,
            PageState::Unavailable => &self.unavailable,
            PageState::ShopUnavailable => &self.shop_unavailable,
            PageState::Problem => return None,
        })
    }

    /// The chance in a word or two.
    pub(super) fn odds_word(&self, odds: Odds) -> &'static str {
        match odds {
            Odds::Certain => self.odds_certain,
            Odds::Likely => self.odds_likely,
            Odds::Even => self.odds_even,
            Odds::Unlikely => self.odds_unlikely,
            Odds::None => self.odds_none,
        }
    }

    /// A time span of whole seconds, rounded up to the unit that people would name.
    pub(super) fn span(&self, seconds: u64) -> String {
        let (unit, size) = Unit::for_seconds(seconds);
        self.count(unit, seconds.div_ceil(size))
    }

    /// A range of waits, in one unit: from rounded down, to rounded up.
    pub(super) fn range(&self, low: u64, high: u64) -> String {
        let (unit, size) = Unit::for_seconds(high);
        let (from, to) = (low / size, high.div_ceil(size).max(1));
        let to_words = self.count(unit, to);
        if from == 0 {
            self.wait_up_to.replace("{}", &to_words)
        } else if from >= to {
            to_words
        } else {
            format!("{}–{to_words}", grouped(from))
        }
    }

    fn count(&self, unit: Unit, n: u64) -> String {
        let text = match (unit, n) {
            (Unit::Seconds, 1) => self.seconds_one,
            (Unit::Seconds, _) => self.seconds_other,
            (Unit::Minutes, 1) => self.minutes_one,
            (Unit::Minutes, _) => self.minutes_other,
            (Unit::Hours, 1) => self.hours_one,
            (Unit::Hours, _) => self.hours_other,
        };
        text.replace("{}", &grouped(n))
    }
}

#[derive(Clone, Copy)]
enum Unit {
    Seconds,
    Minutes,
    Hours,
}

impl Unit {
    /// The unit and its length; `queue.js` changes at the same bounds.
    fn for_seconds(seconds: u64) -> (Self, u64) {
        match seconds {
            0..=90 => (Self::Seconds, 1),
            91..=5_400 => (Self::Minutes, 60),
            _ => (Self::Hours, 3_600),
        }
    }
}

/// 1203 as 1,203.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_in_thousands() {
        for (n, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(n), text);
        }
    }

    #[test]
    fn a_wait_is_a_range_in_the_unit_people_would_name() {
        let t = &ENGLISH;
        assert_eq!(t.range(4, 9), "4–9 seconds");
        assert_eq!(t.range(0, 9), "up to 9 seconds");
        assert_eq!(t.range(0, 0), "up to 1 second");
        assert_eq!(t.range(80, 200), "1–4 minutes");
        assert_eq!(t.range(9, 9), "9 seconds");
        assert_eq!(t.range(4_000, 9_000), "1–3 hours");
        assert_eq!(t.range(3_600, 7_200), "1–2 hours");
        assert_eq!(t.span(120), "2 minutes");
        assert_eq!(t.span(60), "60 seconds");
    }
}

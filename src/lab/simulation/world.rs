//! One run: people, nodes and the room on one clock, event by event, from one seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::measure::{Admitted, Log};
use super::node::Node;
use super::people::{Kind, Stage, Visitor};
use super::scenario::{Change, Scenario};
use super::store::{Claim, Store, index};
use crate::domain::number::{real, whole};
use crate::domain::silence::exchange_after_ms;

/// The opening on the simulation's clock.
pub(super) const OPENS_MS: u64 = 1_800_000_000_000;
const BEAT_MS: u64 = 100;
/// Somebody whose node does not answer tries another.
const RETRY_MS: u64 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Beat(usize),
    Exchange(usize),
    Change(usize),
    Back,
    Ask(usize, u32),
    Collect(usize, u32),
    Order(usize),
    Pay(usize),
    Lapse,
}

/// Everything there is.
pub(super) struct World<'run> {
    scenario: &'run Scenario,
    rng: SmallRng,
    now_ms: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    nodes: Vec<Node>,
    store: Store,
    /// Until when Redis is away.
    store_back_ms: u64,
    people: Vec<Visitor>,
    log: Log,
}

/// Runs a scenario to its end.
pub(super) fn run(scenario: &Scenario, seed: u64) -> Log {
    let mut world = World::new(scenario, seed);
    let ends_ms = OPENS_MS + scenario.seconds * 1_000;
    while let Some(Reverse((at_ms, _, event))) = world.events.pop() {
        if at_ms > ends_ms {
            break;
        }
        world.now_ms = at_ms;
        world.happens(event);
    }
    world.log.lapses = world.store.lapses();
    world.log.open = world.store.open();
    world.log.held = world.store.held;
    world.log.available = world.store.available;
    world.log.missed =
        world.people.iter().filter(|visitor| visitor.stage == Stage::Missed).count() as u64;
    world.log
}

impl<'run> World<'run> {
    fn new(scenario: &'run Scenario, seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut store = Store::new(scenario.rate, scenario.burst);
        store.max_active = scenario.max_active;
        store.window_ms = scenario.window_ms;
        store.available = scenario.stock.map(|stock| stock.units);
        let nodes = (0..scenario.nodes)
            .map(|_| Node::new(rng.random_range(-60_000..60_000), scenario.rate));
        let mut world = Self {
            scenario,
            nodes: nodes.collect(),
            rng,
            now_ms: OPENS_MS,
            events: BinaryHeap::new(),
            count: 0,
            store,
            store_back_ms: 0,
            people: Vec::new(),
            log: Log::new(scenario),
        };
        for node in 0..scenario.nodes {
            // A node tells of the lobby as soon as it knows the draw.
            let beat = world.rng.random_range(0..BEAT_MS);
            let exchange = world.rng.random_range(100..350);
            world.later(scenario.draw_ms + beat, Event::Beat(node));
            world.later(scenario.draw_ms + exchange, Event::Exchange(node));
        }
        for (number, (after_ms, _)) in scenario.changes.iter().enumerate() {
            world.later(*after_ms, Event::Change(number));
        }
        let crowd = &scenario.crowd;
        for position in 0..scenario.people {
            // Pages come back when their countdown ends, spread out; streams are told at once.
            let away = if position < crowd.gone_in_front { 1.0 } else { crowd.away };
            world.joins(away, scenario.draw_ms, crowd.asks_first_ms.unwrap_or((300, 2_300)));
            // Who was there has asked in the last seconds of the lobby as well.
            if world.people[index(position)].is_present(OPENS_MS) {
                world.nodes[index(position) % scenario.nodes].hear(position);
            }
        }
        world.store.drawn = scenario.people;
        world
    }

    fn later(&mut self, after_ms: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((self.now_ms + after_ms, self.count, event)));
    }

    /// Somebody comes, and first asks so long after an instant ahead.
    fn joins(&mut self, away: f64, ahead_ms: u64, first_ms: (u64, u64)) {
        let crowd = self.scenario.crowd;
        let kind = match self.rng.random::<f64>() {
            chance if chance < crowd.mute => Kind::Mute,
            chance if chance < crowd.mute + crowd.hidden => {
                let from_ms = OPENS_MS + self.rng.random_range(0..60_000);
                Kind::Hidden { from_ms, to_ms: from_ms + self.rng.random_range(5_000..180_000) }
            }
            _ if crowd.asks_first_ms.is_none() && self.rng.random_bool(0.5) => Kind::Stream,
            _ => Kind::Poll,
        };
        let mut visitor = Visitor::new(kind, self.rng.random());
        let is_away = visitor.rank < away;
        (visitor.is_away, visitor.was_away) = (is_away, is_away);
        let first = match kind {
            Kind::Stream => self.rng.random_range(0..1_000),
            Kind::Poll | Kind::Mute | Kind::Hidden { .. } => {
                self.rng.random_range(first_ms.0..first_ms.1)
            }
        };
        visitor.asked_ms = self.now_ms + ahead_ms;
        if visitor.is_present(self.now_ms) {
            self.log.present += 1;
        }
        self.people.push(visitor);
        self.store.line += 1;
        self.later(ahead_ms + first, Event::Ask(self.people.len() - 1, 0));
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Beat(node) => self.beat(node),
            Event::Exchange(node) => {
                let ordered_ms = self.nodes[node].ordered_ms();
                self.later(exchange_after_ms(self.now_ms, ordered_ms), event);
                if !self.nodes[node].is_away(self.now_ms) && self.now_ms >= self.store_back_ms {
                    self.nodes[node].exchange(&mut self.store, self.now_ms);
                }
            }
            Event::Change(number) => self.change(self.scenario.changes[number].1),
            Event::Back => {
                // Two seconds of calls lie below the ceiling.
                let ceiling = self.store.cursor + seconds_of(self.store.rate.get(), 2.0);
                self.store.restored(ceiling, self.now_ms);
            }
            Event::Ask(who, life) => self.ask(who, life),
            Event::Collect(who, life) => {
                if self.people[who].life == life && !self.people[who].is_away {
                    self.claim(who);
                }
            }
            Event::Order(who) => self.order(who),
            Event::Pay(who) => {
                self.store.paid(who as u64);
                self.store.held -= 1;
                if self.store.held == 0 && self.store.available == Some(0) {
                    self.log.gone_ms = Some(self.now_ms);
                }
            }
            Event::Lapse => {
                self.store.held -= 1;
                self.store.available = self.store.available.map(|units| units + 1);
            }
        }
    }

    fn beat(&mut self, node: usize) {
        self.later(BEAT_MS, Event::Beat(node));
        if node == 0 {
            self.log.sample(self.now_ms, &self.store, self.now_ms >= self.store_back_ms);
        }
        if self.nodes[node].is_away(self.now_ms) || self.now_ms < self.store_back_ms {
            return;
        }
        if let Some(to) = self.nodes[node].beat(&mut self.store, self.now_ms) {
            self.log.calls.push((to, self.now_ms));
        }
    }

    /// Asks for the place, and claims if called.
    fn ask(&mut self, who: usize, life: u32) {
        let now_ms = self.now_ms;
        let visitor = &self.people[who];
        if visitor.life != life || visitor.is_away || visitor.stage != Stage::Waits {
            return;
        }
        let (position, turn) = (who as u64, index(now_ms / 7_000));
        let node = (who + if who.is_multiple_of(4) { turn } else { 0 }) % self.nodes.len();
        let all = self.nodes.len();
        let ready =
            (0..all).map(|next| (node + next) % all).find(|at| self.nodes[*at].is_ready(now_ms));
        let Some(node) = ready else {
            let after = self.rng.random_range(RETRY_MS..3 * RETRY_MS);
            return self.later(after, Event::Ask(who, life));
        };
        self.ask_at(node, who, life, position);
    }

    fn ask_at(&mut self, node: usize, who: usize, life: u32, position: u64) {
        let now_ms = self.now_ms;
        if self.people[who].is_heard(now_ms) {
            self.nodes[node].hear(position);
        }
        let (cursor, paused) = (self.nodes[node].cursor, self.nodes[node].paused);
        let is_called = position < cursor;
        if is_called && !paused && self.people[who].kind != Kind::Mute {
            self.claim(who);
            if self.people[who].stage != Stage::Waits {
                return;
            }
        }
        if self.store.available == Some(0) && self.store.held == 0 {
            self.people[who].stage = Stage::SoldOut;
            self.log.told_sold_out.push((now_ms, self.people[who].asked_ms));
            return;
        }
        self.people[who].asked_ms = now_ms;
        let (ahead, asking) = (position.saturating_sub(cursor), self.nodes[node].asking);
        let next = self.people[who].next_ms(now_ms, ahead, &asking, &mut self.rng);
        self.later(next - now_ms, Event::Ask(who, life));
    }

    fn claim(&mut self, who: usize) {
        let now_ms = self.now_ms;
        if now_ms < self.store_back_ms {
            let after = self.rng.random_range(RETRY_MS..3 * RETRY_MS);
            return self.later(after, Event::Collect(who, self.people[who].life));
        }
        let visitor = &self.people[who];
        let (life, was) = (visitor.life, visitor.stage);
        if was == Stage::In {
            return;
        }
        match self.store.claim(who as u64, now_ms) {
            Claim::Admitted(slot) => {
                self.log.admit(Admitted {
                    position: who as u64,
                    slot,
                    claimed_ms: now_ms,
                    asked_ms: visitor.asked_ms,
                    stayed: !visitor.was_away
                        && visitor.admissions == 0
                        && matches!(visitor.kind, Kind::Poll | Kind::Stream),
                });
                self.people[who].stage = Stage::In;
                self.people[who].admissions += 1;
                self.log.present -= 1;
                if let Some(stock) = self.scenario.stock {
                    let after = self.rng.random_range(stock.order_ms.0..=stock.order_ms.1);
                    self.later(after, Event::Order(who));
                }
            }
            Claim::Wait(Some(slot)) => {
                if was == Stage::Waits {
                    self.log.book(who as u64, now_ms, visitor.asked_ms);
                }
                self.people[who].stage = Stage::Booked;
                let due_ms = (slot - real(now_ms)).max(0.0).ceil() + 20.0;
                // Whoever looks at the page asks again before, and hears of an earlier slot.
                let asks_ms = self.rng.random_range(RETRY_MS..RETRY_MS * 13 / 10);
                let is_hidden = self.people[who].is_hidden(now_ms);
                let after = if is_hidden { whole(due_ms) } else { whole(due_ms).min(asks_ms) };
                self.later(after, Event::Collect(who, life));
            }
            Claim::Wait(None) | Claim::NotCalled => {
                if was == Stage::Booked {
                    // Asks on like everybody, and finds the slot again.
                    self.people[who].stage = Stage::Waits;
                    let after = self.rng.random_range(RETRY_MS..RETRY_MS * 13 / 10);
                    self.later(after, Event::Ask(who, life));
                }
            }
            Claim::Missed => {
                self.people[who].stage = Stage::Missed;
                self.log.present -= 1;
            }
        }
    }

    fn order(&mut self, who: usize) {
        let Some(stock) = self.scenario.stock else { return };
        let wants = self.rng.random_bool(stock.buy);
        let left = self.store.available.unwrap_or(0);
        if !wants {
            return;
        }
        if left == 0 {
            self.log.refused += 1;
            return self.store.decided(who as u64, 0);
        }
        self.store.available = Some(left - 1);
        self.store.decided(who as u64, 1);
        self.store.held += 1;
        self.log.orders.push(who as u64);
        if self.rng.random_bool(stock.abandon) {
            return self.later(stock.hold_ms, Event::Lapse);
        }
        let after = self.rng.random_range(stock.pay_ms.0..=stock.pay_ms.1);
        self.later(after, Event::Pay(who));
    }

    fn change(&mut self, change: Change) {
        let now_ms = self.now_ms;
        self.log.changed(now_ms, change, self.scenario.crowd.mute);
        match change {
            Change::Away(share) => self.go(share, self.store.cursor),
            Change::AllAway(share) => self.go(share, 0),
            Change::Join(count) => (0..count).for_each(|_| self.joins(0.0, 0, (0, 1_300))),
            Change::Rate(rate) => self.store.set_rate(rate, now_ms),
            Change::Pause => self.store.pause(now_ms),
            Change::Resume => self.store.resume(now_ms),
            Change::Stop => {
                self.store.stop(now_ms);
                for who in 0..self.people.len() {
                    if matches!(self.people[who].stage, Stage::In | Stage::Booked) {
                        self.log.present += u64::from(self.people[who].stage == Stage::In);
                        self.people[who].stage = Stage::Waits;
                        let after = self.rng.random_range(0..RETRY_MS);
                        let life = self.people[who].life;
                        self.later(after, Event::Ask(who, life));
                    }
                }
            }
            Change::Restart(node, for_ms) => self.nodes[node].restart(now_ms + for_ms),
            Change::Sleep(node, for_ms) => self.nodes[node].sleep(now_ms + for_ms),
            Change::ClockStep(node, by_ms) => self.nodes[node].step_clock(by_ms),
            Change::StoreLoss(for_ms) => {
                self.store_back_ms = now_ms + for_ms;
                self.later(for_ms, Event::Back);
            }
            Change::Confirm(count) => {
                let mut open = self.store.open_positions();
                open.truncate(index(count));
                for position in open {
                    self.store.paid(position);
                }
            }
        }
    }

    /// From a position on so many of those who wait are away from now on, and the others are there.
    fn go(&mut self, share: f64, from: u64) {
        for who in index(from)..self.people.len() {
            let visitor = &mut self.people[who];
            let goes = visitor.rank < share;
            let waits = matches!(visitor.stage, Stage::Waits | Stage::Booked);
            if !waits || goes == visitor.is_away {
                continue;
            }
            let before = visitor.is_present(self.now_ms);
            visitor.is_away = goes;
            visitor.was_away = true;
            visitor.life += 1;
            let after = visitor.is_present(self.now_ms);
            self.log.present = self.log.present + u64::from(after) - u64::from(before);
            if !goes {
                let life = visitor.life;
                if visitor.stage == Stage::Booked {
                    visitor.stage = Stage::Waits;
                }
                let after = self.rng.random_range(0..1_300);
                self.later(after, Event::Ask(who, life));
            }
        }
    }
}

fn seconds_of(per_second: f64, seconds: f64) -> u64 {
    whole(per_second * seconds)
}

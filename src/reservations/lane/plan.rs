//! What becomes of the orders that waited together: which are sent, which share an answer, which
//! wait for the next call. Pure.

use std::collections::HashMap;

use crate::domain::id::{BuyerId, OrderKey};
use crate::store::postgres::{Take, Taken};

/// An order in a lane, and who waits for its answer.
pub(super) struct Entry<W> {
    pub(super) take: Take,
    pub(super) waiter: W,
    /// How often another transaction was faster with its key.
    pub(super) races: u32,
    /// It was sent before and may be committed.
    pub(super) unsure: bool,
}

impl<W> Entry<W> {
    pub(super) fn new(take: Take, waiter: W) -> Self {
        Self { take, waiter, races: 0, unsure: false }
    }
}

/// One order of a call. The first of its waiters asked first.
pub(super) struct Job<W> {
    pub(super) take: Take,
    pub(super) waiters: Vec<W>,
    pub(super) races: u32,
    pub(super) unsure: bool,
}

/// What to do with the orders that waited.
pub(super) struct Plan<W> {
    /// In arrival order, no key twice.
    pub(super) jobs: Vec<Job<W>>,
    /// Orders whose key is in this call for another body: the next call knows what became of it.
    pub(super) later: Vec<Entry<W>>,
}

/// Plans a call of orders in arrival order, all for one stock row. Equal keys share one job.
pub(super) fn plan<W>(entries: Vec<Entry<W>>) -> Plan<W> {
    let mut places: HashMap<(BuyerId, OrderKey), usize> = HashMap::with_capacity(entries.len());
    let mut jobs: Vec<Job<W>> = Vec::with_capacity(entries.len());
    let mut later = vec![];
    for entry in entries {
        let key = (entry.take.order.buyer.clone(), entry.take.order.order_key.clone());
        let place = *places.entry(key).or_insert(jobs.len());
        match jobs.get_mut(place) {
            None => {
                let Entry { take, waiter, races, unsure } = entry;
                jobs.push(Job { take, waiters: vec![waiter], races, unsure });
            }
            Some(job) if job.take.cart == entry.take.cart => {
                job.waiters.push(entry.waiter);
                job.unsure |= entry.unsure;
            }
            Some(_) => later.push(entry),
        }
    }
    Plan { jobs, later }
}

/// What the second of two equal orders hears when the first heard this.
pub(super) fn echo(first: &Taken) -> Taken {
    match first {
        Taken::Held(reservation) => {
            Taken::Replay { reservation: reservation.clone(), lapsed: false }
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::domain::id::{SaleId, Sku};
    use crate::domain::quantity::Quantity;
    use crate::domain::reservation::{Cart, Line, OrderRef};

    fn entry(place: usize, (buyer, key, units): (u8, u8, u8)) -> Entry<usize> {
        let order = OrderRef {
            sale: SaleId::parse("s").unwrap(),
            buyer: BuyerId::parse(&format!("b{buyer}")).unwrap(),
            order_key: OrderKey::parse(&format!("k{key}")).unwrap(),
        };
        let line =
            Line { sku: Sku::parse("S").unwrap(), qty: Quantity::new(units.into()).unwrap() };
        let cart = Cart::new(vec![line]).unwrap();
        Entry::new(Take { id: Uuid::now_v7(), order, cart, closes_ms: 0, settling: false }, place)
    }

    fn entries(orders: &[(u8, u8, u8)]) -> Vec<Entry<usize>> {
        orders.iter().enumerate().map(|(place, order)| entry(place, *order)).collect()
    }

    #[test]
    fn rs_28_equal_orders_share_one_job_and_the_first_of_them_is_sent() {
        let plan = plan(entries(&[(1, 1, 1), (2, 1, 1), (1, 1, 1)]));
        let waiters: Vec<_> = plan.jobs.iter().map(|job| job.waiters.clone()).collect();
        assert_eq!(waiters, [vec![0, 2], vec![1]]);
        assert!(plan.later.is_empty());
    }

    #[test]
    fn rs_18_of_two_bodies_under_one_key_the_second_waits_for_the_first() {
        let plan = plan(entries(&[(1, 1, 1), (1, 1, 2), (1, 1, 1), (1, 2, 2)]));
        let waiters: Vec<_> = plan.jobs.iter().map(|job| job.waiters.clone()).collect();
        assert_eq!(waiters, [vec![0, 2], vec![3]]);
        let later: Vec<_> = plan.later.iter().map(|entry| entry.waiter).collect();
        assert_eq!(later, [1]);
    }

    proptest! {
        #[test]
        fn nobody_is_lost_and_no_key_is_sent_twice(
            orders in prop::collection::vec((0..4_u8, 0..4_u8, 1..4_u8), 0..80)
        ) {
            let plan = plan(entries(&orders));
            let mut seen: Vec<usize> = plan.jobs.iter().flat_map(|job| job.waiters.clone()).collect();
            for job in &plan.jobs {
                for waiter in &job.waiters {
                    let (buyer, key, units) = orders[*waiter];
                    let same = entry(0, (buyer, key, units)).take;
                    prop_assert_eq!((&same.order, &same.cart), (&job.take.order, &job.take.cart));
                }
                prop_assert!(job.waiters.is_sorted());
            }
            let firsts: Vec<usize> = plan.jobs.iter().map(|job| job.waiters[0]).collect();
            prop_assert!(firsts.is_sorted());
            let mut keys: Vec<_> = firsts.iter().map(|first| (orders[*first].0, orders[*first].1)).collect();
            keys.sort_unstable();
            keys.dedup();
            prop_assert_eq!(keys.len(), plan.jobs.len());
            seen.extend(plan.later.iter().map(|entry| entry.waiter));
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..orders.len()).collect::<Vec<_>>());
        }
    }
}

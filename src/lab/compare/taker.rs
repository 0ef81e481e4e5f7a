//! A client of any approach, with the connection that it needs.

use anyhow::{Result, bail};

use super::approach::Approach;
use super::atomic::{AtomicUpdate, Shards};
use super::counter::Counter;
use super::ground::Ground;
use super::lanes::Lane;
use super::naive::{ReadAndWrite, Tie};
use super::order::Order;
use super::reservation::ReservationTtl;
use super::single::OneRoundTrip;
use super::tally::Outcome;

/// Takes one unit at a time.
pub(super) enum Taker {
    ReadAndWrite(ReadAndWrite),
    AtomicUpdate(AtomicUpdate),
    Counter(Counter),
    ReservationTtl(ReservationTtl),
    OneRoundTrip(OneRoundTrip),
    Shards(Shards),
    Lane(Lane),
}

impl Taker {
    /// That many clients of an approach.
    pub(super) async fn crowd(ground: &Ground, approach: Approach, of: u16) -> Result<Vec<Self>> {
        if approach == Approach::Lanes {
            return Ok(Lane::crowd(ground, of).into_iter().map(Self::Lane).collect());
        }
        let mut crowd = Vec::with_capacity(usize::from(of));
        for _ in 0..of {
            crowd.push(Self::open(ground, approach).await?);
        }
        Ok(crowd)
    }

    async fn open(ground: &Ground, approach: Approach) -> Result<Self> {
        let tied = async |tie| ReadAndWrite::open(ground, tie).await.map(Self::ReadAndWrite);
        match approach {
            Approach::ReadThenWrite => tied(Tie::None).await,
            Approach::ReadCommitted => tied(Tie::Transaction).await,
            Approach::ForUpdate => tied(Tie::RowLock).await,
            Approach::AtomicUpdate => Ok(Self::AtomicUpdate(AtomicUpdate::open(ground).await?)),
            Approach::RedisLua => Ok(Self::Counter(Counter::open(ground))),
            Approach::ReservationTtl => {
                Ok(Self::ReservationTtl(ReservationTtl::open(ground).await?))
            }
            Approach::OneRoundTrip => Ok(Self::OneRoundTrip(OneRoundTrip::open(ground).await?)),
            Approach::Shards => Ok(Self::Shards(Shards::open(ground).await?)),
            Approach::Lanes => bail!("lanes are shared"),
        }
    }

    /// Sends one order and waits for what is said.
    pub(super) async fn take(&mut self, order: &Order) -> Result<Outcome> {
        match self {
            Self::ReadAndWrite(client) => client.take(order).await,
            Self::AtomicUpdate(client) => client.take(order).await,
            Self::Counter(client) => client.take(order).await,
            Self::ReservationTtl(client) => client.take(order).await,
            Self::OneRoundTrip(client) => client.take(order).await,
            Self::Shards(client) => client.take(order).await,
            Self::Lane(client) => client.take(order).await,
        }
    }
}

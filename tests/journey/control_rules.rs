//! What may change when, in Lua and in Rust, side by side on a real Redis.

use std::time::Duration;

use proptest::prelude::*;
use stanchion::domain::beacon;
use stanchion::domain::control::{ControlChange, ControlNo, Moment};
use stanchion::domain::rate::Rate;
use stanchion::domain::sale::Control;
use stanchion::store::redis::room::Publish;
use tokio_util::sync::CancellationToken;

use crate::fixture::now_ms;
use crate::room_ground::RoomGround;

/// Instants are whole half minutes from now, so that a slow machine changes no verdict.
const STEP_MS: i64 = 30_000;
const NEAR_MS: u64 = 10_000;

#[derive(Debug, Clone)]
struct Case {
    /// Of lobby, opening and close, in steps from now; never zero.
    times: [i64; 3],
    moved: [Option<i64>; 3],
    frozen: bool,
    /// The latest opening that the beacon allows, in steps; none = no beacon.
    beacon: Option<i64>,
    paused: (bool, Option<bool>),
    rate: Option<u32>,
    close: bool,
    bypass: Option<u64>,
    raise: (bool, bool),
}

fn steps() -> impl Strategy<Value = i64> {
    prop_oneof![-4..0_i64, 1..5_i64]
}

fn moved() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![3 => Just(None), 1 => steps().prop_map(Some)]
}

fn case() -> impl Strategy<Value = Case> {
    let times = [steps(), steps(), steps()];
    let flags = ((any::<bool>(), moved()), (any::<bool>(), proptest::option::of(any::<bool>())));
    let rest = (
        proptest::option::of(1..3_u32),
        prop_oneof![4 => Just(false), 1 => Just(true)],
        prop_oneof![3 => Just(None), 1 => Just(Some(0)), 1 => Just(Some(600_000))],
        (any::<bool>(), prop_oneof![4 => Just(false), 1 => Just(true)]),
    );
    (times, [moved(), moved(), moved()], flags, rest).prop_map(
        |(mut times, moved, ((frozen, beacon), paused), (rate, close, bypass, raise))| {
            times.sort_unstable();
            Case { times, moved, frozen, beacon, paused, rate, close, bypass, raise }
        },
    )
}

impl Case {
    fn record(&self, file: &Control, at_ms: u64) -> Control {
        let at = |steps: i64| at_ms.saturating_add_signed(steps * STEP_MS);
        let [lobby, opens, closes] = self.times.map(at);
        Control {
            version: 7,
            run: 3,
            epoch: 4,
            paused: self.paused.0,
            lobby_opens_ms: lobby,
            opens_ms: opens,
            closes_ms: closes,
            rate: Rate::whole(1),
            ..file.clone()
        }
    }

    fn round(&self, at_ms: u64) -> u64 {
        let last = |it: i64| beacon::first_for(at_ms.saturating_add_signed(it * STEP_MS));
        self.beacon.map_or(0, last)
    }

    fn change(&self, at_ms: u64) -> ControlChange {
        let at = |steps: Option<i64>| steps.map(|it| at_ms.saturating_add_signed(it * STEP_MS));
        let [lobby_opens_ms, opens_ms, closes_ms] = self.moved.map(at);
        ControlChange {
            paused: self.paused.1,
            rate: self.rate.and_then(|rate| Rate::per_second(f64::from(rate)).ok()),
            lobby_opens_ms,
            opens_ms,
            closes_ms,
            close: self.close,
            bypass_for_ms: self.bypass,
            next_epoch: self.raise.0,
            next_run: self.raise.1,
            ..ControlChange::default()
        }
    }
}

async fn in_lua(
    ground: &RoomGround,
    case: &Case,
    at_ms: u64,
) -> Result<Option<Control>, ControlNo> {
    let (store, sale) = (ground.store(), &ground.sale);
    let record = serde_json::to_value(case.record(&ground.file, at_ms)).unwrap();
    let mut fields = redis::cmd("HSET");
    fields.arg(format!("stanchion:{{{sale}}}:control"));
    for (name, value) in record.as_object().unwrap() {
        let text = match (name.as_str(), value) {
            ("rate", _) => "1".to_owned(),
            ("paused", paused) => u8::from(paused == true).to_string(),
            (_, serde_json::Value::String(text)) => text.clone(),
            (_, number) => number.to_string(),
        };
        fields.arg(name).arg(text);
    }
    let () = ground.redis.command(&fields).await.unwrap();
    let room = format!("stanchion:{{{sale}}}:room");
    let info: String = ground.redis.command(redis::cmd("INFO").arg("server")).await.unwrap();
    let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap().trim();
    let mut loaded = redis::cmd("HSET");
    let () = ground.redis.command(loaded.arg(&room).arg("loaded").arg(run_id)).await.unwrap();
    let mut frozen = redis::cmd(if case.frozen { "HSET" } else { "HDEL" });
    frozen.arg(&room).arg("frozen");
    if case.frozen {
        frozen.arg("1");
    }
    let () = ground.redis.command(&frozen).await.unwrap();
    let mut round = redis::cmd("HSET");
    round.arg(&room).arg("round").arg(case.round(at_ms));
    let () = ground.redis.command(&round).await.unwrap();
    match store.change("somebody", &case.change(at_ms)).await.unwrap() {
        (Publish::Changed(_), control) => Ok(control),
        (Publish::Same(_), _) => Ok(None),
        (Publish::Refused(no), _) => Err(no),
        (Publish::Unloaded, _) => panic!("unloaded"),
    }
}

/// What is counted from the instant of the change differs by the time between the two.
fn near(lua: Option<&mut Control>, rust: Option<&Control>) {
    let (Some(lua), Some(rust)) = (lua, rust) else { return };
    for (lua, rust) in
        [(&mut lua.closes_ms, rust.closes_ms), (&mut lua.bypass_until_ms, rust.bypass_until_ms)]
    {
        if lua.abs_diff(rust) < NEAR_MS {
            *lua = rust;
        }
    }
}

#[test]
fn the_script_changes_a_record_by_the_same_rules_as_the_domain() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ground = runtime.block_on(async {
        let ground = RoomGround::new("rules", 60_000, 1.0).await;
        // No gateway: it would hand back what it knows of the record.
        let core = ground.keeper();
        core.boot().await.unwrap();
        let loaded = async {
            while ground.store().look().await.unwrap().1.is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        // Whichever is not done is dropped: no core looks at the record after this.
        tokio::select! {
            () = core.run(CancellationToken::new()) => panic!("the core ended"),
            () = loaded => {}
        }
        ground
    });

    proptest!(ProptestConfig::with_cases(400), |(case in case())| {
        let at_ms = now_ms();
        let mut lua = runtime.block_on(in_lua(&ground, &case, at_ms));
        let at = Moment { now_ms: at_ms, frozen: case.frozen, round: case.round(at_ms) };
        let record = case.record(&ground.file, at_ms);
        let rust = record.changed(&case.change(at_ms), "somebody", at);
        if let (Ok(lua), Ok(rust)) = (&mut lua, &rust) {
            near(lua.as_mut(), rust.as_ref());
        }
        prop_assert_eq!(lua, rust);
    });
}

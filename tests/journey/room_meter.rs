//! The meter in Lua and the meter in Rust, driven side by side on a real Redis.

use std::cell::RefCell;

use proptest::prelude::*;
use stanchion::domain::meter::Meter;
use stanchion::domain::rate::Rate;

use crate::fixture::Ground;

/// The shared piece, between a clock of the test's own and a driver.
const SCRIPT: &str = concat!(
    r"
local now
local function text(number)
  return string.format('%.17g', number)
end
",
    include_str!("../../src/store/redis/room/meter.lua"),
    r"
local key, answers = KEYS[1], {}
meter_write(key, { next = 0, burst = tonumber(ARGV[2]),
  anchors = { { from = 0, at = 0, rate = tonumber(ARGV[1]) } } })
for i = 3, #ARGV, 4 do
  local what, a, b = ARGV[i], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  now = tonumber(ARGV[i + 1])
  local meter = meter_read(key)
  if what == 'claim' then
    for _ = 1, a do meter_claim(meter) end
  elseif what == 'rate' then
    meter_set_rate(meter, a, b)
  elseif what == 'void' then
    meter_void(meter)
  elseif what == 'pause' then
    meter_pause(meter)
  elseif what == 'resume' then
    meter_resume(meter)
  end
  meter_write(key, meter)
  answers[#answers + 1] = text(meter.next)
  for number = math.max(meter.next - 50, 0), meter.next do
    local slot = meter_slot(meter, number)
    answers[#answers + 1] = slot and text(slot) or '-'
  end
end
return answers
"
);

#[derive(Debug, Clone)]
enum Step {
    Claim(u32),
    Rate(f64, u32),
    Void,
    Pause,
    Resume,
}

/// A wait before the step, in milliseconds, fractions included, and the step.
fn step() -> impl Strategy<Value = (f64, Step)> {
    let step = prop_oneof![
        4 => (1_u32..40).prop_map(Step::Claim),
        2 => ((0.2_f64..3_000.0), 1_u32..6).prop_map(|(rate, burst)| Step::Rate(rate, burst)),
        1 => Just(Step::Void),
        1 => Just(Step::Pause),
        1 => Just(Step::Resume),
    ];
    let wait = prop_oneof![Just(0.0), 0.0..500.0_f64, 0.0..60_000.0_f64];
    (wait, step)
}

fn in_rust(steps: &[(f64, Step)], rate: Rate, burst: u32) -> Vec<String> {
    let (mut meter, mut now) = (Meter::new(rate, burst), 1_800_000_000_000.0);
    let mut answers = Vec::new();
    for (wait, step) in steps {
        now += wait;
        match step {
            Step::Claim(count) => (0..*count).for_each(|_| {
                meter.claim(now);
            }),
            Step::Rate(rate, burst) => {
                meter.set_rate(now, Rate::per_second(*rate).unwrap(), *burst);
            }
            Step::Void => meter.void(now),
            Step::Pause => meter.pause(now),
            Step::Resume => meter.resume(now),
        }
        answers.push(meter.next().to_string());
        for number in meter.next().saturating_sub(50)..=meter.next() {
            answers.push(meter.slot_ms(number).map_or("-".to_owned(), |slot| slot.to_string()));
        }
    }
    answers
}

fn in_lua(
    redis: &RefCell<redis::Connection>,
    steps: &[(f64, Step)],
    rate: Rate,
    burst: u32,
) -> Vec<String> {
    let script = redis::Script::new(SCRIPT);
    let mut call = script.key("stanchion:{meter-test}:meter");
    call.arg(rate.get().to_string()).arg(burst);
    let mut now = 1_800_000_000_000.0_f64;
    for (wait, step) in steps {
        now += wait;
        let (what, a, b) = match step {
            Step::Claim(count) => ("claim", f64::from(*count), 0),
            Step::Rate(rate, burst) => ("rate", *rate, *burst),
            Step::Void => ("void", 0.0, 0),
            Step::Pause => ("pause", 0.0, 0),
            Step::Resume => ("resume", 0.0, 0),
        };
        call.arg(what).arg(now.to_string()).arg(a.to_string()).arg(b);
    }
    let said: Vec<String> = call.invoke(&mut *redis.borrow_mut()).unwrap();
    // The same numbers, whatever their digits look like.
    said.into_iter()
        .map(|text| text.parse::<f64>().map_or(text, |number| number.to_string()))
        .collect()
}

#[test]
fn the_meter_of_the_claim_step_gives_the_same_slots_as_the_rules() {
    let ground = Ground::new("meter");
    let redis = redis::Client::open(ground.redis_url).unwrap().get_connection().unwrap();
    let redis = RefCell::new(redis);
    let steps = proptest::collection::vec(step(), 1..60);

    proptest!(ProptestConfig::with_cases(300), |(
        steps in steps, rate in 0.2_f64..500.0, burst in 1_u32..6
    )| {
        let rate = Rate::per_second(rate).unwrap();
        let lua = in_lua(&redis, &steps, rate, burst);
        prop_assert_eq!(lua, in_rust(&steps, rate, burst));
    });
}

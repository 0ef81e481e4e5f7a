//! Journeys over real sockets, a real Postgres and a real Redis: one binary, a module per topic.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![allow(clippy::disallowed_methods, reason = "tests spawn what ends with them")]

mod accounts;
mod aftermath;
mod browsing;
mod check;
mod compare;
mod config;
mod control;
mod control_cli;
mod control_ground;
mod control_lost;
mod control_reset;
mod control_rules;
mod control_trail;
mod core_api;
mod core_api_input;
mod demo;
mod edge;
mod embedded;
mod fixture;
mod forward_auth;
mod gate;
mod gate_lost;
mod ground;
mod keys_rotate;
mod ledger;
mod ledger_batch;
mod ledger_life;
mod ledger_lost;
mod loss;
mod modes;
mod ops_page;
mod processes;
mod reload;
mod renewal;
mod renewal_count;
mod room_ground;
mod room_leave;
mod room_line;
mod room_meter;
mod room_pace;
mod room_restore;
mod room_steps;
mod sabotage;
mod shop_down;

//! The core's side of the room: Postgres is the truth, Redis the mirror.

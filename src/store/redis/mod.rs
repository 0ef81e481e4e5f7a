//! Redis: the gate and the room, atomic steps in Lua.

//! The reservation core: sells every unit once and never one more.

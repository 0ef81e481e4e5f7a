//! What runs and measures the system: private stores, sample shop, crowd, demo.

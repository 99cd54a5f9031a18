//! Data and helpers that the benches share.

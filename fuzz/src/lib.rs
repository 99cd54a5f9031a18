//! The bodies of the fuzz targets: plain functions that panic where something does not hold, so that the
//! committed corpora can be replayed by an ordinary test.
#![forbid(unsafe_code)]

pub mod decompress;
pub mod engine;
pub mod frame;
pub mod group;
pub mod json;
pub mod log;
pub mod parse;
pub mod produce;
pub mod records;
pub mod reply;
pub mod sasl;
pub mod text;

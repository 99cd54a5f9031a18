//! Record batches as they lie in a fetch response: read without copying, and in bounded memory whatever
//! the bytes say.
//!
//! [`Reader`] is what a fetch gives its records by. [`Batches`] walks the batches alone, and
//! [`BatchWriter`] makes one.

mod batch;
mod inflate;
mod kit;
mod reader;
mod record;
mod window;
mod write;

pub use batch::{Batch, Batches, Compression, Next, TimestampType};
pub use reader::Reader;
pub use write::BatchWriter;

/// The largest record that is read out of a compressed batch, in bytes: twice the largest batch as it is
/// stored [D-26].
pub const MAX_RECORD_BYTES: usize = 2 * octopus_core::limits::RECORD_BYTES;

/// The most bytes that one [`Reader`] unpacks, and the rest of a block where blocks are unpacked whole; it ends early
/// there, and the next fetch reads on [D-26].
pub const MAX_INFLATED_BYTES: usize = 64 * 1024 * 1024;

/// The bytes of an unpacked batch that are held at a time, unless one record or one block is larger.
pub const WINDOW_BYTES: usize = 64 * 1024;

//! Kafka records as the JSON of Confluent's REST Proxy v2, with headers.
//!
//! [`pack`] takes each partition's records as they come from a fetch and makes one reply of them: it writes what
//! fits, says how far that reaches in each partition, and leaves the rest for the next reply. A binary instance's
//! keys and values become base64. Those of a json instance are written as they were produced where they are one
//! JSON value, which [`is_json`] decides exactly, and as a string of their text elsewhere.
//!
//! A record is in a reply once it is known to fit, so a reply is never taken back, and each key and value is checked
//! once. A reply over 2 MiB is one record; it is made in windows while it is sent and never stands in memory whole.
//!
//! This crate reads no clock and does no I/O, and what it makes depends on its input alone. It reads no JSON into
//! values, decodes no base64 and knows nothing of Kafka's batches: a source of records implements
//! [`octopus_core::Records`].
//!
//! ```
//! use octopus_codec::{Body, pack};
//! use octopus_core::{Fault, Format, Headers, Offset, Position, Record, Records, TopicPartition};
//!
//! /// Two records whose values are these texts.
//! struct Texts(&'static [&'static str], usize);
//!
//! impl Records for Texts {
//!     fn next(&mut self) -> Option<Result<Record<'_>, Fault>> {
//!         let value = self.0.get(self.1)?;
//!         self.1 += 1;
//!         Some(Ok(Record {
//!             offset: Offset(self.1 as i64 - 1),
//!             timestamp: 0,
//!             key: None,
//!             value: Some(value.as_bytes()),
//!             headers: Headers::NONE,
//!             buffer: None,
//!         }))
//!     }
//!
//!     fn position(&self) -> Position {
//!         Position::at(self.1 as i64)
//!     }
//! }
//!
//! let partition = TopicPartition::only("my-topic".into());
//! let records = Texts(&[r#"{"step": 7}"#, "plain"], 0);
//! let packed = pack(vec![(partition.clone(), records)], Format::Json, None);
//!
//! let Some(Body::Whole(slices)) = packed.body else { panic!("two small records") };
//! let text: Vec<u8> = slices.concat();
//! assert_eq!(
//!     String::from_utf8(text).unwrap(),
//!     r#"[{"topic":"my-topic","key":null,"value":{"step": 7},"partition":0,"offset":0,"headers":[]},"#.to_owned()
//!         + r#"{"topic":"my-topic","key":null,"value":"plain","partition":0,"offset":1,"headers":[]}]"#
//! );
//! assert_eq!(packed.next, [(partition, Position::at(2))]);
//! ```

mod base64;
pub mod json;
#[doc(hidden)]
pub mod parts;
mod record;
mod reply;
mod text;
mod utf8;
#[cfg(target_arch = "x86_64")]
mod vectors;

pub use json::is_json;
pub use reply::{Body, Packed, Stream, pack};
pub use utf8::is_utf8;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

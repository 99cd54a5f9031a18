//! A value that is text, as a string of a json reply; a header's name, which may be anything; and the bytes as base64.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use octopus_codec::{
    Body, is_json, pack,
    parts::{ROOM, encode_base64, escape, escaped_len},
};
use octopus_core::{Format, TopicPartition};
use serde::Deserialize;

use crate::log::{Log, Sent};

#[derive(Deserialize)]
struct Object {
    value: String,
    headers: Vec<Header>,
}

#[derive(Deserialize)]
struct Header {
    name: String,
}

/// Text of this many bytes is written in several blocks.
const BLOCKS: usize = 200;

/// The input is the value and the name; both must be read back from the reply. So must the text and the bytes, as they
/// are and over and over, written into no more room than they take.
pub fn check(data: &[u8]) {
    let lossy = String::from_utf8_lossy(data);
    for times in [1, 2 + BLOCKS / (data.len() + 1)] {
        escaped(&lossy.repeat(times));
        encoded(&data.repeat(times));
    }
    if is_json(lossy.as_bytes()) {
        return;
    }
    let sent = Sent {
        key: None,
        value: Some(lossy.as_bytes().to_vec()),
        headers: vec![(data.to_vec(), None)],
    };
    let parts = vec![(TopicPartition::only("t".into()), Log::new(vec![sent]))];
    let Some(Body::Whole(slices)) = pack(parts, Format::Json, None).body else {
        panic!("a text of less than 300 KiB fits a reply")
    };
    let [object] = &serde_json::from_slice::<Vec<Object>>(&slices.concat()).expect("JSON")[..] else {
        panic!("one record")
    };
    assert_eq!(object.value, lossy);
    assert_eq!(object.headers[0].name, lossy);
}

fn escaped(text: &str) {
    let length = escaped_len(text.as_bytes());
    for room in [0, 1, ROOM] {
        let mut out = vec![0; length + room].into_boxed_slice();
        assert_eq!(escape(text.as_bytes(), &mut out), length);
        let json = [b"\"", &out[..length], b"\""].concat();
        assert_eq!(serde_json::from_slice::<String>(&json).expect("a string"), text);
    }
}

fn encoded(bytes: &[u8]) {
    let length = bytes.len().div_ceil(3) * 4;
    for room in [0, 1, ROOM] {
        let mut out = vec![0; length + room].into_boxed_slice();
        assert_eq!(encode_base64(bytes, &mut out), length);
        assert_eq!(BASE64_STANDARD.decode(&out[..length]).as_deref(), Ok(bytes));
    }
}

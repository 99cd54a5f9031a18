//! Replies that are compressed where the client asks for it [D-36].

use std::io::Read as _;

use serde_json::{Value, json};

use crate::{
    client::Response,
    reader::{Reader, place},
    service::Service,
};

/// A fetch whose client reads these encodings.
async fn fetch(reader: &Reader, encodings: &str) -> Response {
    let headers = [("Accept", reader.accept), ("Accept-Encoding", encodings)];
    let path = format!("{}/records?timeout=5000", reader.path);
    reader.user.send("GET", &path, &headers, "").await.expect(200)
}

/// What a reply holds, and how it was compressed.
fn plain(reply: &Response) -> (Option<&str>, Value) {
    let encoding = reply.header("content-encoding");
    let mut text = Vec::new();
    match encoding {
        Some("gzip") => flate2::read::GzDecoder::new(&*reply.body).read_to_end(&mut text),
        Some("zstd") => zstd::stream::read::Decoder::new(&*reply.body)
            .unwrap()
            .read_to_end(&mut text),
        Some(other) => panic!("{other}"),
        None => (&*reply.body).read_to_end(&mut text),
    }
    .unwrap();
    (encoding, serde_json::from_slice(&text).unwrap())
}

/// [D-36] [RP-01] as many records as without, for the limit counts bytes before compression.
#[tokio::test]
async fn a_reply_is_compressed_as_the_client_likes_best() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let value = vec![b'v'; 300_000];
    service.write(&user, "t", &[&*value; 12]);
    let mut counts = Vec::new();
    for (name, encodings, expected) in [
        ("a", "", None),
        ("b", "gzip, deflate", Some("gzip")),
        ("c", "gzip, zstd", Some("zstd")),
        ("d", "br", None),
    ] {
        let reader = service.reader(&user, name, "i", json!({})).await;
        reader.assign(&["t"]).await;
        let reply = service.soon(fetch(&reader, encodings)).await;
        let (encoding, records) = plain(&reply);
        assert_eq!(encoding, expected);
        assert_eq!(reply.header("vary"), expected.map(|_| "accept-encoding"));
        let length = reply
            .header("content-length")
            .and_then(|length| length.parse().ok());
        assert_eq!(length, Some(reply.body.len()));
        assert_eq!(
            reply.body.len() < 100_000,
            expected.is_some(),
            "{} bytes",
            reply.body.len()
        );
        counts.push(records.as_array().unwrap().len());
        reader
            .user
            .send("DELETE", &reader.path, &[], "")
            .await
            .expect(204);
    }
    assert!(
        counts[0] > 1 && counts.iter().all(|count| *count == counts[0]),
        "{counts:?}"
    );
}

/// [D-36] a reply of up to 1 KiB, an error and any other route's reply are plain.
#[tokio::test]
async fn what_is_small_or_no_records_is_plain() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.write(&user, "t", &[b"small"]);
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["t"]).await;
    let reply = service.soon(fetch(&reader, "gzip, zstd")).await;
    assert_eq!(plain(&reply).0, None);
    let headers = [("Accept-Encoding", "gzip, zstd")];
    let path = format!("{}/assignments", reader.path);
    let reply = user.send("GET", &path, &headers, "").await.expect(200);
    assert_eq!(reply.header("content-encoding"), None);
}

/// [D-36] [RP-02] [RP-04] one record over the limit is compressed while it is sent, in chunks; a reply that is cut is
/// fetched again.
#[tokio::test]
async fn a_reply_in_chunks_is_compressed_and_cut_it_comes_again() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    // Not to be made much smaller: more than the kernel takes of a reply that nobody reads.
    let mut state = 1_u32;
    let value: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_le_bytes()[3]
    })
    .take(7_000_000)
    .collect();
    service.write(&user, "t", &[&value]);
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["t"]).await;
    let path = format!("{}/records?timeout=30000", reader.path);
    for encodings in ["gzip", "zstd"] {
        let mut left = user.connect().await;
        left.send(&user.head(
            "GET",
            &path,
            &[("Accept", reader.accept), ("Accept-Encoding", encodings)],
            "",
        ))
        .await;
        left.stream.readable().await.unwrap();
        drop(left);
        let reply = service
            .soon(async {
                loop {
                    let headers = [("Accept", reader.accept), ("Accept-Encoding", encodings)];
                    let reply = reader.user.send("GET", &path, &headers, "").await;
                    if reply.status == 200 {
                        break reply;
                    }
                }
            })
            .await;
        assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
        let (encoding, records) = plain(&reply);
        assert_eq!(encoding, Some(encodings));
        assert_eq!(place(&records[0]).1, 0);
        assert_eq!(
            records[0]["value"].as_str().unwrap().len(),
            value.len().div_ceil(3) * 4
        );
        reader.seek("t", 0).await;
    }
}

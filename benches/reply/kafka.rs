//! A client of Kafka that asks for the first records of a topic, and no more.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use anyhow::{Result, ensure};
use bytes::BytesMut;
use kafka_protocol::{
    messages::{
        ApiKey, FetchRequest, FetchResponse, RequestHeader, TopicName,
        fetch_request::{FetchPartition, FetchTopic},
    },
    protocol::{Decodable as _, Encodable as _, StrBytes},
};
use octopus_benches::{stand::full_name, system::now};
use octopus_core::limits::FETCH_BYTES;

/// The last version that names topics, and whose header has no tags.
const VERSION: i16 = 11;

/// A connection to the broker.
pub(crate) struct Reader {
    stream: TcpStream,
}

impl Reader {
    pub(crate) fn connect(kafka: &str) -> Result<Self> {
        let stream = TcpStream::connect(kafka)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream })
    }

    /// How long the first byte of the answer takes. It has records.
    pub(crate) fn fetch_first(&mut self, topic: &str) -> Result<Duration> {
        let request = request(&full_name(topic))?;
        let start = now();
        self.stream.write_all(&request)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length[..1])?;
        let taken = start.elapsed();
        self.stream.read_exact(&mut length[1..])?;
        let mut answer = vec![0; usize::try_from(u32::from_be_bytes(length))?];
        self.stream.read_exact(&mut answer)?;
        // Behind the number of the request.
        let response = FetchResponse::decode(&mut &answer[4..], VERSION)?;
        let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
        let records = partitions.filter_map(|partition| partition.records.as_ref());
        ensure!(
            records.map(|records| records.len()).sum::<usize>() > 0,
            "no records"
        );
        Ok(taken)
    }
}

fn request(topic: &str) -> Result<Vec<u8>> {
    let mut header = RequestHeader::default();
    header.request_api_key = ApiKey::Fetch as i16;
    header.request_api_version = VERSION;
    header.client_id = Some(StrBytes::from_static_str("octopus-benches"));
    let mut partition = FetchPartition::default();
    partition.partition_max_bytes = FETCH_BYTES;
    let mut wanted = FetchTopic::default();
    wanted.topic = TopicName(StrBytes::from_string(topic.to_owned()));
    wanted.partitions.push(partition);
    let mut fetch = FetchRequest::default();
    fetch.max_wait_ms = 500;
    fetch.min_bytes = 1;
    fetch.max_bytes = FETCH_BYTES;
    fetch.session_epoch = -1;
    fetch.topics.push(wanted);
    let mut body = BytesMut::new();
    header.encode(&mut body, ApiKey::Fetch.request_header_version(VERSION))?;
    fetch.encode(&mut body, VERSION)?;
    let mut request = u32::try_from(body.len())?.to_be_bytes().to_vec();
    request.extend_from_slice(&body);
    Ok(request)
}

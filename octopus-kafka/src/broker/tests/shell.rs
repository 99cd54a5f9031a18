//! The broker behind a socket.

use std::io;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::*;

pub(super) async fn talk(stream: &mut TcpStream, version: i16, request: &Request) -> io::Result<Response> {
    let api = request.api();
    let frame = frame(api, version, 3, &request.encode(version).unwrap());
    say(stream, &frame).await?;
    hear(stream, api, version).await
}

async fn say(stream: &mut TcpStream, frame: &[u8]) -> io::Result<()> {
    let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length, frame].concat()).await
}

async fn hear(stream: &mut TcpStream, api: ApiKey, version: i16) -> io::Result<Response> {
    let length = stream.read_u32().await?;
    let mut answer = vec![0; length as usize];
    stream.read_exact(&mut answer).await?;
    let mut answer = Bytes::from(answer);
    ResponseHeader::decode(&mut answer, api.response_header_version(version)).unwrap();
    Ok(Response::decode(api, version, &mut answer).unwrap())
}

#[tokio::test]
async fn a_hundred_brokers_serve_in_one_process_and_end() {
    let mut brokers = Vec::new();
    for _ in 0..100 {
        let broker = Broker::start(Config::default()).await.unwrap();
        assert!(broker.create_topic("t"));
        brokers.push(broker);
    }
    for broker in brokers {
        let mut stream = TcpStream::connect(broker.addr()).await.unwrap();
        let records = batch(&[b"x"], 5);
        let response = talk(&mut stream, 9, &produce("t", &records)).await.unwrap();
        assert_eq!(produced(&response), (0, 0));
        let response = talk(&mut stream, 12, &Request::Fetch(fetch(&["t"], 0, 0))).await;
        assert_eq!(fetched(&response.unwrap()), (0, 1, records.len()));
        assert_eq!(broker.requests().len(), 2);
        let addr = broker.addr();
        broker.shutdown().await;
        assert_eq!(
            stream.read_u8().await.unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert!(TcpStream::connect(addr).await.is_err());
    }
}

#[tokio::test]
async fn a_waiting_fetch_hears_of_an_append_and_a_pipelined_request_waits_its_turn() {
    let broker = Broker::start(Config::default()).await.unwrap();
    broker.create_topic("t");
    let mut stream = TcpStream::connect(broker.addr()).await.unwrap();
    let asked = Request::Fetch(fetch(&["t"], 0, 60_000));
    for (api, request) in [(ApiKey::Fetch, asked), (ApiKey::Metadata, metadata("t", false))] {
        let version = if api == ApiKey::Fetch { 12 } else { 9 };
        let frame = frame(api, version, 3, &request.encode(version).unwrap());
        say(&mut stream, &frame).await.unwrap();
    }
    while broker.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(broker.append("t", batch(&[b"x"], 5)), Some(0));
    let response = hear(&mut stream, ApiKey::Fetch, 12).await.unwrap();
    assert_eq!(fetched(&response), (0, 1, batch(&[b"x"], 5).len()));
    hear(&mut stream, ApiKey::Metadata, 9).await.unwrap();
    let apis: Vec<ApiKey> = broker.requests().iter().map(|request| request.api).collect();
    assert_eq!(apis, [ApiKey::Fetch, ApiKey::Metadata]);
}

#[tokio::test]
async fn a_fetch_ends_with_its_wait_by_the_clock() {
    let broker = Broker::start(Config::default()).await.unwrap();
    broker.create_topic("t");
    let mut stream = TcpStream::connect(broker.addr()).await.unwrap();
    let before = tokio::time::Instant::now();
    let response = talk(&mut stream, 12, &Request::Fetch(fetch(&["t"], 0, 40))).await;
    assert_eq!(fetched(&response.unwrap()), (0, 0, 0));
    assert!(before.elapsed() >= Duration::from_millis(40));
}

#[tokio::test]
async fn a_length_that_is_no_frames_closes_the_connection() {
    let broker = Broker::start(Config::default()).await.unwrap();
    for length in [-1, i32::MIN, i32::MAX, (32 << 20) + 1, 0, 7] {
        let mut stream = TcpStream::connect(broker.addr()).await.unwrap();
        stream.write_i32(length).await.unwrap();
        stream.write_all(&[0; 7]).await.unwrap();
        let answer = stream.read_u8().await;
        assert!(answer.is_err(), "{length}");
    }
}

#[tokio::test]
async fn versions_can_be_taken_away() {
    let broker = Broker::start(Config::default()).await.unwrap();
    broker.set_versions(ApiKey::Metadata, 4..=8);
    let mut stream = TcpStream::connect(broker.addr()).await.unwrap();
    let hello = Request::ApiVersions(ApiVersionsRequest::default());
    let Response::ApiVersions(response) = talk(&mut stream, 0, &hello).await.unwrap() else {
        unreachable!();
    };
    let range = response.api_keys.iter().find(|range| range.api_key == 3).unwrap();
    assert_eq!((range.min_version, range.max_version), (4, 8));
    assert!(talk(&mut stream, 9, &metadata("t", false)).await.is_err());
}

#[tokio::test]
async fn a_test_sees_and_sets_what_the_broker_holds() {
    let broker = Broker::start(Config::default()).await.unwrap();
    assert!(broker.create_topic("t") && !broker.create_topic("t") && !broker.create_topic(""));
    assert_eq!(broker.append("t", batch(&[b"a", b"b"], 5)), Some(0));
    assert_eq!(broker.append("t", batch(&[b"c"], 5)), Some(2));
    assert_eq!(broker.append("missing", batch(&[b"c"], 5)), None);
    assert_eq!(broker.end_offset("t"), Some(3));
    assert_eq!(broker.delete_records_before("t", 2), Some(2));
    assert_eq!(broker.delete_records_before("t", 9), None);
    broker.commit("g", "t", 3);
    assert_eq!(broker.committed("g", "t"), Some(3));
    assert!(broker.delete_topic("t") && !broker.delete_topic("t"));
    assert_eq!(
        broker.committed("g", "t"),
        None,
        "what was committed goes with its topic"
    );
    assert_eq!(broker.group_members("g"), []);
}

#[tokio::test]
async fn a_broker_goes_on_with_its_folder_and_lets_nobody_else_have_it() {
    let data = tempfile::tempdir().unwrap();
    let config = Config {
        data: Some(data.path().to_owned()),
        ..Config::default()
    };
    let records = batch(&[b"x"], 5);
    for end in 0..3 {
        let broker = Broker::start(config.clone()).await.unwrap();
        let second = Broker::start(config.clone()).await.unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(broker.create_topic("t"), end == 0);
        assert_eq!(broker.end_offset("t"), Some(end));
        assert_eq!(broker.committed("g", "t"), (end > 0).then_some(end));
        let mut stream = TcpStream::connect(broker.addr()).await.unwrap();
        let response = talk(&mut stream, 9, &produce("t", &records)).await.unwrap();
        assert_eq!(produced(&response), (0, end));
        broker.commit("g", "t", end + 1);
        assert_eq!(
            broker.append("t", b"no batch"),
            None,
            "it could not be found again"
        );
        let response = talk(&mut stream, 12, &Request::Fetch(fetch(&["t"], end, 0))).await;
        assert_eq!(fetched(&response.unwrap()), (0, end + 1, records.len()));
        broker.shutdown().await;
    }
}

#[tokio::test]
async fn an_observer_is_told_of_each_request_as_it_comes() {
    let config = Config {
        requests_kept: 0,
        ..Config::default()
    };
    let broker = Broker::start(config).await.unwrap();
    let (told, mut seen) = tokio::sync::mpsc::unbounded_channel();
    broker.observe(move |api, connection, client_id| _ = told.send((api, connection, client_id.to_owned())));
    let mut one = TcpStream::connect(broker.addr()).await.unwrap();
    let mut two = TcpStream::connect(broker.addr()).await.unwrap();
    let hello = Request::ApiVersions(ApiVersionsRequest::default());
    let metadata = Request::Metadata(MetadataRequest::default());
    talk(&mut one, 3, &hello).await.unwrap();
    talk(&mut two, 3, &hello).await.unwrap();
    talk(&mut one, 9, &metadata).await.unwrap();
    let seen: Vec<_> = std::iter::from_fn(|| seen.try_recv().ok()).collect();
    let apis: Vec<_> = seen.iter().map(|(api, ..)| *api).collect();
    assert_eq!(apis, [ApiKey::ApiVersions, ApiKey::ApiVersions, ApiKey::Metadata]);
    assert_eq!(seen[0].1, seen[2].1);
    assert_ne!(seen[0].1, seen[1].1);
    assert!(
        seen.iter().all(|(.., client_id)| client_id == "tester"),
        "{seen:?}"
    );
}

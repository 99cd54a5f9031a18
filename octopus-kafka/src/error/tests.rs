use octopus_core::Error as Shown;

use super::*;

/// Every API, which the compiler keeps complete.
fn apis() -> Vec<Api> {
    let mut apis = vec![Api::AlterUserScramCredentials];
    while let Some(next) = apis.last().and_then(|api| after(*api)) {
        apis.push(next);
    }
    apis
}

const fn after(api: Api) -> Option<Api> {
    match api {
        Api::AlterUserScramCredentials => Some(Api::ApiVersions),
        Api::ApiVersions => Some(Api::ConsumerGroupHeartbeat),
        Api::ConsumerGroupHeartbeat => Some(Api::CreateAcls),
        Api::CreateAcls => Some(Api::CreateTopics),
        Api::CreateTopics => Some(Api::DeleteAcls),
        Api::DeleteAcls => Some(Api::DeleteTopics),
        Api::DeleteTopics => Some(Api::Fetch),
        Api::Fetch => Some(Api::FindCoordinator),
        Api::FindCoordinator => Some(Api::Heartbeat),
        Api::Heartbeat => Some(Api::InitProducerId),
        Api::InitProducerId => Some(Api::JoinGroup),
        Api::JoinGroup => Some(Api::LeaveGroup),
        Api::LeaveGroup => Some(Api::ListOffsets),
        Api::ListOffsets => Some(Api::Metadata),
        Api::Metadata => Some(Api::OffsetCommit),
        Api::OffsetCommit => Some(Api::OffsetFetch),
        Api::OffsetFetch => Some(Api::OffsetForLeaderEpoch),
        Api::OffsetForLeaderEpoch => Some(Api::Produce),
        Api::Produce => Some(Api::SyncGroup),
        Api::SyncGroup => None,
    }
}

fn shown(error: Error) -> String {
    let code = Shown::from(error).code();
    format!("{}/{}", code.status(), code.error_code())
}

/// [ER-01] [ER-02] [ER-03] [ER-04] [ER-05] [ER-06] [ER-07] [D-33] [D-34] every code in answer to every request is shown
/// as its row says.
#[test]
fn each_code_of_kafka_has_its_row_whatever_was_asked() {
    let mut codes = Vec::new();
    let rows = include_str!("rows.txt").lines();
    for row in rows.filter(|row| !row.starts_with('#')) {
        let mut words: Vec<_> = row.split_whitespace().collect();
        let name = words.pop().unwrap().replace('_', "");
        let code: i16 = words[0].parse().unwrap();
        codes.push(code);
        let known = ResponseError::try_from_code(code).unwrap();
        assert_eq!(format!("{known:?}").to_uppercase(), name);
        for api in apis() {
            let row = match (api, &words[1..]) {
                (Api::OffsetCommit, [_, of_commit]) if !of_commit.starts_with("produce:") => of_commit,
                (Api::Produce, [_, of_a_record]) => of_a_record.strip_prefix("produce:").unwrap_or(words[1]),
                (_, [all, ..]) => all,
                (_, []) => panic!("{row}"),
            };
            assert_eq!(shown(Error::response(api, known)), row, "{api:?} {known:?}");
        }
    }
    let all: Vec<i16> = (-1..=133).filter(|code| *code != 0).collect();
    assert_eq!(codes, all, "the table is whole");
}

/// [ER-05] a code of a later Kafka.
#[test]
fn a_code_that_is_not_known_is_a_failure() {
    for code in [134, 999, i16::MAX, -2, i16::MIN] {
        let code = ResponseError::try_from_code(code).unwrap();
        assert_eq!(shown(Error::response(Api::OffsetCommit, code)), "500/50002");
    }
}

/// [ER-01] [ER-05] [ER-06] [ER-07] what went wrong without an answer's code.
#[test]
fn what_is_no_code_of_kafka_has_its_row_too() {
    let closed = |sent| Kind::Closed {
        sent,
        why: "it ended".into(),
    };
    for api in apis() {
        for (kind, row) in [
            (Kind::Unreachable("a:1: refused".into()), "503/50302"),
            (Kind::Timeout, "500/50003"),
            (closed(true), "500/50003"),
            (closed(false), "500/50003"),
            (Kind::Malformed, "500/50002"),
            (Kind::SignIn("a:1: the password is refused".into()), "500/50002"),
            (Kind::Unsupported, "400/40002"),
            (Kind::InvalidTopic, "400/40002"),
            (Kind::Full, "429/42901"),
        ] {
            assert_eq!(shown(Error::new(api, kind.clone())), row, "{api:?} {kind:?}");
        }
    }
}

/// [ER-02] [ER-05] nothing that the log is told of reaches a caller.
#[test]
fn a_callers_message_tells_nothing_of_the_cluster() {
    let error = Error::new(
        Api::Fetch,
        Kind::Unreachable("kafka-7.inside:9092: refused".into()),
    );
    assert!(
        error
            .to_string()
            .contains("Fetch: no connection to kafka-7.inside:9092")
    );
    assert!(!Shown::from(error).to_string().contains("inside"));
}

#[test]
fn each_api_is_found_by_its_key() {
    let keys = apis().into_iter().map(|api| (Api::of(key(api)), api));
    assert!(keys.into_iter().all(|(found, api)| found == api));
}

fn key(api: Api) -> i16 {
    let (key, _) = (-1..100)
        .filter_map(|key| Some((key, kafka_protocol::messages::ApiKey::try_from(key).ok()?)))
        .find(|(_, known)| format!("{known:?}") == format!("{api:?}"))
        .unwrap();
    key
}

//! Replays the committed corpora on any toolchain.

use std::{fs, path::Path};

use octopus_kafka::testing::reads;

#[test]
fn every_input_of_the_decompress_corpus_holds() {
    replay("decompress", octopus_fuzz::decompress::check);
}

#[test]
fn every_input_of_the_engine_corpus_holds() {
    replay("engine", octopus_fuzz::engine::check);
}

#[test]
fn every_input_of_the_frame_corpus_holds() {
    replay("frame", octopus_fuzz::frame::check);
}

/// What is cut short in a way that no reader notices would be fuzzed as a refusal only.
#[test]
fn every_answer_of_the_frame_corpus_is_read_unless_it_is_hostile() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora/frame");
    for entry in fs::read_dir(folder).expect("the target's corpus") {
        let file = entry.expect("a file");
        let answer = fs::read(file.path()).expect("a readable file");
        let [key, version, frame @ ..] = &answer[..] else {
            panic!("a key, a version and an answer")
        };
        let name = file.file_name().into_string().expect("a name of letters");
        let is_read = reads(i16::from(*key), i16::from(*version), frame.to_vec().into());
        assert_eq!(is_read, !name.starts_with("hostile"), "{name}");
    }
}

#[test]
fn every_input_of_the_group_corpus_holds() {
    replay("group", octopus_fuzz::group::check);
}

#[test]
fn every_input_of_the_json_corpus_holds() {
    replay("json", octopus_fuzz::json::check);
}

#[test]
fn every_input_of_the_parse_corpus_holds() {
    replay("parse", octopus_fuzz::parse::check);
}

#[test]
fn every_input_of_the_produce_corpus_holds() {
    replay("produce", octopus_fuzz::produce::check);
}

#[test]
fn every_input_of_the_records_corpus_holds() {
    replay("records", octopus_fuzz::records::check);
}

#[test]
fn every_input_of_the_reply_corpus_holds() {
    replay("reply", octopus_fuzz::reply::check);
}

#[test]
fn every_input_of_the_sasl_corpus_holds() {
    replay("sasl", octopus_fuzz::sasl::check);
}

#[test]
fn every_input_of_the_text_corpus_holds() {
    replay("text", octopus_fuzz::text::check);
}

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora").join(target);
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the target's corpus") {
        check(&fs::read(entry.expect("a file").path()).expect("a readable file"));
        count += 1;
    }
    assert!(count > 0, "{target} has a corpus");
}

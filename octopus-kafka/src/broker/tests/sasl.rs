//! Signing in, and doing so again.

use kafka_protocol::messages::{SaslAuthenticateResponse, SaslHandshakeResponse};
use tokio::{io::AsyncReadExt as _, net::TcpStream};

use super::{shell::talk, *};
use crate::{
    Cluster,
    broker::{Mechanism, Users},
    security::{Login, Sasl, Security},
};

/// A broker with one user, whose sessions last ten seconds.
fn guarded() -> Config {
    Config {
        users: Users::from_iter([("ann", "secret"), ("bob", "other")]),
        max_session: Some(Duration::from_secs(10)),
        ..Config::default()
    }
}

fn handshake(mechanism: &str) -> Request {
    Request::SaslHandshake(SaslHandshakeRequest::default().with_mechanism(text(mechanism)))
}

fn message(bytes: &[u8]) -> Request {
    Request::SaslAuthenticate(
        SaslAuthenticateRequest::default().with_auth_bytes(Bytes::copy_from_slice(bytes)),
    )
}

fn shaken(response: Response) -> SaslHandshakeResponse {
    let Response::SaslHandshake(response) = response else {
        panic!("{response:?}");
    };
    response
}

fn authenticated(response: Response) -> SaslAuthenticateResponse {
    let Response::SaslAuthenticate(response) = response else {
        panic!("{response:?}");
    };
    response
}

impl World {
    fn sign_in(&mut self, id: ConnectionId, plain: &[u8]) -> SaslAuthenticateResponse {
        assert_eq!(shaken(self.ask(id, 1, &handshake("PLAIN"))).error_code, 0);
        authenticated(self.ask(id, 2, &message(plain)))
    }
}

/// The answer of a connection that is closed behind it.
fn last_answer(outputs: &[Output], id: ConnectionId, request: &Request, version: i16) -> Response {
    assert_eq!(outputs.len(), 2, "{outputs:?}");
    assert_eq!(outputs[1], Output::Close(id));
    answer_in(outputs, id, request.api(), version).unwrap().1
}

#[test]
fn before_it_has_signed_in_a_connection_may_only_do_so() {
    let mut world = World::with(&guarded());
    world.topic("t");
    for (version, request) in [
        (9, metadata("t", false)),
        (9, produce("t", &batch(&[b"x"], 5))),
        (2, message(b"\0ann\0secret")),
    ] {
        let id = world.connect();
        assert_eq!(world.send(id, version, &request), [Output::Close(id)]);
    }
    assert_eq!(world.machine.topics.log("t", 0).unwrap().end(), 0);
    let id = world.connect();
    world.ask(id, 0, &Request::ApiVersions(ApiVersionsRequest::default()));
    let signed_in = world.sign_in(id, b"\0ann\0secret");
    assert_eq!((signed_in.error_code, signed_in.session_lifetime_ms), (0, 10_000));
    world.ask(id, 9, &metadata("t", false));
    assert_eq!(
        produced(&world.ask(id, 9, &produce("t", &batch(&[b"x"], 5)))),
        (0, 0)
    );
    let other = world.connect();
    assert_eq!(
        world.send(other, 9, &metadata("t", false)),
        [Output::Close(other)],
        "one connection's sign-in is not another's"
    );
}

#[test]
fn a_wrong_sign_in_is_answered_and_its_connection_closed() {
    for plain in [
        &b"\0ann\0wrong"[..],
        b"\0ann\0",
        b"\0eve\0secret",
        b"bob\0ann\0secret",
        b"\0ann\0secret\0",
        b"ann",
        b"",
        b"\0\xff\0secret",
    ] {
        let mut world = World::with(&guarded());
        let id = world.connect();
        world.ask(id, 1, &handshake("PLAIN"));
        let request = message(plain);
        let outputs = world.send(id, 2, &request);
        let response = authenticated(last_answer(&outputs, id, &request, 2));
        assert_eq!(response.error_code, code::SASL_AUTHENTICATION_FAILED, "{plain:?}");
        assert!(
            response
                .error_message
                .is_some_and(|text| !text.contains("secret"))
        );
    }
}

#[test]
fn a_mechanism_that_is_not_offered_is_refused_with_those_that_are() {
    let mut world = World::with(&Config {
        mechanisms: vec![Mechanism::ScramSha512],
        ..guarded()
    });
    let id = world.connect();
    let request = handshake("PLAIN");
    let outputs = world.send(id, 1, &request);
    let response = shaken(last_answer(&outputs, id, &request, 1));
    assert_eq!(response.error_code, code::UNSUPPORTED_SASL_MECHANISM);
    assert_eq!(response.mechanisms, [text("SCRAM-SHA-512")]);
}

#[test]
fn a_broker_without_users_has_nothing_to_sign_in_to() {
    let mut world = World::new();
    let id = world.connect();
    let shaken = shaken(world.ask(id, 1, &handshake("PLAIN")));
    assert_eq!(shaken.error_code, code::ILLEGAL_SASL_STATE);
    let refused = authenticated(world.ask(id, 1, &message(b"\0ann\0secret")));
    assert_eq!(refused.error_code, code::ILLEGAL_SASL_STATE);
}

#[test]
fn a_session_ends_unless_it_is_signed_in_to_again() {
    let mut world = World::with(&guarded());
    world.topic("t");
    let id = world.connect();
    world.sign_in(id, b"\0ann\0secret");
    world.wait(Duration::from_millis(9999));
    world.ask(id, 9, &metadata("t", false));
    assert_eq!(world.sign_in(id, b"\0ann\0secret").session_lifetime_ms, 10_000);
    world.wait(Duration::from_secs(9));
    world.ask(id, 9, &metadata("t", false));
    world.wait(Duration::from_secs(1));
    // It is over, and only a sign-in helps.
    world.sign_in(id, b"\0ann\0secret");
    world.ask(id, 9, &metadata("t", false));
    world.wait(Duration::from_secs(10));
    assert_eq!(world.send(id, 9, &metadata("t", false)), [Output::Close(id)]);
}

#[test]
fn while_it_signs_in_again_a_connection_does_nothing_else() {
    let mut world = World::with(&guarded());
    let id = world.connect();
    world.sign_in(id, b"\0ann\0secret");
    world.ask(id, 1, &handshake("PLAIN"));
    assert_eq!(world.send(id, 9, &metadata("t", false)), [Output::Close(id)]);
}

#[test]
fn a_session_goes_on_as_who_began_it_and_by_the_same_mechanism() {
    let mut world = World::with(&guarded());
    let id = world.connect();
    world.sign_in(id, b"\0ann\0secret");
    let other = shaken(world.ask(id, 1, &handshake("SCRAM-SHA-256")));
    assert_eq!(other.error_code, code::ILLEGAL_SASL_STATE);
    world.ask(id, 1, &handshake("PLAIN"));
    let request = message(b"\0bob\0other");
    let outputs = world.send(id, 2, &request);
    let response = authenticated(last_answer(&outputs, id, &request, 2));
    assert_eq!(response.error_code, code::SASL_AUTHENTICATION_FAILED);
}

#[test]
fn a_user_who_is_taken_away_stays_until_the_session_ends() {
    let mut world = World::with(&guarded());
    let id = world.connect();
    world.sign_in(id, b"\0ann\0secret");
    world.machine.gate.set_user("ann", None);
    world.machine.gate.set_user("bob", Some("changed"));
    world.ask(id, 9, &metadata("t", false));
    world.ask(id, 1, &handshake("PLAIN"));
    let request = message(b"\0ann\0secret");
    let outputs = world.send(id, 2, &request);
    last_answer(&outputs, id, &request, 2);
    let id = world.connect();
    assert_eq!(world.sign_in(id, b"\0bob\0changed").error_code, 0);
}

#[test]
fn a_client_from_before_sasl_authenticate_sends_its_messages_bare() {
    let mut world = World::with(&guarded());
    world.topic("t");
    let mut bare = |message: &'static [u8]| {
        let id = world.connect();
        assert_eq!(shaken(world.ask(id, 0, &handshake("PLAIN"))).error_code, 0);
        world
            .machine
            .handle_frame(id, Bytes::from_static(message), world.now);
        (id, world.outputs())
    };
    let (id, outputs) = bare(b"\0ann\0wrong");
    assert_eq!(outputs, [Output::Close(id)]);
    let (id, outputs) = bare(b"\0ann\0secret");
    assert_eq!(
        outputs,
        [Output::Send(id, Bytes::from_static(&[0; 4])), Output::Ready(id)]
    );
    world.ask(id, 9, &metadata("t", false));
}

#[test]
fn what_a_test_sees_of_a_sign_in_has_no_secrets() {
    let mut world = World::with(&guarded());
    let id = world.connect();
    world.sign_in(id, b"\0ann\0secret");
    let seen = format!("{:?} {:?}", world.machine.requests, world.machine);
    assert!(
        seen.contains("SaslAuthenticate") && !seen.contains("secret"),
        "{seen}"
    );
}

/// The product's own client, which knows nothing of this side.
#[tokio::test]
async fn every_mechanism_signs_in_over_a_socket_and_only_with_the_right_password() {
    let within = Duration::from_secs(20);
    let mechanisms: [fn(Login) -> Sasl; 3] = [Sasl::Plain, Sasl::ScramSha256, Sasl::ScramSha512];
    let broker = Broker::start(guarded()).await.unwrap();
    for (index, mechanism) in mechanisms.into_iter().enumerate() {
        let cluster = |password: &str| {
            let mut config = crate::Config::new(vec![broker.addr().to_string()]);
            let login = Login {
                username: "ann".to_owned(),
                password: password.into(),
            };
            config.security = Security::new(None, Some(mechanism(login)));
            Cluster::new(config)
        };
        let topic = format!("t{index}");
        cluster("wrong")
            .create_topic(&topic, Duration::from_secs(2))
            .await
            .unwrap_err();
        assert_eq!(broker.end_offset(&topic), None);
        cluster("secret").create_topic(&topic, within).await.unwrap();
        assert_eq!(broker.end_offset(&topic), Some(0));
    }
}

#[test]
fn a_proof_that_proves_nothing_closes_the_connection() {
    let mut world = World::with(&guarded());
    let id = world.connect();
    world.ask(id, 1, &handshake("SCRAM-SHA-256"));
    let challenged = authenticated(world.ask(id, 2, &message(b"n,,n=ann,r=abc")));
    let challenge = String::from_utf8(challenged.auth_bytes.to_vec()).unwrap();
    let (nonce, _) = challenge.split_once(',').unwrap();
    assert!(nonce.starts_with("r=abc") && nonce.len() > 20, "{challenge}");
    let request = message(format!("c=biws,{nonce},p={}=", "A".repeat(43)).as_bytes());
    let outputs = world.send(id, 2, &request);
    let response = authenticated(last_answer(&outputs, id, &request, 2));
    assert_eq!(response.error_code, code::SASL_AUTHENTICATION_FAILED);
}

#[tokio::test]
async fn a_wrong_password_is_told_over_a_socket_before_it_is_closed() {
    let broker = Broker::start(guarded()).await.unwrap();
    let mut stream = TcpStream::connect(broker.addr()).await.unwrap();
    talk(&mut stream, 1, &handshake("PLAIN")).await.unwrap();
    let response = talk(&mut stream, 2, &message(b"\0ann\0wrong")).await.unwrap();
    assert_eq!(
        authenticated(response).error_code,
        code::SASL_AUTHENTICATION_FAILED
    );
    assert!(stream.read_u8().await.is_err(), "it is closed");
    let mut stream = TcpStream::connect(broker.addr()).await.unwrap();
    talk(&mut stream, 1, &handshake("PLAIN")).await.unwrap();
    let response = talk(&mut stream, 2, &message(b"\0ann\0secret")).await.unwrap();
    assert_eq!(authenticated(response).error_code, 0);
    talk(&mut stream, 9, &metadata("t", false)).await.unwrap();
}

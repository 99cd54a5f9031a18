//! The specification's example, request by request.

use serde_json::{Value, json};

use crate::support::{
    client::{BINARY, Client, JSON, V2},
    kafka::Broker,
    server::Server,
};

/// The reply that a fetch gives once `topic` of one record is read.
async fn walk(user: &Client, format: &str, accept: &str, value: Value) {
    let group = format!("{format}-group");
    let created = user
        .post(
            &format!("/api/v2/consumers/{group}"),
            &json!({"name": "my-instance", "format": format, "auto.offset.reset": "earliest"}).to_string(),
        )
        .await
        .expect(200);
    let instance = format!("/api/v2/consumers/{group}/instances/my-instance");
    assert_eq!(created.header("content-type"), Some(V2));
    assert_eq!(
        created.json(),
        json!({"instance_id": "my-instance", "base_uri": format!("http://{}{instance}", user.address)})
    );

    let subscribed = user
        .post(&format!("{instance}/subscription"), r#"{"topics": ["my-topic"]}"#)
        .await
        .expect(204);
    assert_eq!(
        (subscribed.body.len(), subscribed.header("content-type")),
        (0, None)
    );
    let subscription = user.get(&format!("{instance}/subscription")).await.expect(200);
    assert_eq!(subscription.json(), json!({"topics": ["my-topic"]}));
    assert_eq!(
        user.get(&format!("{instance}/assignments"))
            .await
            .expect(200)
            .json(),
        json!({"partitions": []})
    );

    let mut fetched = user.fetch(&instance, "?timeout=5000", accept).await.expect(200);
    if fetched.json() == json!([]) {
        fetched = user.fetch(&instance, "?timeout=30000", accept).await.expect(200);
    }
    assert_eq!(fetched.header("content-type"), Some(accept));
    assert_eq!(
        fetched.header("content-length"),
        Some(&*fetched.body.len().to_string())
    );
    assert_eq!(
        fetched.json(),
        json!([{"topic": "my-topic", "key": null, "value": value, "partition": 0, "offset": 0,
                "headers": [{"name": "trace", "value": "AAE="}]}])
    );
    let assignments = user.get(&format!("{instance}/assignments")).await.expect(200);
    assert_eq!(
        assignments.json(),
        json!({"partitions": [{"topic": "my-topic", "partition": 0}]})
    );

    let partitions = json!({"partitions": [{"topic": "my-topic", "partition": 0}]}).to_string();
    let offsets = format!("{instance}/offsets");
    let committed = |user: Client, offsets: String, partitions: String| async move {
        user.send("GET", &offsets, &[], &partitions)
            .await
            .expect(200)
            .json()
    };
    assert_eq!(
        committed(user.clone(), offsets.clone(), partitions.clone()).await,
        json!({"offsets": []}),
        "never committed"
    );
    assert_eq!(user.post(&offsets, "").await.expect(200).json(), json!([]));
    assert_eq!(
        committed(user.clone(), offsets.clone(), partitions.clone()).await,
        json!({"offsets": [{"topic": "my-topic", "partition": 0, "offset": 1, "metadata": ""}]})
    );
    let processed =
        json!({"offsets": [{"topic": "my-topic", "partition": 0, "offset": 41, "metadata": "so far"}]})
            .to_string();
    assert_eq!(
        user.post(&offsets, &processed).await.expect(200).json(),
        json!([])
    );
    assert_eq!(
        committed(user.clone(), offsets.clone(), partitions.clone()).await,
        json!({"offsets": [{"topic": "my-topic", "partition": 0, "offset": 42, "metadata": "so far"}]})
    );

    user.post(&format!("{instance}/positions/beginning"), &partitions)
        .await
        .expect(204);
    assert_eq!(
        user.fetch_some(&instance, "?timeout=5000", accept).await[0]["offset"],
        0
    );
    user.post(&format!("{instance}/positions/end"), &partitions)
        .await
        .expect(204);
    assert_eq!(
        user.fetch(&instance, "?timeout=600", accept)
            .await
            .expect(200)
            .json(),
        json!([])
    );
    let position = json!({"offsets": [{"topic": "my-topic", "partition": 0, "offset": 0}]}).to_string();
    user.post(&format!("{instance}/positions"), &position)
        .await
        .expect(204);
    assert_eq!(
        user.fetch_some(&instance, "?timeout=5000", accept).await[0]["offset"],
        0
    );

    user.delete(&format!("{instance}/subscription")).await.expect(204);
    assert_eq!(
        user.get(&format!("{instance}/subscription"))
            .await
            .expect(200)
            .json(),
        json!({"topics": []})
    );
    assert_eq!(
        user.get(&format!("{instance}/assignments"))
            .await
            .expect(200)
            .json(),
        json!({"partitions": []})
    );
    user.delete(&instance).await.expect(204);
    assert_eq!(user.fetch(&instance, "", accept).await.error(), (404, 40403));
}

/// [RT-01] [RT-05] [BU-01] [CR-01] [SU-01] [SU-04] [CO-01] [CO-02] [CO-03] [CO-04] [SK-01] [FE-01] [LC-02]
#[tokio::test(flavor = "multi_thread")]
async fn every_route_works_as_the_specification_shows_it() {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &[]).await;
    let user = server.user(0);
    let topic = broker.topic(&user, "my-topic").await;
    broker.append(&topic, super::formats::example_record()).await;
    walk(&user, "json", JSON, json!({"step": 7, "loss": 0.31})).await;
    walk(
        &user,
        "binary",
        BINARY,
        json!("eyJzdGVwIjogNywgImxvc3MiOiAwLjMxfQ=="),
    )
    .await;
}

/// [AU-03] [CR-09] [CR-10] a second user meets neither the first one's instances nor their limits.
#[tokio::test(flavor = "multi_thread")]
async fn users_do_not_meet() {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &[]).await;
    let (first, second) = (server.user(0), server.user(1));
    for name in ["a", "b", "c", "d"] {
        first
            .post("/api/v2/consumers/g", &json!({"name": name}).to_string())
            .await
            .expect(200);
    }
    assert_eq!(
        first
            .post("/api/v2/consumers/g", r#"{"name": "a"}"#)
            .await
            .error(),
        (409, 40902)
    );
    assert_eq!(
        first
            .post("/api/v2/consumers/g", r#"{"name": "e"}"#)
            .await
            .error(),
        (429, 42901)
    );
    assert_eq!(
        second.delete("/api/v2/consumers/g/instances/a").await.error(),
        (404, 40403)
    );
    second
        .post("/api/v2/consumers/g", r#"{"name": "a"}"#)
        .await
        .expect(200);
    second.delete("/api/v2/consumers/g/instances/a").await.expect(204);
    first.delete("/api/v2/consumers/g/instances/a").await.expect(204);
    first
        .post("/api/v2/consumers/g", r#"{"name": "e"}"#)
        .await
        .expect(200);
}

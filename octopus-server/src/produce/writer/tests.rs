use std::collections::BTreeSet;

use futures_util::FutureExt as _;
use octopus_core::Subject;
use octopus_kafka::Config;
use tokio::sync::Semaphore;

use super::*;
use crate::{
    crowds::Crowds,
    route::TopicPath,
    topics::{Changed, Told},
};

/// Topics of which none is there, and whose making waits.
#[derive(Debug)]
struct Slow {
    begun: Semaphore,
    goes_on: Semaphore,
}

impl Topics for Slow {
    fn held<'a>(
        &'a self,
        _: &'a Namespace,
        _: &'a [TopicName],
        _: Duration,
    ) -> Told<'a, BTreeSet<TopicName>> {
        Box::pin(async { Ok(BTreeSet::new()) })
    }

    fn create<'a>(&'a self, _: &'a Namespace, _: &'a TopicName, _: usize, _: Duration) -> Told<'a, Changed> {
        Box::pin(async {
            self.begun.add_permits(1);
            let _ = self.goes_on.acquire().await;
            Err(Error::KafkaRetriable)
        })
    }
}

#[tokio::test]
async fn a_topic_that_is_being_made_holds_its_users_place_though_its_caller_left() {
    let slow = Arc::new(Slow {
        begun: Semaphore::new(0),
        goes_on: Semaphore::new(0),
    });
    let cluster = Cluster::new(Config::new(vec!["127.0.0.1:1".to_owned()]));
    let topics = Arc::clone(&slow) as Arc<dyn Topics>;
    let writer = Writer::new(Some((cluster, topics)), true, &Limits::default());
    let (ann, crowds) = (Subject::from_uuid(1), Crowds::new(1));
    let namespace = Namespace::of(ann);
    let route = ProduceRoute {
        path: TopicPath {
            namespace: namespace.as_str().to_owned(),
            topic: "abc".to_owned(),
        },
        is_batch: false,
    };
    let body = Bytes::from_static(br#"{"value": {"type": "JSON", "data": 1}}"#);
    let held = (writer.admission().hold(ann), crowds.enter(ann).unwrap());
    let mut left = Box::pin(writer.answer(&namespace, &route, body, held));
    assert!(left.as_mut().now_or_never().is_none());
    let _ = slow.begun.acquire().await.unwrap();
    drop(left);
    assert_eq!(crowds.enter(ann).unwrap_err(), Error::UserRequests(1));
    slow.goes_on.close();
    let goes = async {
        while crowds.enter(ann).is_err() {
            tokio::task::yield_now().await;
        }
    };
    let soon = tokio::time::timeout(Duration::from_secs(30), goes).await;
    soon.expect("the place is given back with the topic made");
}

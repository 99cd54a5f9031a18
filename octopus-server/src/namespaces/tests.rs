use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::FutureExt as _;
use octopus_core::{Namespace, Subject};
use octopus_kafka::security::Secret;
use tokio::sync::Semaphore;

use super::*;
use crate::{
    crowds::Crowds,
    keys::Users,
    topics::{Changed, Told},
};

const SOON: Duration = Duration::from_secs(30);

/// A cluster whose every step waits until it is let go on, and which tells the steps in their order.
#[derive(Debug, Clone)]
struct Steps(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    told: Mutex<Vec<String>>,
    steps: Semaphore,
    dropped: AtomicUsize,
}

impl Steps {
    fn new() -> Self {
        Self(Arc::new(Shared {
            told: Mutex::default(),
            steps: Semaphore::new(0),
            dropped: AtomicUsize::new(0),
        }))
    }

    async fn step(&self, name: &str) {
        struct Ends<'a>(&'a Steps, bool);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                if !self.1 {
                    self.0.0.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.tell(format!("{name} begins"));
        let mut ends = Ends(self, false);
        self.0.steps.acquire().await.unwrap().forget();
        ends.1 = true;
        self.tell(format!("{name} ends"));
    }

    fn tell(&self, line: String) {
        self.0.told.lock().unwrap().push(line);
    }

    fn told(&self) -> Vec<String> {
        self.0.told.lock().unwrap().clone()
    }

    /// Lets every step go on from here.
    fn go_on(&self) {
        self.0.steps.add_permits(1000);
    }
}

impl Users for Steps {
    fn grant<'a>(&'a self, _: &'a str, _: &'a Secret, _: &'a Namespace, _: Duration) -> Told<'a, ()> {
        Box::pin(async move {
            self.step("grant").await;
            Ok(())
        })
    }

    fn revoke<'a>(&'a self, _: &'a str, _: &'a Namespace, _: Duration) -> Told<'a, bool> {
        Box::pin(async move {
            self.step("revoke").await;
            Ok(true)
        })
    }

    fn endpoint(&self) -> String {
        "kafka:9092".to_owned()
    }
}

impl Topics for Steps {
    fn held<'a>(
        &'a self,
        _: &'a Namespace,
        _: &'a [TopicName],
        _: Duration,
    ) -> Told<'a, BTreeSet<TopicName>> {
        unreachable!("nobody asks")
    }

    fn list<'a>(&'a self, _: &'a Namespace, _: Duration) -> Told<'a, Option<Vec<TopicName>>> {
        Box::pin(async move {
            self.step("list").await;
            Ok(Some(Vec::new()))
        })
    }

    fn open<'a>(&'a self, _: &'a Namespace, _: Duration) -> Told<'a, ()> {
        Box::pin(async move {
            self.step("open").await;
            Ok(())
        })
    }

    fn close<'a>(&'a self, _: &'a Namespace, _: Duration) -> Told<'a, ()> {
        Box::pin(async move {
            self.step("close").await;
            Ok(())
        })
    }

    fn delete<'a>(&'a self, _: &'a Namespace, _: &'a TopicName, _: Duration) -> Told<'a, Changed> {
        Box::pin(async move {
            self.step("delete").await;
            Ok(Changed {
                is_done: true,
                topics: Vec::new(),
            })
        })
    }
}

struct World {
    steps: Steps,
    namespaces: Namespaces,
    crowds: Crowds,
}

const ANN: Subject = Subject::from_uuid(1);

impl World {
    fn new(most: usize) -> Self {
        let steps = Steps::new();
        let topics = Arc::new(steps.clone()) as Arc<dyn Topics>;
        let keys = Some(Keys::new(steps.clone()));
        Self {
            namespaces: Namespaces::new(Some(topics), keys, 50, SOON),
            steps,
            crowds: Crowds::new(most),
        }
    }

    fn ask(
        &self,
        route: NamespaceRoute,
    ) -> impl Future<Output = Result<Managed, Error>> + Send + 'static + use<> {
        let (namespaces, place) = (self.namespaces.clone(), self.crowds.enter(ANN).unwrap());
        async move { namespaces.answer(route, Caller::of(ANN), place).await }
    }

    /// Lets everything run that can.
    async fn settles(&self) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
}

fn topic(namespace: &str, topic: &str) -> TopicPath {
    TopicPath {
        namespace: namespace.to_owned(),
        topic: topic.to_owned(),
    }
}

#[tokio::test]
async fn a_key_is_made_and_deleted_by_one_at_a_time() {
    let world = World::new(9);
    let asked = [
        NamespaceRoute::CreateKey,
        NamespaceRoute::DeleteKey,
        NamespaceRoute::CreateKey,
    ]
    .map(|route| tokio::spawn(world.ask(route)));
    world.settles().await;
    assert_eq!(world.steps.told(), ["open begins"]);
    world.steps.go_on();
    for one in asked {
        one.await.unwrap().unwrap();
    }
    let made = ["open begins", "open ends", "grant begins", "grant ends"];
    let deleted = ["revoke begins", "revoke ends"];
    assert_eq!(world.steps.told(), [&made[..], &deleted, &made].concat());
}

#[tokio::test]
async fn no_key_is_made_while_its_user_is_deleted_and_none_is_left() {
    let world = World::new(9);
    let deleting = tokio::spawn(world.ask(NamespaceRoute::DeleteUser));
    world.settles().await;
    let making = tokio::spawn(world.ask(NamespaceRoute::CreateKey));
    world.settles().await;
    assert_eq!(world.steps.told(), ["revoke begins"]);
    world.steps.go_on();
    deleting.await.unwrap().unwrap();
    making.await.unwrap().unwrap();
    let ended: Vec<_> = world.steps.told();
    let ended: Vec<_> = ended
        .iter()
        .filter_map(|line| line.strip_suffix(" ends"))
        .collect();
    assert_eq!(ended, ["revoke", "close", "revoke", "open", "grant"]);
}

#[tokio::test]
async fn a_change_holds_its_users_place_though_its_caller_left() {
    let world = World::new(1);
    let mut left = Box::pin(world.ask(NamespaceRoute::DeleteUser));
    assert!(left.as_mut().now_or_never().is_none());
    drop(left);
    world.settles().await;
    assert_eq!(world.crowds.enter(ANN).unwrap_err(), Error::UserRequests(1));
    world.steps.go_on();
    world.settles().await;
    assert_eq!(world.steps.told().last().map(String::as_str), Some("revoke ends"));
    assert!(world.crowds.enter(ANN).is_ok());
}

#[tokio::test]
async fn a_list_ends_where_its_caller_leaves() {
    let world = World::new(1);
    let mut left = Box::pin(world.ask(NamespaceRoute::Namespaces));
    assert!(left.as_mut().now_or_never().is_none());
    assert_eq!(world.steps.told(), ["list begins"]);
    drop(left);
    assert_eq!(world.steps.0.dropped.load(Ordering::Relaxed), 1);
    assert!(world.crowds.enter(ANN).is_ok());
}

/// [D-01]
#[tokio::test]
async fn a_change_is_refused_at_a_shutdown_behind_what_is_wrong_with_itself() {
    let world = World::new(9);
    let begun = tokio::spawn(world.ask(NamespaceRoute::CreateUser));
    world.settles().await;
    world.namespaces.close();
    let own = Namespace::of(ANN);
    let own = own.as_str();
    for (route, error) in [
        (NamespaceRoute::CreateUser, Error::ShuttingDown),
        (NamespaceRoute::DeleteUser, Error::ShuttingDown),
        (NamespaceRoute::CreateKey, Error::ShuttingDown),
        (NamespaceRoute::DeleteKey, Error::ShuttingDown),
        (
            NamespaceRoute::CreateTopic(topic(own, "abc")),
            Error::ShuttingDown,
        ),
        (
            NamespaceRoute::DeleteTopic(topic(own, "abc")),
            Error::ShuttingDown,
        ),
        (
            NamespaceRoute::RecreateTopic(topic(own, "abc")),
            Error::ShuttingDown,
        ),
        (
            NamespaceRoute::CreateTopic(topic(own, "a")),
            Error::TopicNameInvalid,
        ),
        (
            NamespaceRoute::DeleteTopic(topic("else", "abc")),
            Error::NamespaceForeign(Namespace::of(ANN)),
        ),
    ] {
        assert_eq!(world.ask(route.clone()).await, Err(error), "{route:?}");
    }
    world.steps.go_on();
    assert!(begun.await.unwrap().is_ok(), "what was begun ends");
    assert!(world.ask(NamespaceRoute::Namespaces).await.is_ok());
    world.namespaces.settle(SOON).await;
}

//! The replies below `/api/v3`, in the form that the Python SDK reads.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use octopus_core::{Namespace, Short, Subject, TopicName};
use octopus_kafka::security::Secret;
use serde::Serialize;

use super::{json, typed};
use crate::headers::PLAIN_JSON;

/// The answer to a request about users, keys, namespaces and topics that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Managed {
    /// The user and the namespace are there.
    User(Subject, Namespace),
    /// They are gone.
    UserGone(Subject, Namespace),
    /// A key was made.
    Key(Key),
    /// There is no key; whether there was one.
    KeyGone(bool),
    /// The caller's namespaces with their topics.
    Namespaces(Vec<(Namespace, Vec<TopicName>)>),
    /// A topic was made, or was there.
    Created(TopicName, Namespace, crate::topics::Changed),
    /// A topic was deleted, or was not there.
    Deleted(TopicName, Namespace, crate::topics::Changed),
    /// A topic was made anew.
    Recreated(TopicName, Namespace),
}

/// What lets the caller's own Kafka clients in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The user's name at Kafka.
    pub access_key: String,
    /// Its password.
    pub secret_key: Secret,
    /// When it was made, as RFC 3339 has it.
    pub create_date: String,
    /// Kafka's bootstrap servers.
    pub endpoint: String,
}

/// The response to it: 200 with a status, a message, and what was asked for.
#[must_use]
pub fn managed(reply: &Managed) -> Response<Bytes> {
    let body = Body::of(reply);
    let mut response = typed(json(&body), PLAIN_JSON);
    if let Managed::Key(_) = reply {
        // It can't be read back, and nobody on the way should be able to.
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

#[derive(Serialize)]
struct Body<'a> {
    status: &'static str,
    message: String,
    #[serde(flatten)]
    detail: Detail<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Detail<'a> {
    User {
        subject: String,
        namespace: &'a str,
    },
    Key {
        access_key: &'a str,
        secret_key: &'a str,
        create_date: &'a str,
        endpoint: &'a str,
        fresh: bool,
    },
    Namespaces {
        namespaces: serde_json::Map<String, serde_json::Value>,
    },
    Topics {
        topics: Vec<&'a str>,
    },
    Nothing {},
}

impl<'a> Body<'a> {
    fn of(reply: &'a Managed) -> Self {
        let (message, detail) = match reply {
            Managed::User(subject, namespace) => (
                format!("User {subject} has namespace {namespace}"),
                Detail::User {
                    subject: subject.to_string(),
                    namespace: namespace.as_str(),
                },
            ),
            Managed::UserGone(subject, namespace) => (
                format!("User {subject} and namespace {namespace} deleted, with all topics and the key"),
                Detail::Nothing {},
            ),
            Managed::Key(key) => (
                "Key created; it can't be read again, and any earlier one has ended".to_owned(),
                Detail::Key {
                    access_key: &key.access_key,
                    secret_key: key.secret_key.expose(),
                    create_date: &key.create_date,
                    endpoint: &key.endpoint,
                    fresh: true,
                },
            ),
            Managed::KeyGone(true) => ("Key deleted".to_owned(), Detail::Nothing {}),
            Managed::KeyGone(false) => ("There is no key to delete".to_owned(), Detail::Nothing {}),
            Managed::Namespaces(namespaces) => {
                let count = namespaces.len();
                let plural = if count == 1 { "" } else { "s" };
                let namespaces = namespaces.iter().map(|(namespace, topics)| {
                    let topics = topics.iter().map(TopicName::as_str).collect::<Vec<_>>();
                    (namespace.as_str().to_owned(), topics.into())
                });
                (
                    format!("Found {count} namespace{plural}"),
                    Detail::Namespaces {
                        namespaces: namespaces.collect(),
                    },
                )
            }
            Managed::Created(topic, namespace, changed) => {
                let topic = Short(topic.as_str());
                let message = if changed.is_done {
                    format!("Topic {topic} created in {namespace}")
                } else {
                    format!("Topic {topic} already exists in {namespace}")
                };
                (message, Detail::topics(&changed.topics))
            }
            Managed::Deleted(topic, namespace, changed) => {
                let topic = Short(topic.as_str());
                let message = if changed.is_done {
                    format!("Topic {topic} deleted from {namespace}")
                } else {
                    format!("Topic {topic} not found in {namespace}: there is nothing to delete")
                };
                (message, Detail::topics(&changed.topics))
            }
            Managed::Recreated(topic, namespace) => {
                let topic = Short(topic.as_str());
                (
                    format!("Topic {topic} recreated in {namespace}, without its records"),
                    Detail::Nothing {},
                )
            }
        };
        Self {
            status: "success",
            message,
            detail,
        }
    }
}

impl<'a> Detail<'a> {
    fn topics(topics: &'a [TopicName]) -> Self {
        Self::Topics {
            topics: topics.iter().map(TopicName::as_str).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::Changed;

    #[test]
    fn a_long_name_of_a_topic_is_cut_short() {
        let topic = TopicName::from(&*"t".repeat(9000));
        let namespace = Namespace::of(Subject::from_uuid(1));
        let changed = |is_done| Changed {
            is_done,
            topics: Vec::new(),
        };
        for reply in [
            Managed::Created(topic.clone(), namespace.clone(), changed(true)),
            Managed::Created(topic.clone(), namespace.clone(), changed(false)),
            Managed::Deleted(topic.clone(), namespace.clone(), changed(true)),
            Managed::Deleted(topic.clone(), namespace.clone(), changed(false)),
            Managed::Recreated(topic, namespace),
        ] {
            let body = managed(&reply).into_body();
            let text = std::str::from_utf8(&body).unwrap();
            assert!(text.len() < 300, "{}", text.len());
            assert!(text.contains(&format!("Topic {}… ", "t".repeat(64))), "{text}");
        }
    }
}

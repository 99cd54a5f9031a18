//! The routes of users, keys, namespaces and topics, as the Python SDK calls them.

use http::Method;

use super::NoRoute;

/// A route below `/api/v3`. The segments of its path are percent-decoded once and otherwise as they came [D-10].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceRoute {
    /// Make the caller's user and namespace.
    CreateUser,
    /// Delete them, with all that they hold.
    DeleteUser,
    /// Make a key for the caller's own Kafka clients, in place of an earlier one.
    CreateKey,
    /// Delete it.
    DeleteKey,
    /// List the caller's namespaces and their topics.
    Namespaces,
    /// Make a topic.
    CreateTopic(TopicPath),
    /// Delete it.
    DeleteTopic(TopicPath),
    /// Delete it and make it anew, without its records.
    RecreateTopic(TopicPath),
}

/// The topic that a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPath {
    /// The namespace, which may be another's or none.
    pub namespace: String,
    /// The topic, which may be none.
    pub topic: String,
}

impl NamespaceRoute {
    /// The route of what follows `/api/v3`.
    pub(super) fn of(method: &Method, rest: &[&str]) -> Result<Self, NoRoute> {
        const DELETE: &str = "DELETE";
        const GET: &str = "GET";
        const POST: &str = "POST";
        const PUT: &str = "PUT";
        const BOTH: &str = "DELETE, POST";
        let path = |namespace: &str, topic: &str| TopicPath {
            namespace: namespace.to_owned(),
            topic: topic.to_owned(),
        };
        let (route, allow) = match (rest, method.as_str()) {
            (["user"], POST) => (Some(Self::CreateUser), BOTH),
            (["user"], DELETE) => (Some(Self::DeleteUser), BOTH),
            (["key"], POST) => (Some(Self::CreateKey), BOTH),
            (["key"], DELETE) => (Some(Self::DeleteKey), BOTH),
            (["user" | "key"], _) => (None, BOTH),
            (["namespace"], GET) => (Some(Self::Namespaces), GET),
            (["namespace"], _) => (None, GET),
            ([namespace, topic], POST) => (Some(Self::CreateTopic(path(namespace, topic))), BOTH),
            ([namespace, topic], DELETE) => (Some(Self::DeleteTopic(path(namespace, topic))), BOTH),
            ([_, _], _) => (None, BOTH),
            ([namespace, topic, "recreate"], PUT) => (Some(Self::RecreateTopic(path(namespace, topic))), PUT),
            // Of the earlier consumer routes, those of the group `recreate` have this path [RT-06].
            ([_, _, "recreate"], _) => (None, PUT),
            _ => return Err(NoRoute::NotFound),
        };
        route.ok_or(NoRoute::MethodNotAllowed(allow))
    }

    /// Whether it may change something.
    #[must_use]
    pub const fn is_change(&self) -> bool {
        match self {
            Self::Namespaces => false,
            Self::CreateUser
            | Self::DeleteUser
            | Self::CreateKey
            | Self::DeleteKey
            | Self::CreateTopic(_)
            | Self::DeleteTopic(_)
            | Self::RecreateTopic(_) => true,
        }
    }

    /// A word for logs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CreateUser => "create user",
            Self::DeleteUser => "delete user",
            Self::CreateKey => "create key",
            Self::DeleteKey => "delete key",
            Self::Namespaces => "namespaces",
            Self::CreateTopic(_) => "create topic",
            Self::DeleteTopic(_) => "delete topic",
            Self::RecreateTopic(_) => "recreate topic",
        }
    }
}

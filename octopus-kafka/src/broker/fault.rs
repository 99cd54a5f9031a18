//! Faults on demand: what a test has the broker do wrong, and to which requests.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;

use super::{
    api::{Request, Response},
    part,
};

/// The faults of one broker. A clone is of the same broker.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    rules: Arc<Mutex<Vec<Rule>>>,
}

/// Which of the requests that a fault is for it strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Every one.
    Always,
    /// This many, from the next one on.
    First(u64),
    /// One: 1 is the next one.
    Nth(u64),
}

/// The `nth` request from here on; 1 is the next one.
#[must_use]
pub const fn nth(nth: u64) -> When {
    When::Nth(nth)
}

/// The next `count` requests.
#[must_use]
pub const fn first(count: u64) -> When {
    When::First(count)
}

/// Every request.
#[must_use]
pub const fn always() -> When {
    When::Always
}

/// A fault that has been told whom it strikes, but not what it does: one of its last methods says so.
#[derive(Debug)]
#[must_use = "a fault does nothing until it is told what to do"]
pub struct Fault {
    faults: Faults,
    api: ApiKey,
    when: When,
    client: Option<String>,
    topic: Option<String>,
}

#[derive(Debug)]
struct Rule {
    api: ApiKey,
    when: When,
    client: Option<String>,
    topic: Option<String>,
    seen: u64,
    action: Action,
}

/// What happens to a request.
#[derive(Clone)]
pub(crate) enum Action {
    Close,
    CutAfter(usize),
    Delay(Duration),
    Edit(Arc<dyn Fn(&mut Response) + Send + Sync>),
    Error(i16),
    Garbage(Bytes),
    Never,
    Throttle(Duration),
}

impl Faults {
    /// A fault for requests of this API. Of several that strike one request the first one counts.
    pub fn on(&self, api: ApiKey, when: When) -> Fault {
        Fault {
            faults: self.clone(),
            api,
            when,
            client: None,
            topic: None,
        }
    }

    /// Takes all faults back.
    pub fn clear(&self) {
        self.rules().clear();
    }

    /// What happens to this request, and the topic that it is limited to.
    pub(crate) fn strike(&self, request: &Request, client: &str) -> Option<(Action, Option<String>)> {
        let mut struck = None;
        for rule in self.rules().iter_mut() {
            let is_for = rule.api == request.api()
                && rule.client.as_deref().is_none_or(|id| id == client)
                && rule
                    .topic
                    .as_deref()
                    .is_none_or(|topic| part::names(request, topic));
            if !is_for {
                continue;
            }
            rule.seen += 1;
            let strikes = match rule.when {
                When::Always => true,
                When::First(count) => rule.seen <= count,
                When::Nth(nth) => rule.seen == nth,
            };
            if strikes && struck.is_none() {
                struck = Some((rule.action.clone(), rule.topic.clone()));
            }
        }
        struck
    }

    fn rules(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fault {
    /// Only for requests with this client id.
    pub fn client(mut self, client_id: impl Into<String>) -> Self {
        self.client = Some(client_id.into());
        self
    }

    /// Only for requests that name this topic. An error is then answered for this topic alone, and the rest
    /// of the request is carried out.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Answers with this error code where the API has it: for the request, or for each topic, partition,
    /// group or member. The request is not carried out.
    pub fn error(self, code: i16) {
        self.does(Action::Error(code));
    }

    /// Carries the request out, and answers this much later.
    pub fn delay(self, by: Duration) {
        self.does(Action::Delay(by));
    }

    /// Carries the request out, sends this many bytes of the answer's frame and closes the connection.
    pub fn cut_after(self, bytes: usize) {
        self.does(Action::CutAfter(bytes));
    }

    /// Does not carry the request out, and says nothing on this connection any more.
    pub fn never(self) {
        self.does(Action::Never);
    }

    /// Sends these bytes in place of an answer's frame. The request is not carried out.
    pub fn garbage(self, bytes: impl Into<Bytes>) {
        self.does(Action::Garbage(bytes.into()));
    }

    /// Carries the request out and answers with this throttle time, whole milliseconds; the connection's
    /// next request is read when it is over.
    pub fn throttle(self, time: Duration) {
        self.does(Action::Throttle(time));
    }

    /// Closes the connection in place of an answer. The request is not carried out.
    pub fn close(self) {
        self.does(Action::Close);
    }

    /// Carries the request out, and has `edit` change the answer before it is encoded.
    pub fn edit(self, edit: impl Fn(&mut Response) + Send + Sync + 'static) {
        self.does(Action::Edit(Arc::new(edit)));
    }

    fn does(self, action: Action) {
        let rule = Rule {
            api: self.api,
            when: self.when,
            client: self.client,
            topic: self.topic,
            seen: 0,
            action,
        };
        self.faults.rules().push(rule);
    }
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Close => f.write_str("Close"),
            Self::CutAfter(bytes) => write!(f, "CutAfter({bytes})"),
            Self::Delay(by) => write!(f, "Delay({by:?})"),
            Self::Edit(_) => f.write_str("Edit(..)"),
            Self::Error(code) => write!(f, "Error({code})"),
            Self::Garbage(bytes) => write!(f, "Garbage({} bytes)", bytes.len()),
            Self::Never => f.write_str("Never"),
            Self::Throttle(time) => write!(f, "Throttle({time:?})"),
        }
    }
}

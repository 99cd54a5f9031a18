//! The one way of a request, top to bottom: each step may refuse it, in the order of [D-01].

use std::{fmt, future, io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use octopus_auth::{Caller, TokenCheck};
use octopus_core::{
    Command, Error, InstanceKey, Name,
    limits::{BODY_BYTES, PRODUCE_BODY_BYTES},
};

use crate::{
    base_uri::{HostInvalid, Origin, Scheme},
    body::{self, Bound},
    clock::Clock,
    compress::{self, LEAST},
    crowds::{Crowds, Place},
    driver::{Answer, Delivery, Driver},
    headers::{self, Accept, Encoding, V2},
    listener::Peer,
    namespaces::Namespaces,
    parse::{self, Parsed},
    produce::Writer,
    random,
    reply::{self, Asked, Content},
    route::{NoRoute, Operation, Target},
    send::ReplyBody,
};

/// Answers requests; one for the whole service.
pub(crate) struct Service {
    pub(crate) driver: Driver,
    pub(crate) namespaces: Namespaces,
    pub(crate) writer: Writer,
    pub(crate) tokens: Arc<dyn TokenCheck>,
    pub(crate) crowds: Crowds,
    pub(crate) scheme: Scheme,
    pub(crate) max_topics: usize,
    pub(crate) clock: Arc<dyn Clock>,
    /// The longest that a request's body may take to come [D-32].
    pub(crate) body_timeout: Duration,
    /// The longest that records on their way are waited for at the shutdown.
    pub(crate) grace: Duration,
}

impl Service {
    /// The response to a request. Dropping the future says that the caller left.
    ///
    /// What a request is heard with is boxed, and gone before the engine is asked: many fetches wait there, and long.
    pub(crate) fn answer<B: Body>(
        self: Arc<Self>,
        request: Request<B>,
        peer: Peer,
    ) -> impl Future<Output = Response<ReplyBody>> {
        let heard = Box::pin(Arc::clone(&self).hear(request, peer));
        async move {
            let question = match heard.await {
                Heard::Question(question) => question,
                Heard::Answered(response) => return response,
            };
            let (asked, form, place) = self.ask(question);
            let (answer, delivery) = asked.await;
            let response = Box::pin(sent(answer, delivery, &form)).await;
            drop(place);
            response
        }
    }

    /// Takes no more creates, changes of namespaces and records; ends once every instance is closed or given up [AK-03], and records on their way
    /// are written or given up.
    pub(crate) async fn shut_down(&self) {
        self.namespaces.close();
        let written = async {
            tokio::select! {
                () = self.writer.shut_down() => {}
                () = self.clock.sleep(self.grace) => tracing::warn!("records on their way are given up"),
            }
        };
        tokio::join!(self.driver.shut_down(), written);
    }

    /// What a request asks of the engine, or the answer to one that asks it nothing.
    async fn hear<B: Body>(self: Arc<Self>, request: Request<B>, peer: Peer) -> Heard {
        let (head, body) = request.into_parts();
        let mut known = Known {
            route: None,
            media_type: V2,
        };
        let refusal = match self.pass(&head, body, &peer, &mut known).await {
            Ok(heard) => return heard,
            Err(refusal) => refusal,
        };
        let response = match (refusal, known.route) {
            (Refusal::Host(why), _) => reply::host_invalid(why),
            (Refusal::Route(why), _) => reply::no_route(why),
            (Refusal::Error(error), Some(route)) => reply::refused(&error, route, known.media_type),
            (Refusal::Error(_) | Refusal::Gone, _) => {
                peer.hang_up();
                // Any response would be on its way before the request ends, and this future with it.
                return future::pending().await;
            }
        };
        Heard::Answered(response.map(|bytes| ReplyBody::whole([bytes], None)))
    }

    async fn pass<B: Body>(
        &self,
        head: &Parts,
        body: B,
        peer: &Peer,
        known: &mut Known,
    ) -> Result<Heard, Refusal> {
        let origin = Origin::of(&head.headers, &head.uri, head.version, self.scheme, peer.local())?;
        let target = Target::find(&head.method, head.uri.path())?;
        known.route = Some(target.name());
        known.media_type = target.media_type();
        let credentials = headers::credentials(&head.headers)?.from_address(peer.addr().ip());
        let caller = self.tokens.check(&credentials).await.map_err(Error::from)?;
        let place = self.crowds.enter(caller.subject)?;
        if target.takes_body() {
            headers::content_type(&head.headers)?;
        }
        let mut hold = self.writer.admission().hold(caller.subject);
        let bound = match &target {
            Target::Consumer(_) | Target::Namespace(_) => Bound {
                most: BODY_BYTES,
                hold: None,
            },
            Target::Produce(_) => Bound {
                most: PRODUCE_BODY_BYTES,
                hold: Some(&mut hold),
            },
        };
        let body = self.read(body, bound).await?;
        let route = match target {
            Target::Consumer(route) => route,
            Target::Namespace(route) => {
                let done = self.namespaces.answer(route, caller, place).await?;
                let response = reply::managed(&done);
                return Ok(Heard::Answered(
                    response.map(|bytes| ReplyBody::whole([bytes], None)),
                ));
            }
            Target::Produce(route) => {
                route.path.is_of(&caller)?;
                let written = self
                    .writer
                    .answer(&caller.namespace, &route, body, (hold, place))
                    .await?;
                return Ok(Heard::Answered(
                    written.map(|bytes| ReplyBody::whole([bytes], None)),
                ));
            }
        };
        let operation = route.operation;
        let (mut accept, mut encoding) = (None, None);
        if operation.is_fetch() {
            let chosen = headers::accept(&head.headers)?;
            known.media_type = chosen.media_type;
            accept = Some(chosen);
            encoding = headers::encoding(&head.headers);
        }
        let format = accept.and_then(|accept: Accept| accept.format);
        let Parsed {
            group,
            instance,
            command,
        } = parse::parse(&route, head.uri.query(), &body, format, self.max_topics)?;
        let instance = match instance {
            Some(name) => name,
            None => new_name()?,
        };
        Ok(Heard::Question(Question {
            caller,
            command,
            peer: peer.clone(),
            place,
            form: Form {
                operation,
                media_type: known.media_type,
                encoding,
                origin,
                group,
                instance,
            },
        }))
    }

    async fn read<B: Body>(&self, body: B, bound: Bound<'_>) -> Result<Bytes, Refusal> {
        let time_limit = async { self.clock.sleep(self.body_timeout).await };
        body::read(body, bound, time_limit)
            .await
            .map_err(|fault| match fault.refusal() {
                Some(error) => Refusal::Error(error),
                None => Refusal::Gone,
            })
    }

    /// The engine's answer to a question, the form that it has, and the place that the request has until then.
    fn ask(&self, question: Question) -> (impl Future<Output = (Answer, Delivery)>, Form, Place) {
        let Question {
            caller,
            command,
            peer,
            place,
            form,
        } = question;
        let key = InstanceKey {
            subject: caller.subject,
            group: form.group.clone(),
            name: form.instance.clone(),
        };
        let asked = self.driver.request(caller.namespace, key, command, peer);
        (asked, form, place)
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}

/// The reply to a request whose service panicked: nothing of its insides [ER-08].
pub(crate) fn panicked() -> Response<ReplyBody> {
    reply::refused(&Error::Internal, "panicked", V2).map(|bytes| ReplyBody::whole([bytes], None))
}

/// What a request comes to once it is heard.
enum Heard {
    Question(Question),
    Answered(Response<ReplyBody>),
}

/// What the engine is asked.
struct Question {
    caller: Caller,
    command: Command,
    peer: Peer,
    /// The request's among its caller's.
    place: Place,
    form: Form,
}

/// What an answer's form depends on.
struct Form {
    operation: Operation,
    media_type: &'static str,
    encoding: Option<Encoding>,
    origin: Origin,
    group: Name,
    instance: Name,
}

impl Form {
    const fn asked(&self) -> Asked<'_> {
        Asked {
            operation: self.operation,
            media_type: self.media_type,
            origin: &self.origin,
            group: &self.group,
            instance: &self.instance,
        }
    }
}

/// What a refusal's form depends on, as far as it is known.
struct Known {
    /// The route's word for the log.
    route: Option<&'static str>,
    media_type: &'static str,
}

/// Why a request does not come to the engine.
enum Refusal {
    Host(HostInvalid),
    Route(NoRoute),
    Error(Error),
    /// Nobody is there to answer, or too slow for one: the request ends [D-32].
    Gone,
}

impl From<HostInvalid> for Refusal {
    fn from(why: HostInvalid) -> Self {
        Self::Host(why)
    }
}

impl From<NoRoute> for Refusal {
    fn from(why: NoRoute) -> Self {
        Self::Route(why)
    }
}

impl From<Error> for Refusal {
    fn from(why: Error) -> Self {
        Self::Error(why)
    }
}

/// A name for an instance whose create gives none [CR-03].
fn new_name() -> Result<Name, Error> {
    let digits = random::hex::<6>().map_err(|_| Error::Internal)?;
    Name::parse(&digits).ok_or(Error::Internal)
}

/// The engine's answer as a response whose delivery is watched. Records are compressed where that is wanted [D-36].
async fn sent(answer: Answer, delivery: Delivery, form: &Form) -> Response<ReplyBody> {
    let Answer { reply, body } = answer;
    let name = form.operation.name();
    let response = match reply {
        Ok(reply) => reply::done(reply, &form.asked()),
        Err(error) => reply::refused(&error, name, form.media_type).map(Content::Bytes),
    };
    let (mut head, content) = response.into_parts();
    let encoding = form.encoding.filter(|_| {
        body.as_ref()
            .is_some_and(|body| body.len().is_none_or(|len| len > LEAST))
    });
    let body = match (content, body) {
        (Content::Bytes(bytes), _) if bytes.is_empty() => {
            delivery.delivered();
            ReplyBody::empty()
        }
        (Content::Bytes(bytes), _) => ReplyBody::whole([bytes], Some(delivery.into_receipt())),
        (Content::Records(_), Some(body)) => {
            if let Some(encoding) = encoding {
                reply::encoded(&mut head.headers, encoding);
            }
            match records(body, encoding, delivery).await {
                Ok(body) => body,
                Err(error) => {
                    tracing::warn!(%error, "a reply can't be compressed");
                    let refused = reply::refused(&Error::Internal, name, form.media_type);
                    return refused.map(|bytes| ReplyBody::whole([bytes], None));
                }
            }
        }
        // The engine sends only what a call packed. Dropped with its delivery, the reply is fetched again.
        (Content::Records(_), None) => ReplyBody::empty(),
    };
    Response::from_parts(head, body)
}

/// The body of a reply with records.
async fn records(
    body: octopus_codec::Body,
    encoding: Option<Encoding>,
    delivery: Delivery,
) -> io::Result<ReplyBody> {
    Ok(match (body, encoding) {
        (octopus_codec::Body::Whole(slices), None) => ReplyBody::whole(slices, Some(delivery.into_receipt())),
        (octopus_codec::Body::Streamed(stream), None) => {
            ReplyBody::streamed(stream, Some(delivery.into_receipt()))
        }
        (octopus_codec::Body::Whole(slices), Some(encoding)) => {
            let bytes = compress::whole(encoding, slices).await?;
            ReplyBody::whole([bytes], Some(delivery.into_receipt()))
        }
        (octopus_codec::Body::Streamed(stream), Some(encoding)) => ReplyBody::made(
            compress::streamed(encoding, stream),
            Some(delivery.into_receipt()),
        ),
    })
}

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
    crowds::Crowds,
    driver::{Answer, Delivery, Driver},
    headers::{self, Accept, Encoding, V2},
    listener::Peer,
    namespaces::Namespaces,
    parse::{self, Parsed},
    produce::Writer,
    random,
    reply::{self, Asked, Content},
    route::{NoRoute, Target},
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
    pub(crate) async fn answer<B: Body>(&self, request: Request<B>, peer: &Peer) -> Response<ReplyBody> {
        let (head, body) = request.into_parts();
        let mut form = Form {
            route: None,
            media_type: V2,
        };
        let refusal = match self.pass(&head, body, peer, &mut form).await {
            Ok(response) => return response,
            Err(refusal) => refusal,
        };
        let response = match (refusal, form.route) {
            (Refusal::Host(why), _) => reply::host_invalid(why),
            (Refusal::Route(why), _) => reply::no_route(why),
            (Refusal::Error(error), Some(route)) => reply::refused(&error, route, form.media_type),
            (Refusal::Error(_) | Refusal::Gone, _) => {
                peer.hang_up();
                // Any response would be on its way before the request ends, and this future with it.
                return future::pending().await;
            }
        };
        response.map(|bytes| ReplyBody::whole([bytes], None))
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

    async fn pass<B: Body>(
        &self,
        head: &Parts,
        body: B,
        peer: &Peer,
        form: &mut Form,
    ) -> Result<Response<ReplyBody>, Refusal> {
        let origin = Origin::of(&head.headers, &head.uri, head.version, self.scheme, peer.local())?;
        let target = Target::find(&head.method, head.uri.path())?;
        form.route = Some(target.name());
        form.media_type = target.media_type();
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
                return Ok(reply::managed(&done).map(|bytes| ReplyBody::whole([bytes], None)));
            }
            Target::Produce(route) => {
                route.path.is_of(&caller)?;
                let written = self
                    .writer
                    .answer(&caller.namespace, &route, body, (hold, place))
                    .await?;
                return Ok(written.map(|bytes| ReplyBody::whole([bytes], None)));
            }
        };
        let operation = route.operation;
        let (mut accept, mut encoding) = (None, None);
        if operation.is_fetch() {
            let chosen = headers::accept(&head.headers)?;
            form.media_type = chosen.media_type;
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
        let (answer, delivery) = self.ask(caller, &group, &instance, command, peer).await;
        let asked = Asked {
            operation,
            media_type: form.media_type,
            origin: &origin,
            group: &group,
            instance: &instance,
        };
        Ok(sent(answer, delivery, &asked, encoding).await)
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

    async fn ask(
        &self,
        caller: Caller,
        group: &Name,
        instance: &Name,
        command: Command,
        peer: &Peer,
    ) -> (Answer, Delivery) {
        let Caller {
            subject, namespace, ..
        } = caller;
        let key = InstanceKey {
            subject,
            group: group.clone(),
            name: instance.clone(),
        };
        self.driver.request(namespace, key, command, peer.clone()).await
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

/// What a refusal's form depends on, as far as it is known.
struct Form {
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
async fn sent(
    answer: Answer,
    delivery: Delivery,
    asked: &Asked<'_>,
    encoding: Option<Encoding>,
) -> Response<ReplyBody> {
    let Answer { reply, body } = answer;
    let response = match reply {
        Ok(reply) => reply::done(reply, asked),
        Err(error) => reply::refused(&error, asked.operation.name(), asked.media_type).map(Content::Bytes),
    };
    let (mut head, content) = response.into_parts();
    let encoding = encoding.filter(|_| {
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
                    let name = asked.operation.name();
                    let refused = reply::refused(&Error::Internal, name, asked.media_type);
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

//! The token authority over HTTP: an OAuth 2.0 introspection endpoint (RFC 7662, section 2.1).

mod places;

use std::{fmt, sync::OnceLock, time::Duration};

use http::{StatusCode, Uri};
use octopus_auth::introspection::{Asking, Authority, Form, NoReply, Reply};
use octopus_kafka::security::{Secret, Tls};
use tokio::time::{Instant, timeout_at};

use self::places::{Bounds, Place, Places};
use crate::{listener::counted, outgoing};

/// The longest that one look-up may take, its wait for a place included.
const PATIENCE: Duration = Duration::from_secs(5);
/// The look-ups at once of any tokens: whoever makes tokens up does not make the service flood its authority, and one
/// address leaves some to others.
const PLACES: Bounds = Bounds {
    all: 48,
    of_one: 32,
    waiting_of_one: 1024,
};
/// The look-ups beside them, of tokens that held before: no crowd of others shuts these out.
const KEPT: Bounds = Bounds {
    all: 16,
    of_one: 16,
    waiting_of_one: 1024,
};

/// Asks an introspection endpoint, as a client with an id and a secret (HTTP Basic). Each look-up has a connection of its
/// own and 5 s in all. Of an answer 64 KiB are read; a redirect is not followed.
///
/// 64 go on at once. Addresses take turns (of IPv6 networks, /64), and one has at most half of the places, so that whoever
/// makes tokens up waits for its own; a quarter of them is kept for tokens that held before.
pub struct TokenAuthority {
    url: Uri,
    client_id: String,
    client_secret: Secret,
    tls: Tls,
    places: Places,
    kept: Places,
    /// How the authority wants id and secret written, once that is known.
    written: OnceLock<Written>,
    patience: Duration,
}

/// How id and secret are written before they are joined.
///
/// RFC 6749, section 2.3.1, has them encoded as in a form; many authorities take them as they are, and Globus Auth's own
/// SDK sends them so. Where the two differ and one is refused, the other is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    AsTheyAre,
    Encoded,
}

impl TokenAuthority {
    /// Asks the endpoint at `url`, as the client with this id and secret; `tls` says whether its certificate is to be
    /// believed.
    #[must_use]
    pub fn new(url: Uri, client_id: String, client_secret: Secret, tls: Tls) -> Self {
        Self {
            url,
            client_id,
            client_secret,
            tls,
            places: Places::new(PLACES),
            kept: Places::new(KEPT),
            written: OnceLock::new(),
            patience: PATIENCE,
        }
    }

    /// Waits for a place. `None` where too many of the same address wait.
    async fn place(&self, form: &Form) -> Option<Place> {
        let asker = form.address().map(counted);
        if !form.is_known() {
            return self.places.enter(asker).await;
        }
        match self.places.take(asker) {
            Some(place) => Some(place),
            None => self.kept.enter(asker).await,
        }
    }

    async fn look_up(&self, form: &Form) -> Result<Reply, NoReply> {
        if let Some(written) = self.written.get() {
            return self.send(form, *written).await;
        }
        let reply = self.send(form, Written::AsTheyAre).await?;
        let is_one = self.pair(Written::AsTheyAre) == self.pair(Written::Encoded);
        let (written, reply) = if reply.status == StatusCode::UNAUTHORIZED && !is_one {
            (Written::Encoded, self.send(form, Written::Encoded).await?)
        } else {
            (Written::AsTheyAre, reply)
        };
        if reply.status == StatusCode::OK {
            self.written.get_or_init(|| written);
        }
        Ok(reply)
    }

    async fn send(&self, form: &Form, written: Written) -> Result<Reply, NoReply> {
        let request = outgoing::form(&self.url, &self.pair(written), form.expose().to_owned())
            .ok_or_else(|| NoReply::new("the request can't be made"))?;
        let (status, body) = outgoing::send(request, &self.tls)
            .await
            .map_err(|why| NoReply::new(&why.to_string()))?;
        Ok(Reply {
            status: status.as_u16(),
            body,
        })
    }

    /// The id and the secret with a colon between.
    fn pair(&self, written: Written) -> String {
        let (id, secret) = (&self.client_id, self.client_secret.expose());
        match written {
            Written::AsTheyAre => format!("{id}:{secret}"),
            Written::Encoded => outgoing::encoded_pair(id, secret),
        }
    }
}

impl Authority for TokenAuthority {
    fn ask<'a>(&'a self, form: &'a Form) -> Asking<'a> {
        Box::pin(async {
            let end = Instant::now() + self.patience;
            let Ok(Some(_place)) = timeout_at(end, self.place(form)).await else {
                return Err(NoReply::no_place());
            };
            match timeout_at(end, self.look_up(form)).await {
                Ok(reply) => reply,
                Err(_) => {
                    let host = self.url.authority().map_or("", |authority| authority.as_str());
                    Err(NoReply::new(&format!("{host}: no answer in time")))
                }
            }
        })
    }
}

impl fmt::Debug for TokenAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenAuthority").field(&self.url).finish()
    }
}

#[cfg(test)]
mod tests;

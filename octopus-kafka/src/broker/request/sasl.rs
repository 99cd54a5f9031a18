//! SaslHandshake and SaslAuthenticate.

use std::time::Instant;

use bytes::{BufMut as _, Bytes, BytesMut};
use kafka_protocol::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};

use crate::broker::{
    api::{Head, Response, text},
    code,
    id::ConnectionId,
    machine::Machine,
};

impl Machine {
    pub(crate) fn sasl_handshake(
        &mut self,
        id: ConnectionId,
        head: &Head,
        request: &SaslHandshakeRequest,
    ) -> Response {
        let chosen = self.gate.handshake(id, &request.mechanism, head.version == 0);
        if chosen.is_err_and(|code| code == code::UNSUPPORTED_SASL_MECHANISM) {
            self.close_behind(id);
        }
        let response = SaslHandshakeResponse::default()
            .with_error_code(chosen.err().unwrap_or(code::NONE))
            .with_mechanisms(self.gate.offers().map(text).collect());
        Response::SaslHandshake(response)
    }

    pub(crate) fn sasl_authenticate(
        &mut self,
        id: ConnectionId,
        request: &SaslAuthenticateRequest,
        now: Instant,
    ) -> Response {
        let mut response = SaslAuthenticateResponse::default().with_error_message(None);
        match self
            .gate
            .authenticate(id, &request.auth_bytes, &mut self.ids, now)
        {
            Ok(step) => {
                response.auth_bytes = step.answer;
                let lifetime = step.lifetime.map_or(0, |lifetime| lifetime.as_millis());
                response.session_lifetime_ms = i64::try_from(lifetime).unwrap_or(i64::MAX);
            }
            Err(code) => {
                response.error_code = code;
                response.error_message = Some(text(if code == code::SASL_AUTHENTICATION_FAILED {
                    self.close_behind(id);
                    "Authentication failed: the name or the password is not right"
                } else {
                    "A SaslHandshake must come first"
                }));
            }
        }
        Response::SaslAuthenticate(response)
    }

    /// Takes a message that comes without the frame of a request.
    pub(crate) fn sasl_raw(&mut self, id: ConnectionId, message: &Bytes, now: Instant) {
        match self.gate.authenticate(id, message, &mut self.ids, now) {
            Ok(step) => {
                let mut out = BytesMut::new();
                out.put_u32(u32::try_from(step.answer.len()).unwrap_or(u32::MAX));
                out.put_slice(&step.answer);
                self.send(id, out.freeze());
            }
            Err(_) => self.close(id),
        }
    }
}

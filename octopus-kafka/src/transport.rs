//! How a connection to a broker is opened: TCP, and TLS over it where it is asked for.

use std::{io, pin::Pin, sync::Arc, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::{Instant, timeout_at},
};

use crate::security::Tls;

/// The longest that one connection may take to open.
const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// The silence after which the system asks whether the other side is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Both directions of a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A stream that is being opened.
pub(crate) type Opening = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Opens streams to addresses, `HOST:PORT`, each within a limit of its own.
pub(crate) type Dialer = Arc<dyn Fn(Arc<str>) -> Opening + Send + Sync>;

/// Plain TCP, or TLS over it.
pub(crate) fn dialer(tls: Option<Tls>) -> Dialer {
    Arc::new(move |address| {
        let tls = tls.clone();
        Box::pin(async move {
            let stream = connect(&address).await?;
            Ok(match tls {
                None => Box::new(stream) as Box<dyn Stream>,
                Some(tls) => Box::new(tls.connect(host(&address), stream).await?),
            })
        })
    })
}

/// The host of an address, as a certificate names it.
pub(crate) fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host)
}

/// Opens a connection by the first of the host's addresses that takes it.
async fn connect(address: &str) -> io::Result<TcpStream> {
    let deadline = Instant::now() + CONNECT_WAIT;
    let slow = |_| io::Error::from(io::ErrorKind::TimedOut);
    let found: Vec<_> = timeout_at(deadline, lookup_host(address))
        .await
        .map_err(slow)??
        .collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (i, one) in found.iter().enumerate() {
        // What is left is shared among those that are left, so that one that swallows packets leaves time for the next.
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(found.len() - i).unwrap_or(u32::MAX);
        match timeout_at(Instant::now() + share, TcpStream::connect(one)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE))?;
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_address_is_without_its_port_and_brackets() {
        for (address, name) in [
            ("kafka-1.example.org:9092", "kafka-1.example.org"),
            ("10.0.0.1:9092", "10.0.0.1"),
            ("[2001:db8::1]:9092", "2001:db8::1"),
            ("2001:db8::1:9092", "2001:db8::1"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(host(address), name);
        }
    }
}

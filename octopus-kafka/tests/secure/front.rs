//! What stands between the client and a broker: TLS, or a count of connections.

use std::{
    io::Cursor,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, copy_bidirectional},
    net::TcpStream,
    runtime::Builder,
    sync::oneshot,
};
use tokio_rustls::TlsAcceptor;

use super::certificate::Signed;

/// Listens on loopback and hands everything on, on a thread of its own: no test's runtime ends it.
pub(crate) struct Front {
    pub(crate) port: u16,
    accepted: Arc<AtomicUsize>,
    listener: TcpListener,
    /// Dropped, it ends the thread.
    ends: Vec<oneshot::Sender<()>>,
}

impl Front {
    /// Listens, and lets everybody wait.
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.set_nonblocking(true).expect("a listener");
        Self {
            port: listener.local_addr().expect("an address").port(),
            accepted: Arc::default(),
            listener,
            ends: Vec::new(),
        }
    }

    /// Its address by this name.
    pub(crate) fn address(&self, host: &str) -> String {
        format!("{host}:{}", self.port)
    }

    /// How many connections there were.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Serves: hands everything on to `address`, out of TLS where there is an acceptor.
    pub(crate) fn serve(&mut self, address: String, tls: Option<TlsAcceptor>) {
        let listener = self.listener.try_clone().expect("a listener");
        let accepted = Arc::clone(&self.accepted);
        let (end, ended) = oneshot::channel::<()>();
        self.ends.push(end);
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                tokio::select! {
                    _ = ended => {}
                    () = accept(listener, &address, tls, &accepted) => {}
                }
            });
        });
    }
}

async fn accept(listener: TcpListener, address: &str, tls: Option<TlsAcceptor>, accepted: &AtomicUsize) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        accepted.fetch_add(1, Ordering::Relaxed);
        let (address, tls) = (address.to_owned(), tls.clone());
        tokio::spawn(async move {
            match tls {
                None => hand_on(stream, &address).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        hand_on(stream, &address).await;
                    }
                }
            }
        });
    }
}

async fn hand_on(mut stream: impl AsyncRead + AsyncWrite + Unpin, address: &str) {
    if let Ok(mut broker) = TcpStream::connect(address).await {
        let _ = copy_bidirectional(&mut stream, &mut broker).await;
    }
}

/// A server's TLS that shows this certificate, and wants one of the client's that was signed by `clients`, if so.
pub(crate) fn acceptor(shown: &Signed, clients: Option<&str>) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("a front of a test");
    let config = match clients {
        None => config.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            roots
                .add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("a front of a test"))
                .expect("a front of a test");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            config.with_client_cert_verifier(verifier.build().expect("a front of a test"))
        }
    };
    let chain = CertificateDer::pem_reader_iter(Cursor::new(&shown.certificate));
    let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).expect("a front of a test");
    let config = config
        .with_single_cert(chain.collect::<Result<_, _>>().expect("certificates"), key)
        .expect("a front of a test");
    TlsAcceptor::from(Arc::new(config))
}

//! A token authority whose words are the test's.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    sync::watch,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use crate::token_of;

/// What it does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Mode {
    /// It says what it knows of the token.
    Answers,
    /// It sends these bytes.
    Bytes(Vec<u8>),
    /// It says nothing until it has another mode.
    Silent,
    /// It says what it knows of the tokens it was told of, and nothing of others until it has another mode.
    SilentOfOthers,
}

/// Answers introspection requests; a token that it was told nothing of is not active.
pub(crate) struct Authority {
    pub(crate) address: SocketAddr,
    is_tls: bool,
    mode: watch::Sender<Mode>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    answers: HashMap<String, String>,
    asked: Vec<String>,
}

impl Authority {
    pub(crate) async fn start() -> Self {
        Self::over(None).await
    }

    /// Over TLS, if there is an acceptor.
    pub(crate) async fn over(acceptor: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (mode, modes) = watch::channel(Mode::Answers);
        let authority = Self {
            address: listener.local_addr().unwrap(),
            is_tls: acceptor.is_some(),
            mode,
            state: Arc::default(),
        };
        let state = Arc::clone(&authority.state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (state, modes, acceptor) = (Arc::clone(&state), modes.clone(), acceptor.clone());
                tokio::spawn(async move {
                    match acceptor {
                        None => serve(stream, &state, modes).await,
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                serve(stream, &state, modes).await;
                            }
                        }
                    }
                });
            }
        });
        authority
    }

    pub(crate) fn url(&self) -> String {
        if self.is_tls {
            format!("https://localhost:{}/introspect", self.address.port())
        } else {
            format!("http://{}/introspect", self.address)
        }
    }

    /// Says this of a token from here on.
    pub(crate) fn knows(&self, token: &str, answer: String) {
        self.state.lock().unwrap().answers.insert(token_of(token), answer);
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.state.lock().unwrap().asked.len()
    }

    /// The requests, whole.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().asked.clone()
    }

    /// Waits until it was asked so often.
    pub(crate) async fn was_asked(&self, times: usize) {
        let asked = async {
            while self.asked() < times {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(60), asked).await.expect("a look-up");
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    state: &Mutex<State>,
    mut modes: watch::Receiver<Mode>,
) {
    let mut bytes = Vec::new();
    let (request, token) = loop {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && let Some(token) = body.strip_suffix("&include=identity_set")
        {
            let token = token.strip_prefix("token=").unwrap().to_owned();
            break (text, token);
        }
    };
    state.lock().unwrap().asked.push(request);
    let is_told = state.lock().unwrap().answers.contains_key(&token);
    let speaks = |mode: &Mode| match mode {
        Mode::Answers | Mode::Bytes(_) => true,
        Mode::SilentOfOthers => is_told,
        Mode::Silent => false,
    };
    let mode = modes.wait_for(speaks).await;
    let Ok(mode) = mode.map(|mode| mode.clone()) else {
        return;
    };
    let reply = match mode {
        Mode::Answers | Mode::SilentOfOthers => {
            let answer = state.lock().unwrap().answers.get(&token).cloned();
            let body = answer.unwrap_or_else(|| r#"{"active": false}"#.to_owned());
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
        }
        Mode::Bytes(bytes) => bytes,
        Mode::Silent => unreachable!("it was waited for"),
    };
    let _ = stream.write_all(&reply).await;
    let _ = stream.shutdown().await;
}

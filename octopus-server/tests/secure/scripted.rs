//! A broker that knows no password and repeats what it was told.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const API_VERSIONS: i16 = 18;
const SASL_HANDSHAKE: i16 = 17;
const SASL_AUTHENTICATE: i16 = 36;

/// Refuses every sign-in; its words have the whole of what was said to it. Gives its address.
pub(crate) async fn start() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

async fn serve(mut stream: TcpStream) {
    while let Ok(length) = stream.read_i32().await {
        let mut frame = vec![0; usize::try_from(length).unwrap()];
        if stream.read_exact(&mut frame).await.is_err() {
            return;
        }
        let mut answer = frame[4..8].to_vec();
        match i16::from_be_bytes([frame[0], frame[1]]) {
            API_VERSIONS => {
                // No error; three APIs with their lowest and highest versions, each with no tags; no throttle, no tags.
                answer.extend([0, 0, 4]);
                for (key, newest) in [(API_VERSIONS, 3), (SASL_HANDSHAKE, 1), (SASL_AUTHENTICATE, 2)] {
                    for number in [key, 0, newest] {
                        answer.extend(number.to_be_bytes());
                    }
                    answer.push(0);
                }
                answer.extend([0, 0, 0, 0, 0]);
            }
            SASL_HANDSHAKE => answer.extend(b"\0\0\0\0\0\x01\0\x05PLAIN"),
            _ => {
                let said: String = frame
                    .iter()
                    .filter(|b| b.is_ascii_graphic())
                    .map(|b| char::from(*b))
                    .collect();
                let words = format!("no user has said {said}");
                // No tags; SASL_AUTHENTICATION_FAILED; its words; no bytes; no session; no tags.
                answer.extend([0, 0, 58, u8::try_from(words.len() + 1).unwrap()]);
                answer.extend(words.as_bytes());
                answer.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            }
        }
        let mut whole = i32::try_from(answer.len()).unwrap().to_be_bytes().to_vec();
        whole.extend(answer);
        if stream.write_all(&whole).await.is_err() {
            return;
        }
    }
}

//! Has the client left?

use tokio::net::TcpStream;

/// Waits until the client has closed its side of the connection, by a FIN or a reset, no matter what it sent
/// before that nobody has read yet. A half-closed connection counts as left [RP-04].
#[cfg(any(target_os = "android", target_os = "linux"))]
pub async fn left(socket: &TcpStream) {
    // Every stream is registered for the end of its read side, and this interest waits for that alone: data
    // does not wake it, and it takes nothing from whoever reads or writes.
    watch(socket, tokio::io::Interest::PRIORITY).await;
}

/// Waits until the client has closed its side of the connection, by a FIN or a reset, no matter what it sent
/// before that nobody has read yet. A half-closed connection counts as left [RP-04].
#[cfg(not(any(target_os = "android", target_os = "linux")))]
pub async fn left(socket: &TcpStream) {
    watch_a_duplicate(socket).await;
}

/// Watches a second descriptor of the socket, whose readiness may be cleared without harm.
#[cfg(any(test, not(any(target_os = "android", target_os = "linux"))))]
async fn watch_a_duplicate(socket: &TcpStream) {
    let duplicate = socket2::SockRef::from(socket).try_clone().and_then(|socket| {
        let stream = std::net::TcpStream::from(socket);
        stream.set_nonblocking(true)?;
        TcpStream::from_std(stream)
    });
    match duplicate {
        Ok(duplicate) => watch(&duplicate, tokio::io::Interest::READABLE).await,
        // Without a descriptor to spare, only reading and writing can tell.
        Err(_) => std::future::pending().await,
    }
}

async fn watch(socket: &TcpStream, interest: tokio::io::Interest) {
    loop {
        match socket.ready(interest).await {
            Ok(ready) if ready.is_read_closed() || ready.is_error() => return,
            Ok(_) => {
                // Something else came: forget it, so that the wait goes on.
                let _ = socket.try_io(interest, || -> std::io::Result<()> {
                    Err(std::io::ErrorKind::WouldBlock.into())
                });
            }
            Err(_) => return, // The runtime ends.
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, time::Duration};

    use tokio::{io::AsyncWriteExt as _, net::TcpListener, time::timeout};

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    /// [RP-04]
    #[tokio::test]
    async fn a_client_that_leaves_is_noticed_behind_its_data() {
        for how in ["fin", "half-close", "reset"] {
            for data in [&b""[..], b"x"] {
                for is_first_way in [true, false] {
                    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
                    let (server, _) = listener.accept().await.unwrap();
                    let mut gone = pin!(async {
                        if is_first_way {
                            left(&server).await;
                        } else {
                            watch_a_duplicate(&server).await;
                        }
                    });

                    client.write_all(data).await.unwrap();
                    if !data.is_empty() {
                        server.readable().await.unwrap();
                    }
                    assert!(
                        timeout(Duration::from_millis(5), gone.as_mut()).await.is_err(),
                        "{how}: still there"
                    );

                    let mut kept = None;
                    match how {
                        "fin" => drop(client),
                        "reset" => {
                            client.set_zero_linger().unwrap();
                            drop(client);
                        }
                        _ => {
                            client.shutdown().await.unwrap();
                            kept = Some(client);
                        }
                    }
                    timeout(SOON, gone).await.expect(how);
                    drop(kept);
                }
            }
        }
    }

    #[tokio::test]
    async fn watching_takes_nothing_from_the_reader() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let mut gone = pin!(left(&server));
        for sent in 0..10u8 {
            client.write_all(&[sent]).await.unwrap();
            tokio::select! {
                () = &mut gone => panic!("left"),
                ready = server.readable() => ready.unwrap(),
            }
            let mut read = [0; 2];
            assert_eq!(server.try_read(&mut read).unwrap(), 1);
            assert_eq!(read[0], sent);
        }
    }
}

//! Many clients at once: no fate is lost, told twice or wrong.

use std::collections::HashMap;

use octopus_server::send::Fate;
use tokio::task::JoinSet;

use crate::{
    client::Client,
    counted::counted,
    over::Over,
    server::{Server, Told},
};

/// How the requests' numbers are dealt to clients that run at the same time.
const CLIENTS: u64 = 6;

/// [RP-05]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_all_and_closes_at_once_has_its_reply_delivered() {
    read_all_and_close(counted(true).await.0, 3_000).await;
}

/// [RP-05]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_has_one_whose_reply_is_copied() {
    read_all_and_close(counted(false).await.0, 3_000).await;
}

/// [RP-04] [RP-05]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_anywhere_has_one_fate_told_and_the_right_one() {
    leave_anywhere(counted(true).await.0).await;
}

/// [RP-04] [RP-05]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_anywhere_in_a_copy_has_one_fate_told_and_the_right_one() {
    leave_anywhere(counted(false).await.0).await;
}

/// [RP-05]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_has_one_over_tls() {
    read_all_and_close(Server::over(Over::Https1).await, 1_000).await;
}

/// [RP-05]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_has_one_over_http_2() {
    read_all_and_close(Server::over(Over::Http2).await, 1_000).await;
}

/// [RP-04] [RP-05]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_anywhere_over_tls_has_one_fate_told_and_the_right_one() {
    leave_anywhere(Server::over(Over::Https1).await).await;
}

/// [RP-04] [RP-05]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_anywhere_over_http_2_has_one_fate_told_and_the_right_one() {
    leave_anywhere(Server::over(Over::Http2).await).await;
}

async fn read_all_and_close(server: Server, requests: u64) {
    let door = server.door;
    let mut clients = JoinSet::new();
    for first in 0..CLIENTS {
        clients.spawn(async move {
            for id in (first..requests).step_by(6) {
                let mut client = Client::with_window(door, 1 << 20).await;
                let length = if id % 2 == 0 { 100 } else { 1_000_000 };
                client.get(&format!("/one/{length}?{id}")).await;
                let mut left = length;
                client.head().await;
                while left > 0 {
                    left -= client.some(1 << 20).await.len();
                }
                if id % 3 == 0 {
                    client.reset();
                }
            }
        });
    }
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
    let fates = fates(server).await;
    assert_eq!(fates.len() as u64, requests);
    assert!(fates.values().all(|fate| *fate == Fate::Delivered));
}

async fn leave_anywhere(server: Server) {
    const REQUESTS: u64 = 900;
    const LENGTH: usize = 2 * 1024 * 1024;
    /// The most that the two kernels hold of a reply: after that it may count as delivered.
    const HELD: usize = 450_000;

    let door = server.door;
    let mut clients = JoinSet::new();
    for first in 0..CLIENTS {
        clients.spawn(async move {
            let mut read_by = Vec::new();
            for id in (first..REQUESTS).step_by(6) {
                let mut dice = Dice(id);
                let kind = ["one", "slices", "streamed"][dice.throw(3)];
                let mut client = Client::with_window(door, 64 * 1024).await;
                client.get(&format!("/{kind}/{LENGTH}?{id}")).await;
                if dice.throw(3) == 0 && door.over != Over::Http2 {
                    client.begin().await;
                }
                let wanted = match dice.throw(4) {
                    0 => LENGTH,
                    1 => 1,
                    _ => 1 + dice.throw(LENGTH),
                };
                let read = if kind == "streamed" {
                    // Whole, or not to its end; the chunks' own bytes are few.
                    if wanted == LENGTH {
                        client.reply().await.body.len()
                    } else {
                        read(&mut client, wanted).await
                    }
                } else {
                    read(&mut client, wanted).await
                };
                if dice.throw(2) == 0 {
                    client.reset();
                }
                read_by.push((id, read));
            }
            read_by
        });
    }
    let mut read_by = Vec::new();
    while let Some(done) = clients.join_next().await {
        read_by.extend(done.unwrap());
    }
    let fates = fates(server).await;
    assert_eq!((fates.len() as u64, read_by.len() as u64), (REQUESTS, REQUESTS));
    let mut counts = HashMap::from([(Fate::Delivered, 0), (Fate::Dropped, 0)]);
    for (id, read) in read_by {
        let fate = fates[&id];
        *counts.get_mut(&fate).unwrap() += 1;
        if read >= LENGTH {
            assert_eq!(fate, Fate::Delivered, "request {id}");
        } else if read < LENGTH - HELD {
            assert_eq!(fate, Fate::Dropped, "request {id}, {read} bytes read");
        }
    }
    assert!(counts.values().all(|count| *count > 100), "{counts:?}");
}

async fn read(client: &mut Client, wanted: usize) -> usize {
    client.head().await;
    let mut read = 0;
    while read < wanted {
        read += client.some((wanted - read).min(100_000)).await.len();
    }
    read
}

/// What was told of each request, once each.
async fn fates(server: Server) -> HashMap<u64, Fate> {
    let mut fates = HashMap::new();
    for (id, told) in server.end().await {
        match told {
            Told::Fate(fate) => assert_eq!(fates.insert(id, fate), None, "request {id} has two fates"),
            Told::Started(_) => {}
            Told::Unanswered => panic!("request {id} was dropped in the service"),
        }
    }
    fates
}

/// Numbers that look thrown, the same in each run.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % sides as u64).unwrap()
    }
}

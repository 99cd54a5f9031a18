//! Reading past what fails.

use super::support::{PATIENCE, Session, TURN};

/// Reads until there are this many records, whatever fails meanwhile.
pub(crate) async fn read_on(one: &mut Session, count: usize) -> Vec<String> {
    let mut values = Vec::new();
    let read = tokio::time::timeout(PATIENCE, async {
        while values.len() < count {
            values.extend(one.turn(TURN).await.unwrap().values);
        }
    });
    read.await.expect("there are records");
    values
}

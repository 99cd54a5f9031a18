//! A cluster over a network that a test plays.

use std::{io, sync::Arc};

use tokio::io::DuplexStream;

use crate::{
    Cluster, Config,
    transport::{Dialer, Opening, Stream},
};

/// What a cluster and its consumers hold at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taken {
    /// Places on connections: one for each request without its answer, and for each lease.
    pub places: usize,
    /// Large answers.
    pub answers: usize,
    /// Their bytes.
    pub answer_bytes: usize,
    /// The bytes that consumers keep of replies that left records out.
    pub kept_bytes: usize,
}

impl Cluster {
    /// A cluster whose streams come from `dial`, which is given an address as `HOST:PORT`. Its waits are spread by
    /// `seed`: with a clock that is paused it does the same each time.
    pub fn played<F>(config: Config, seed: u64, dial: impl Fn(Arc<str>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<DuplexStream>> + Send + 'static,
    {
        let dialer: Dialer = Arc::new(move |address| {
            let opening = dial(address);
            Box::pin(async move { Ok(Box::new(opening.await?) as Box<dyn Stream>) }) as Opening
        });
        Self::over(config, dialer, Some(seed))
    }

    /// What it and its consumers hold at present.
    #[must_use]
    pub fn held(&self) -> Taken {
        self.taken()
    }
}

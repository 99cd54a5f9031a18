//! The engine, case by case: what goes in at which time, and what comes out.

mod auto_commit;
mod close;
mod create;
mod fetch;
mod lock;
mod offsets;
mod rejoin;
mod rush;
mod shutdown;
mod subscribe;
mod turns;
mod world;

//! One line for each fact and each action: kinds and numbers, never what a caller sent or Kafka holds.

use tracing::trace;

use crate::{Action, Command, Effect, Event};

pub(super) fn event(event: &Event) {
    match event {
        Event::Request { request, command, .. } => {
            trace!(request = request.0, command = command_name(command), "request");
        }
        Event::Done { call, outcome } => trace!(call = call.0, ok = outcome.is_ok(), "done"),
        Event::Delivered(request) => trace!(request = request.0, "delivered"),
        Event::Dropped(request) => trace!(request = request.0, "dropped"),
        Event::Rebalance(instance) => trace!(instance = instance.0, "rebalance"),
        Event::Lost(instance) => trace!(instance = instance.0, "lost"),
        Event::Shutdown => trace!("shutdown"),
    }
}

pub(super) fn action(action: &Action) {
    match action {
        Action::Call {
            call,
            instance,
            effect,
            within,
        } => {
            let effect = effect_name(effect);
            trace!(call = call.0, instance = instance.0, effect, ?within, "call");
        }
        Action::Hurry(call) => trace!(call = call.0, "hurry"),
        Action::Cancel(call) => trace!(call = call.0, "cancel"),
        Action::Reply { request, reply } => match reply {
            Ok(_) => trace!(request = request.0, "reply"),
            Err(error) => {
                let error_code = error.code().error_code();
                trace!(request = request.0, error_code, "reply");
            }
        },
        Action::Abort(request) => trace!(request = request.0, "abort"),
    }
}

const fn command_name(command: &Command) -> &'static str {
    match command {
        Command::Create(_) => "create",
        Command::Delete => "delete",
        Command::Subscribe(_) => "subscribe",
        Command::Subscription => "subscription",
        Command::Unsubscribe => "unsubscribe",
        Command::Assign(_) => "assign",
        Command::Assignments => "assignments",
        Command::Commit(_) => "commit",
        Command::Committed(_) => "committed",
        Command::Seek(_) => "seek",
        Command::SeekToBeginning(_) => "seek to beginning",
        Command::SeekToEnd(_) => "seek to end",
        Command::Fetch(_) => "fetch",
    }
}

const fn effect_name(effect: &Effect) -> &'static str {
    match effect {
        Effect::Open(_) => "open",
        Effect::Close => "close",
        Effect::Topics(_) => "topics",
        Effect::Join(_) => "join",
        Effect::Leave => "leave",
        Effect::Fetch(_) => "fetch",
        Effect::Commit(_) => "commit",
        Effect::Committed(_) => "committed",
        Effect::Start(_) => "start",
        Effect::Bounds(..) => "bounds",
    }
}

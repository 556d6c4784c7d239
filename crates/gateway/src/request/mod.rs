//! One request's walk.
mod accept;
mod forwarded;
mod head;
mod hop_by_hop;
mod host;
mod request_id;
mod service_time;

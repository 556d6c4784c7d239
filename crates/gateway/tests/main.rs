//! The gateway as its clients see it: real sockets, a real server behind it.

mod downstream_certificates;
mod downstream_http1;
mod downstream_http2;
mod downstream_life;
mod downstream_preface;
mod downstream_tls;
mod frames;
mod request_forward;
mod request_head;
mod request_house;
mod request_log;
mod request_permits;
mod request_refusal;
mod request_route;
mod request_slow;
mod request_upgrade;
mod support;
mod tls_sessions;
mod truncated;
mod waiting_room;
mod waiting_room_apart;
mod waiting_room_forms;
mod waiting_room_outage;
mod waiting_room_prefetch;
mod watch;

//! The gateway as its clients see it: real sockets, a real server behind it.

mod downstream_http1;
mod request_forward;
mod request_head;
mod request_house;
mod request_log;
mod request_permits;
mod request_refusal;
mod request_upgrade;
mod downstream_preface;
mod downstream_tls;
mod support;
mod watch;

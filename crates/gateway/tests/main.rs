//! The gateway as its clients see it: real sockets, a real server behind it.

mod downstream_http1;
mod support;

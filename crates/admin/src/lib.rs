//! The HTTP API, metrics and health of a running gateway.

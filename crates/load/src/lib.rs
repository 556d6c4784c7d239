//! The load generator: open load without coordinated omission, and people's sessions.

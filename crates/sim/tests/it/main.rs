//! The simulator from outside: the same run twice, what emerges from its models, the faults the swarm is proved by.

mod determinism;
mod emergence;
mod lead;
mod planted;
mod room;
mod tls;
mod worlds;

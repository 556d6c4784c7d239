//! The one binary: parse, wire, print, exit code.

fn main() {}
